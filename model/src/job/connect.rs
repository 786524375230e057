//! Service mesh: the proxy tasks that are added to a job, and what a group needs for them.

use std::collections::BTreeMap;

use serde_json::json;

use super::implied::constraint;
use crate::{
    ConsulConnect, ConsulGateway, ConsulGatewayBindAddress, ConsulGatewayProxy, Dur, Job, LogConfig, Port, Resources,
    RestartPolicy, Service, SidecarTask, Str, Task, TaskGroup, TaskLifecycleConfig,
};

impl Job {
    /// Adds the proxies that services of the mesh need, and their ports.
    pub(super) fn inject_connect(&mut self) -> Result<(), String> {
        let id = self.id.clone();
        for group in self.task_groups.iter_mut().flatten() {
            // Validation reports the missing network.
            if group.networks.as_ref().is_none_or(Vec::is_empty) {
                continue;
            }
            let mut services = group.services.take();
            let outcome = services.iter_mut().flatten().try_for_each(|service| inject(&id, group, service));
            group.services = services;
            outcome?;
        }
        Ok(())
    }

    /// Checks that the groups of mesh services have what their proxies need; returns the first error.
    pub(super) fn validate_connect(&self) -> Result<(), String> {
        for group in self.groups() {
            for service in group.services.iter().flatten() {
                let Some(connect) = &service.connect else { continue };
                if connect.sidecar_service.is_some() {
                    validate_sidecar(group, service)?;
                } else if connect.native && service.provider != "nomad" {
                    validate_native(group, service)?;
                } else if connect.gateway.is_some() {
                    validate_gateway(group)?;
                }
            }
            validate_upstreams(group)?;
        }
        Ok(())
    }
}

impl ConsulConnect {
    /// Checks that exactly one of native, sidecar and gateway is set.
    pub(super) fn validate(&self) -> Result<(), String> {
        let ways = [self.native, self.sidecar_service.is_some(), self.gateway.is_some()];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Err(
                "Consul Connect must be exclusively native, make use of a sidecar, or represent a Gateway".into()
            );
        }
        self.gateway.as_ref().map_or(Ok(()), ConsulGateway::validate)
    }
}

impl ConsulGateway {
    fn validate(&self) -> Result<(), String> {
        if let Some(proxy) = &self.proxy {
            proxy.validate()?;
        }
        if let Some(ingress) = &self.ingress {
            let Some(listeners) = ingress.listeners.as_ref().filter(|list| !list.is_empty()) else {
                return Err("Consul Ingress Gateway requires at least one listener".into());
            };
            listeners.iter().try_for_each(crate::ConsulIngressListener::validate)?;
        }
        if let Some(terminating) = &self.terminating {
            let Some(services) = terminating.services.as_ref().filter(|list| !list.is_empty()) else {
                return Err("Consul Terminating Gateway requires at least one service".into());
            };
            services.iter().try_for_each(crate::ConsulLinkedService::validate)?;
        }
        let kinds = [self.ingress.is_some(), self.terminating.is_some(), self.mesh.is_some()];
        if kinds.into_iter().filter(|kind| *kind).count() != 1 {
            return Err("One Consul Gateway Configuration must be set".into());
        }
        Ok(())
    }

    /// Prefix of the names of the gateway's tasks.
    fn prefix(&self) -> &'static str {
        if self.mesh.is_some() {
            "connect-mesh"
        } else if self.ingress.is_some() {
            "connect-ingress"
        } else {
            "connect-terminating"
        }
    }
}

impl ConsulGatewayProxy {
    fn validate(&self) -> Result<(), String> {
        if !matches!(self.envoy_dns_discovery_type.as_str(), "" | "STRICT_DNS" | "LOGICAL_DNS") {
            return Err("Consul Gateway Proxy Envoy DNS Discovery type must be STRICT_DNS or LOGICAL_DNS".into());
        }
        for address in self.envoy_gateway_bind_addresses.iter().flatten().map(|(_, address)| address) {
            if address.address.is_empty() {
                return Err("Consul Gateway Bind Address must be set".into());
            }
            // -1 stands for a port that is assigned later.
            if address.port <= 0 && address.port != -1 {
                return Err("Consul Gateway Bind Address must set valid Port".into());
            }
        }
        Ok(())
    }
}

