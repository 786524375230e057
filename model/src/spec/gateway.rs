//! Gateways of the service mesh as submitted. Entries without optional scalars have the same form when stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{non_empty, non_empty_map};
use crate::{ConsulIngressConfigEntry, ConsulMeshConfigEntry, ConsulTerminatingConfigEntry, Dur, Str};

/// `ConsulGateway` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGateway {
    pub proxy: Option<ConsulGatewayProxy>,
    pub ingress: Option<ConsulIngressConfigEntry>,
    pub terminating: Option<ConsulTerminatingConfigEntry>,
    pub mesh: Option<ConsulMeshConfigEntry>,
}

/// `ConsulGatewayProxy` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayProxy {
    pub connect_timeout: Option<Dur>,
    pub envoy_gateway_bind_tagged_addresses: bool,
    pub envoy_gateway_bind_addresses: Option<BTreeMap<Str, ConsulGatewayBindAddress>>,
    pub envoy_gateway_no_default_bind: bool,
    #[serde(rename = "EnvoyDNSDiscoveryType")]
    pub envoy_dns_discovery_type: Str,
    pub config: Option<BTreeMap<Str, Value>>,
}

/// `ConsulGatewayBindAddress` as submitted; `Name` repeats the key of the map and is not stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayBindAddress {
    pub name: Str,
    pub address: Str,
    pub port: i64,
}

/// Connect timeout of a gateway's proxy without one.
const DEFAULT_CONNECT_TIMEOUT: Dur = Dur::from_secs(5);

impl ConsulGateway {
    pub(super) fn canonicalize(&mut self) {
        if let Some(proxy) = &mut self.proxy {
            proxy.connect_timeout.get_or_insert(DEFAULT_CONNECT_TIMEOUT);
            proxy.envoy_gateway_bind_addresses = non_empty_map(proxy.envoy_gateway_bind_addresses.take());
            proxy.config = non_empty_map(proxy.config.take());
        }
        if let Some(ingress) = &mut self.ingress {
            canonicalize_ingress(ingress);
        }
        if let Some(terminating) = &mut self.terminating {
            terminating.services = non_empty(terminating.services.take());
        }
    }

    pub(super) fn into_row(self) -> crate::ConsulGateway {
        crate::ConsulGateway {
            proxy: self.proxy.map(ConsulGatewayProxy::into_row),
            ingress: self.ingress,
            terminating: self.terminating,
            mesh: self.mesh,
        }
    }
}

fn canonicalize_ingress(ingress: &mut ConsulIngressConfigEntry) {
    ingress.listeners = non_empty(ingress.listeners.take());
    for listener in ingress.listeners.iter_mut().flatten() {
        if listener.protocol.is_empty() {
            listener.protocol = "tcp".into();
        }
        listener.services = non_empty(listener.services.take());
        for service in listener.services.iter_mut().flatten() {
            service.hosts = non_empty(service.hosts.take());
        }
    }
}

impl ConsulGatewayProxy {
    fn into_row(self) -> crate::ConsulGatewayProxy {
        let row = |address: ConsulGatewayBindAddress| crate::ConsulGatewayBindAddress {
            address: address.address,
            port: address.port,
        };
        crate::ConsulGatewayProxy {
            connect_timeout: self.connect_timeout,
            envoy_gateway_bind_tagged_addresses: self.envoy_gateway_bind_tagged_addresses,
            envoy_gateway_bind_addresses: self
                .envoy_gateway_bind_addresses
                .map(|addresses| addresses.into_iter().map(|(name, address)| (name, row(address))).collect()),
            envoy_gateway_no_default_bind: self.envoy_gateway_no_default_bind,
            envoy_dns_discovery_type: self.envoy_dns_discovery_type,
            config: self.config,
        }
    }
}
