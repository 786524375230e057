//! Service mesh (Consul Connect) blocks of a service. They are stored and shown; no code acts on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Dur, LogConfig, Resources, Str};

/// A service's part in a mesh: native integration, a sidecar or a gateway.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulConnect {
    pub native: bool,
    pub sidecar_service: Option<ConsulSidecarService>,
    pub sidecar_task: Option<SidecarTask>,
    pub gateway: Option<ConsulGateway>,
}

/// The service that a sidecar registers for itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulSidecarService {
    pub tags: Option<Vec<Str>>,
    pub port: Str,
    pub proxy: Option<ConsulProxy>,
    #[serde(rename = "DisableDefaultTCPCheck")]
    pub disable_default_tcp_check: bool,
    pub meta: Option<BTreeMap<Str, Str>>,
}

/// Settings of a sidecar's proxy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulProxy {
    pub local_service_address: Str,
    /// Port of the service behind the proxy; 0: the service's own.
    pub local_service_port: i64,
    pub upstreams: Option<Vec<ConsulUpstream>>,
    pub expose: Option<ConsulExposeConfig>,
    pub config: Option<BTreeMap<Str, Value>>,
}

/// A service that the proxy makes reachable locally.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulUpstream {
    pub destination_name: Str,
    pub destination_namespace: Str,
    pub destination_peer: Str,
    pub destination_type: Str,
    /// Port on which the proxy listens for tasks.
    pub local_bind_port: i64,
    pub datacenter: Str,
    pub local_bind_address: Str,
    pub local_bind_socket_path: Str,
    pub local_bind_socket_mode: Str,
    pub mesh_gateway: ConsulMeshGateway,
    pub config: Option<BTreeMap<Str, Value>>,
}

/// The mode in which traffic to other datacenters is routed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulMeshGateway {
    pub mode: Str,
}

/// Paths that bypass the mesh's authentication.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulExposeConfig {
    pub paths: Option<Vec<ConsulExposePath>>,
}

/// A path that bypasses the mesh's authentication, with its ports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulExposePath {
    pub path: Str,
    pub protocol: Str,
    pub local_path_port: i64,
    pub listener_port: Str,
}

/// Overrides for the task that runs the proxy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SidecarTask {
    pub name: Str,
    pub driver: Str,
    pub user: Str,
    pub config: Option<BTreeMap<Str, Value>>,
    pub env: Option<BTreeMap<Str, Str>>,
    pub resources: Option<Resources>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub kill_timeout: Option<Dur>,
    pub log_config: Option<LogConfig>,
    pub shutdown_delay: Option<Dur>,
    pub kill_signal: Str,
}

/// An ingress, terminating or mesh gateway. `A` is the form of its proxy's addresses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase", bound(deserialize = "A: Deserialize<'de> + Default"))]
pub struct ConsulGateway<A = ConsulGatewayBindAddress> {
    pub proxy: Option<ConsulGatewayProxy<A>>,
    pub ingress: Option<ConsulIngressConfigEntry>,
    pub terminating: Option<ConsulTerminatingConfigEntry>,
    pub mesh: Option<ConsulMeshConfigEntry>,
}

/// Settings of a gateway's proxy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase", bound(deserialize = "A: Deserialize<'de> + Default"))]
pub struct ConsulGatewayProxy<A = ConsulGatewayBindAddress> {
    /// Longest wait for a connection to a service.
    pub connect_timeout: Option<Dur>,
    pub envoy_gateway_bind_tagged_addresses: bool,
    pub envoy_gateway_bind_addresses: Option<BTreeMap<Str, A>>,
    pub envoy_gateway_no_default_bind: bool,
    #[serde(rename = "EnvoyDNSDiscoveryType")]
    pub envoy_dns_discovery_type: Str,
    pub config: Option<BTreeMap<Str, Value>>,
}

/// An address and port that a gateway listens on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayBindAddress {
    pub address: Str,
    pub port: i64,
}

/// TLS settings of an ingress gateway.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayTlsConfig {
    pub enabled: bool,
    #[serde(rename = "TLSMinVersion")]
    pub tls_min_version: Str,
    #[serde(rename = "TLSMaxVersion")]
    pub tls_max_version: Str,
    pub cipher_suites: Option<Vec<Str>>,
}

/// The listeners of an ingress gateway.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulIngressConfigEntry {
    #[serde(rename = "TLS")]
    pub tls: Option<ConsulGatewayTlsConfig>,
    pub listeners: Option<Vec<ConsulIngressListener>>,
}

/// One port and the services behind it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulIngressListener {
    pub port: i64,
    pub protocol: Str,
    pub services: Option<Vec<ConsulIngressService>>,
}

/// One service behind a listener.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulIngressService {
    pub name: Str,
    pub hosts: Option<Vec<Str>>,
}

/// The external services of a terminating gateway.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulTerminatingConfigEntry {
    pub services: Option<Vec<ConsulLinkedService>>,
}

/// One external service with its TLS files.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulLinkedService {
    pub name: Str,
    #[serde(rename = "CAFile")]
    pub ca_file: Str,
    pub cert_file: Str,
    pub key_file: Str,
    #[serde(rename = "SNI")]
    pub sni: Str,
}

/// A mesh gateway; has no fields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsulMeshConfigEntry {}
