//! Services, checks and mesh blocks as submitted. Most mesh blocks have the same form when stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::task::DEFAULT_KILL_TIMEOUT;
use super::{ConsulGateway, LogConfig, Resources, non_empty, non_empty_map, rows};
use crate::{ConsulExposePath, ConsulMeshGateway, Dur, Str};

/// `Service` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Service {
    pub name: Str,
    pub tags: Option<Vec<Str>>,
    pub canary_tags: Option<Vec<Str>>,
    pub enable_tag_override: bool,
    pub port_label: Str,
    pub address_mode: Str,
    pub address: Str,
    pub checks: Option<Vec<ServiceCheck>>,
    pub check_restart: Option<CheckRestart>,
    pub connect: Option<ConsulConnect>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub canary_meta: Option<BTreeMap<Str, Str>>,
    pub tagged_addresses: Option<BTreeMap<Str, Str>>,
    pub task_name: Str,
    pub on_update: Str,
    pub provider: Str,
}

/// `ServiceCheck` as submitted; `Advertise` is accepted and not stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceCheck {
    pub name: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub command: Str,
    pub args: Option<Vec<Str>>,
    pub path: Str,
    pub protocol: Str,
    pub port_label: Str,
    pub expose: bool,
    pub address_mode: Str,
    pub advertise: Str,
    pub interval: Dur,
    pub timeout: Dur,
    pub initial_status: Str,
    #[serde(rename = "TLSServerName")]
    pub tls_server_name: Str,
    #[serde(rename = "TLSSkipVerify")]
    pub tls_skip_verify: bool,
    pub header: Option<BTreeMap<Str, Option<Vec<Str>>>>,
    pub method: Str,
    pub check_restart: Option<CheckRestart>,
    #[serde(rename = "GRPCService")]
    pub grpc_service: Str,
    #[serde(rename = "GRPCUseTLS")]
    pub grpc_use_tls: bool,
    pub task_name: Str,
    pub success_before_passing: i64,
    pub failures_before_critical: i64,
    pub body: Str,
    pub on_update: Str,
}

/// `CheckRestart` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CheckRestart {
    pub limit: i64,
    pub grace: Option<Dur>,
    pub ignore_warnings: bool,
}

/// `ConsulConnect` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulConnect {
    pub native: bool,
    pub gateway: Option<ConsulGateway>,
    pub sidecar_service: Option<ConsulSidecarService>,
    pub sidecar_task: Option<SidecarTask>,
}

/// `ConsulSidecarService` as submitted.
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

/// `ConsulProxy` as submitted; `Expose` also has an older name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulProxy {
    pub local_service_address: Str,
    pub local_service_port: i64,
    pub expose: Option<ConsulExposeConfig>,
    pub expose_config: Option<ConsulExposeConfig>,
    pub upstreams: Option<Vec<ConsulUpstream>>,
    pub config: Option<BTreeMap<Str, Value>>,
}

/// `ConsulExposeConfig` as submitted; `Paths` also has an older name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulExposeConfig {
    pub paths: Option<Vec<ConsulExposePath>>,
    pub path: Option<Vec<ConsulExposePath>>,
}

/// `ConsulUpstream` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulUpstream {
    pub destination_name: Str,
    pub destination_namespace: Str,
    pub destination_peer: Str,
    pub destination_type: Str,
    pub local_bind_port: i64,
    pub datacenter: Str,
    pub local_bind_address: Str,
    pub local_bind_socket_path: Str,
    pub local_bind_socket_mode: Str,
    pub mesh_gateway: Option<ConsulMeshGateway>,
    pub config: Option<BTreeMap<Str, Value>>,
}

/// `SidecarTask` as submitted.
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

impl Service {
    /// Fills in absent fields; `default_name` is the name of a service without one.
    pub(crate) fn canonicalize(&mut self, default_name: &str) {
        let set = |field: &mut Str, default: &str| {
            if field.is_empty() {
                *field = default.into();
            }
        };
        set(&mut self.name, default_name);
        set(&mut self.address_mode, "auto");
        set(&mut self.on_update, "require_healthy");
        set(&mut self.provider, "consul");
        self.meta = non_empty_map(self.meta.take());
        self.canary_meta = non_empty_map(self.canary_meta.take());
        self.tagged_addresses = non_empty_map(self.tagged_addresses.take());
        if let Some(connect) = &mut self.connect {
            connect.canonicalize();
        }
        for check in self.checks.iter_mut().flatten() {
            check.check_restart = CheckRestart::merged(self.check_restart.clone(), check.check_restart.take());
            if let Some(restart) = &mut check.check_restart {
                restart.grace.get_or_insert(Dur::from_secs(1));
            }
            check.success_before_passing = check.success_before_passing.max(0);
            check.failures_before_critical = check.failures_before_critical.max(0);
            set(&mut check.on_update, &self.on_update);
        }
    }

    pub(crate) fn into_row(self) -> crate::Service {
        crate::Service {
            name: self.name,
            task_name: self.task_name,
            port_label: self.port_label,
            address_mode: self.address_mode,
            address: self.address,
            enable_tag_override: self.enable_tag_override,
            tags: self.tags,
            canary_tags: self.canary_tags,
            checks: rows(self.checks, ServiceCheck::into_row),
            connect: self.connect.map(ConsulConnect::into_row),
            meta: self.meta,
            canary_meta: self.canary_meta,
            tagged_addresses: self.tagged_addresses,
            namespace: Str::default(),
            on_update: self.on_update,
            provider: self.provider,
        }
    }
}