impl crate::ConsulIngressListener {
    fn validate(&self) -> Result<(), String> {
        if self.port <= 0 {
            return Err("Consul Ingress Listener requires valid Port".into());
        }
        if !matches!(self.protocol.as_str(), "tcp" | "http" | "http2" | "grpc") {
            return Err(format!(
                "Consul Ingress Listener requires protocol of tcp, http, http2, grpc, got {:?}",
                self.protocol
            ));
        }
        let Some(services) = self.services.as_ref().filter(|list| !list.is_empty()) else {
            return Err("Consul Ingress Listener requires one or more services".into());
        };
        for service in services {
            if service.name.is_empty() {
                return Err("Consul Ingress Service requires a name".into());
            }
            let hosts = service.hosts.as_ref().is_some_and(|hosts| !hosts.is_empty());
            if self.protocol == "tcp" {
                if service.name == "*" {
                    return Err("Consul Ingress Service doesn't support wildcard name for \"tcp\" protocol".into());
                }
                if hosts {
                    return Err("Consul Ingress Service doesn't support associating hosts to a service for the \"tcp\" protocol".into());
                }
            } else if service.name == "*" && hosts {
                return Err(
                    "Consul Ingress Service with a wildcard \"*\" service name can not also specify hosts".into()
                );
            }
        }
        Ok(())
    }
}

impl crate::ConsulLinkedService {
    fn validate(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("Consul Linked Service requires Name".into());
        }
        let (ca, cert, key) = (!self.ca_file.is_empty(), !self.cert_file.is_empty(), !self.key_file.is_empty());
        if (cert || key) && !ca {
            return Err("Consul Linked Service TLS requires CAFile".into());
        }
        if cert != key {
            return Err("Consul Linked Service TLS Cert and Key must both be set".into());
        }
        if !self.sni.is_empty() && !ca {
            return Err("Consul Linked Service TLS SNI requires CAFile".into());
        }
        Ok(())
    }
}

fn validate_sidecar(group: &TaskGroup, service: &Service) -> Result<(), String> {
    let networks = group.networks.as_deref().unwrap_or_default();
    let [network] = networks else {
        return Err(format!(
            "Consul Connect sidecars require exactly 1 network, found {} in group {:?}",
            networks.len(),
            group.name
        ));
    };
    if network.mode != "bridge" {
        return Err(format!(
            "Consul Connect sidecar requires bridge network, found {:?} in group {:?}",
            network.mode, group.name
        ));
    }
    // The mesh lower-cases names in some places only, so capitals are refused.
    if service.name.contains(char::is_uppercase) {
        return Err(format!(
            "Consul Connect service name {:?} in group {:?} must not contain uppercase characters",
            service.name, group.name
        ));
    }
    if group.name.contains(char::is_uppercase) {
        return Err(format!(
            "Consul Connect group {:?} with service {:?} must not contain uppercase characters",
            group.name, service.name
        ));
    }
    Ok(())
}

fn validate_native(group: &TaskGroup, service: &Service) -> Result<(), String> {
    if service.task_name.is_empty() {
        return Err(format!("Consul Connect Native service {:?} requires task name", service.name));
    }
    if group.task(&service.task_name).is_none() {
        return Err(format!(
            "Consul Connect Native service {:?} requires undefined task {:?} in group {:?}",
            service.name, service.task_name, group.name
        ));
    }
    Ok(())
}

fn validate_gateway(group: &TaskGroup) -> Result<(), String> {
    let networks = group.networks.as_deref().unwrap_or_default();
    let [network] = networks else {
        return Err(format!(
            "Consul Connect gateways require exactly 1 network, found {} in group {:?}",
            networks.len(),
            group.name
        ));
    };
    if !matches!(network.mode.as_str(), "bridge" | "host") {
        return Err(
            "Consul Connect Gateway service requires Task Group with network mode of type \"bridge\" or \"host\""
                .into(),
        );
    }
    Ok(())
}

fn validate_upstreams(group: &TaskGroup) -> Result<(), String> {
    let mut listeners: BTreeMap<String, &Str> = BTreeMap::new();
    for service in group.services.iter().flatten() {
        let sidecar = service.connect.as_ref().and_then(|connect| connect.sidecar_service.as_ref());
        let upstreams = sidecar.and_then(|sidecar| sidecar.proxy.as_ref()).and_then(|proxy| proxy.upstreams.as_ref());
        for upstream in upstreams.into_iter().flatten() {
            let listener = format!("{}:{}", upstream.local_bind_address, upstream.local_bind_port);
            if let Some(other) = listeners.get(&listener) {
                return Err(format!(
                    "Consul Connect services {:?} and {other:?} in group {:?} using same address for upstreams ({listener})",
                    service.name, group.name
                ));
            }
            listeners.insert(listener, &service.name);
        }
    }
    Ok(())
}

/// Adds to the group the proxy and ports that one of its services needs.
fn inject(job_id: &str, group: &mut TaskGroup, service: &mut Service) -> Result<(), String> {
    let Some(connect) = &mut service.connect else { return Ok(()) };
    if let Some(sidecar) = &connect.sidecar_service {
        let kind = format!("connect-proxy:{}", service.name);
        let label = if sidecar.port.is_empty() {
            Str::from(format!("connect-proxy-{}", service.name))
        } else {
            sidecar.port.clone()
        };
        let tasks = group.tasks.get_or_insert_default();
        let at = tasks.iter().position(|task| task.kind == kind).unwrap_or_else(|| {
            let mut task = sidecar_task(&service.name);
            if tasks.iter().any(|other| other.name == task.name) {
                let digest = blake3::hash(format!("{job_id}/{kind}").as_bytes()).to_hex();
                task.name = format!("{}-{}", task.name, &digest[..6]).into();
            }
            tasks.push(task);
            tasks.len() - 1
        });
        finish(&mut tasks[at], connect.sidecar_task.as_ref(), group.restart_policy.as_ref());
        add_port(group, &label);
    } else if connect.native {
        let task = native_task(group, &service.name, &service.task_name)?;
        task.kind = format!("connect-native:{}", service.name).into();
        service.task_name = task.name.clone();
    } else if let Some(gateway) = &mut connect.gateway {
        let host = group.networks.iter().flatten().next().is_some_and(|network| network.mode == "host");
        if !host {
            gateway.proxy = Some(bridge_proxy(gateway));
        }
        let prefix = gateway.prefix();
        if gateway.terminating.is_some() && service.port_label.is_empty() {
            service.port_label = format!("{prefix}-{}", service.name).into();
            add_port(group, &service.port_label);
        }
        if gateway.mesh.is_some() {
            if service.port_label.is_empty() {
                service.port_label = format!("{prefix}-{}-wan", service.name).into();
                add_port(group, &service.port_label);
            }
            add_port(group, &format!("{prefix}-{}-lan", service.name));
        }
        let kind = format!("{prefix}:{}", service.name);
        let tasks = group.tasks.get_or_insert_default();
        if !tasks.iter().any(|task| task.kind == kind) {
            let mut task = gateway_task(prefix, &service.name, host);
            finish(&mut task, connect.sidecar_task.as_ref(), group.restart_policy.as_ref());
            tasks.push(task);
        }
    }
    Ok(())
}

/// The task of a service that implements the mesh's protocol itself: the named task, or the group's only task.
fn native_task<'a>(group: &'a mut TaskGroup, service: &str, name: &str) -> Result<&'a mut Task, String> {
    let tasks = group.tasks.get_or_insert_default();
    if name.is_empty() {
        return match tasks.as_mut_slice() {
            [only] => Ok(only),
            _ => Err(format!(
                "task for Consul Connect Native service {}->{service} is ambiguous and must be set",
                group.name
            )),
        };
    }
    let missing =
        || format!("task {name} named by Consul Connect Native service {}->{service} does not exist", group.name);
    tasks.iter_mut().find(|task| task.name == name).ok_or_else(missing)
}

/// Adds a dynamic port to the group's network that maps to the same port inside.
pub(super) fn add_port(group: &mut TaskGroup, label: &str) {
    let Some(network) = group.networks.iter_mut().flatten().next() else { return };
    let ports = network.dynamic_ports.get_or_insert_default();
    if !ports.iter().any(|port| port.label == label) {
        ports.push(Port { label: label.into(), value: 0, to: -1, host_network: "default".into() });
    }
}