impl ServiceCheck {
    fn into_row(self) -> crate::ServiceCheck {
        crate::ServiceCheck {
            name: self.name,
            kind: self.kind,
            command: self.command,
            args: self.args,
            path: self.path,
            protocol: self.protocol,
            port_label: self.port_label,
            expose: self.expose,
            address_mode: self.address_mode,
            interval: self.interval,
            timeout: self.timeout,
            initial_status: self.initial_status,
            tls_server_name: self.tls_server_name,
            tls_skip_verify: self.tls_skip_verify,
            method: self.method,
            header: self.header,
            check_restart: self.check_restart.map(|restart| crate::CheckRestart {
                limit: restart.limit,
                grace: restart.grace.unwrap_or_default(),
                ignore_warnings: restart.ignore_warnings,
            }),
            grpc_service: self.grpc_service,
            grpc_use_tls: self.grpc_use_tls,
            task_name: self.task_name,
            success_before_passing: self.success_before_passing,
            failures_before_critical: self.failures_before_critical,
            body: self.body,
            on_update: self.on_update,
        }
    }
}

impl CheckRestart {
    fn merged(service: Option<Self>, check: Option<Self>) -> Option<Self> {
        match (service, check) {
            (Some(service), Some(check)) => Some(Self {
                limit: if check.limit > 0 { check.limit } else { service.limit },
                grace: check.grace.or(service.grace),
                ignore_warnings: check.ignore_warnings || service.ignore_warnings,
            }),
            (service, check) => check.or(service),
        }
    }
}

impl ConsulConnect {
    fn canonicalize(&mut self) {
        if let Some(service) = &mut self.sidecar_service {
            service.tags = non_empty(service.tags.take());
            service.meta = non_empty_map(service.meta.take());
            if let Some(proxy) = &mut service.proxy {
                proxy.canonicalize();
            }
        }
        if let Some(task) = &mut self.sidecar_task {
            task.canonicalize();
        }
        if let Some(gateway) = &mut self.gateway {
            gateway.canonicalize();
        }
    }

    fn into_row(self) -> crate::ConsulConnect {
        crate::ConsulConnect {
            native: self.native,
            sidecar_service: self.sidecar_service.map(|service| crate::ConsulSidecarService {
                tags: service.tags,
                port: service.port,
                proxy: service.proxy.map(ConsulProxy::into_row),
                disable_default_tcp_check: service.disable_default_tcp_check,
                meta: service.meta,
            }),
            sidecar_task: self.sidecar_task.map(SidecarTask::into_row),
            gateway: self.gateway.map(ConsulGateway::into_row),
        }
    }
}

impl ConsulProxy {
    fn canonicalize(&mut self) {
        self.upstreams = non_empty(self.upstreams.take());
        self.config = non_empty_map(self.config.take());
        for upstream in self.upstreams.iter_mut().flatten() {
            upstream.config = non_empty_map(upstream.config.take());
        }
    }

    fn into_row(self) -> crate::ConsulProxy {
        crate::ConsulProxy {
            local_service_address: self.local_service_address,
            local_service_port: self.local_service_port,
            upstreams: self.upstreams.map(|upstreams| upstreams.into_iter().map(ConsulUpstream::into_row).collect()),
            expose: self
                .expose
                .or(self.expose_config)
                .map(|expose| crate::ConsulExposeConfig { paths: non_empty(expose.paths).or(non_empty(expose.path)) }),
            config: self.config,
        }
    }
}

impl ConsulUpstream {
    fn into_row(self) -> crate::ConsulUpstream {
        crate::ConsulUpstream {
            destination_name: self.destination_name,
            destination_namespace: self.destination_namespace,
            destination_peer: self.destination_peer,
            destination_type: if self.destination_type.is_empty() { "service".into() } else { self.destination_type },
            local_bind_port: self.local_bind_port,
            datacenter: self.datacenter,
            local_bind_address: self.local_bind_address,
            local_bind_socket_path: self.local_bind_socket_path,
            local_bind_socket_mode: self.local_bind_socket_mode,
            mesh_gateway: self.mesh_gateway.unwrap_or_default(),
            config: self.config,
        }
    }
}

impl SidecarTask {
    fn canonicalize(&mut self) {
        self.config = non_empty_map(self.config.take());
        self.env = non_empty_map(self.env.take());
        self.meta = non_empty_map(self.meta.take());
        if let Some(resources) = &mut self.resources {
            resources.canonicalize();
        }
        self.kill_timeout.get_or_insert(DEFAULT_KILL_TIMEOUT);
        self.log_config.get_or_insert_default().canonicalize();
        self.shutdown_delay.get_or_insert(Dur::ZERO);
    }

    fn into_row(self) -> crate::SidecarTask {
        crate::SidecarTask {
            name: self.name,
            driver: self.driver,
            user: self.user,
            config: self.config,
            env: self.env,
            resources: self.resources.map(Resources::into_row),
            meta: self.meta,
            kill_timeout: self.kill_timeout,
            log_config: self.log_config.map(LogConfig::into_row),
            shutdown_delay: self.shutdown_delay,
            kill_signal: self.kill_signal,
        }
    }
}