fn proxy_task(name: String, kind: String, image: &str, least_version: &str) -> Task {
    let args = json!([
        "-c",
        "${NOMAD_SECRETS_DIR}/envoy_bootstrap.json",
        "-l",
        "${meta.connect.log_level}",
        "--concurrency",
        "${meta.connect.proxy_concurrency}",
        "--disable-hot-restart"
    ]);
    Task {
        name: name.into(),
        kind: kind.into(),
        driver: "docker".into(),
        config: Some(BTreeMap::from([("image".into(), image.into()), ("args".into(), args)])),
        kill_timeout: Dur::from_secs(5),
        shutdown_delay: Dur::from_secs(5),
        log_config: Some(LogConfig { max_files: 2, max_file_size_mb: 2, disabled: false }),
        resources: Some(Resources { cpu: 250, memory_mb: 128, ..Default::default() }),
        constraints: Some(vec![
            constraint("${attr.consul.version}", "semver", least_version),
            constraint("${attr.consul.grpc}", ">", "0"),
        ]),
        ..Default::default()
    }
}

fn sidecar_task(service: &str) -> Task {
    let (name, kind) = (format!("connect-proxy-{service}"), format!("connect-proxy:{service}"));
    Task {
        lifecycle: Some(TaskLifecycleConfig { hook: "prestart".into(), sidecar: true }),
        ..proxy_task(name, kind, "${meta.connect.sidecar_image}", ">= 1.6.0-beta1")
    }
}

fn gateway_task(prefix: &str, service: &str, host: bool) -> Task {
    let mut task = proxy_task(
        format!("{prefix}-{service}"),
        format!("{prefix}:{service}"),
        "${meta.connect.gateway_image}",
        ">= 1.8.0",
    );
    if host {
        task.config.get_or_insert_default().insert("network_mode".into(), "host".into());
    }
    task
}

/// Applies the author's overrides to an added task. The task restarts as its group does.
fn finish(task: &mut Task, given: Option<&SidecarTask>, restart: Option<&RestartPolicy>) {
    if task.restart_policy.is_none() {
        task.restart_policy = restart.cloned();
    }
    let Some(given) = given else { return };
    for (field, value) in
        [(&mut task.name, &given.name), (&mut task.user, &given.user), (&mut task.kill_signal, &given.kill_signal)]
    {
        if !value.is_empty() {
            *field = value.clone();
        }
    }
    if !given.driver.is_empty() {
        // Another driver needs another configuration, so the default one is dropped.
        if given.driver != task.driver {
            task.config = None;
        }
        task.driver = given.driver.clone();
    }
    if let Some(config) = &given.config {
        task.config.get_or_insert_default().extend(config.clone());
    }
    if let Some(env) = &given.env {
        task.env.get_or_insert_default().extend(env.clone());
    }
    if let Some(meta) = &given.meta {
        task.meta.get_or_insert_default().extend(meta.clone());
    }
    if let Some(resources) = &given.resources {
        task.resources = Some(resources.clone());
    }
    if let Some(timeout) = given.kill_timeout {
        task.kill_timeout = timeout;
    }
    if let Some(logs) = &given.log_config {
        task.log_config = Some(logs.clone());
    }
    if let Some(delay) = given.shutdown_delay {
        task.shutdown_delay = delay;
    }
}

/// Proxy of a gateway in a network namespace: it listens on all addresses there, unless the author chose others.
fn bridge_proxy(gateway: &ConsulGateway) -> ConsulGatewayProxy {
    let given = gateway.proxy.clone().unwrap_or_default();
    if given.envoy_gateway_bind_addresses.is_some()
        || given.envoy_gateway_no_default_bind
        || given.envoy_gateway_bind_tagged_addresses
    {
        return given;
    }
    let everywhere = |port| ConsulGatewayBindAddress { address: "0.0.0.0".into(), port };
    let later = || everywhere(-1);
    let addresses: BTreeMap<Str, ConsulGatewayBindAddress> = if let Some(ingress) = &gateway.ingress {
        let listeners = ingress.listeners.iter().flatten();
        listeners
            .flat_map(|listener| {
                listener.services.iter().flatten().map(|service| (service.name.clone(), everywhere(listener.port)))
            })
            .collect()
    } else if gateway.terminating.is_some() {
        BTreeMap::from([("default".into(), later())])
    } else if gateway.mesh.is_some() {
        BTreeMap::from([("wan".into(), later()), ("lan".into(), later())])
    } else {
        return given;
    };
    ConsulGatewayProxy { envoy_gateway_no_default_bind: true, envoy_gateway_bind_addresses: Some(addresses), ..given }
}
