//! Checks that are reached through the proxy of their service: the paths that the proxy exposes, and what a group
//! needs for them.

use super::connect::add_port;
use crate::{ConsulExposePath, Job, Service, ServiceCheck, TaskGroup};

impl Job {
    /// Adds exposed paths to the proxies for checks that ask for it.
    pub(super) fn inject_expose_paths(&mut self) -> Result<(), String> {
        for group in self.task_groups.iter_mut().flatten() {
            let mut services = group.services.take();
            let outcome = services.iter_mut().flatten().try_for_each(|service| expose(group, service));
            group.services = services;
            outcome?;
        }
        Ok(())
    }

    /// Checks that every exposed check has a proxy; returns the first error.
    pub(super) fn validate_expose(&self) -> Result<(), String> {
        for group in self.groups() {
            let exposed = |service: &Service| service.checks.iter().flatten().any(|check| check.expose);
            let services = || group.services.iter().flatten();
            if services().any(exposed) {
                let wanted = match group.networks.as_deref() {
                    Some([network]) if network.mode == "bridge" => "",
                    Some([_]) => "use",
                    Some(_) | None => "specify one",
                };
                if !wanted.is_empty() {
                    let name = &group.name;
                    return Err(format!("group {name:?} must {wanted} bridge network for exposing service check(s)"));
                }
            }
            for service in services().filter(|service| !has_builtin_proxy(service)) {
                if let Some(check) = service.checks.iter().flatten().find(|check| check.expose) {
                    return Err(format!(
                        "exposed service check {}->{}->{} requires use of sidecar_proxy",
                        group.name, service.name, check.name
                    ));
                }
            }
            for task in group.tasks.iter().flatten() {
                for service in task.services.iter().flatten() {
                    if let Some(check) = service.checks.iter().flatten().find(|check| check.expose) {
                        return Err(format!(
                            "exposed service check {}[{}]->{}->{} is not a task-group service",
                            group.name, task.name, service.name, check.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

fn has_builtin_proxy(service: &Service) -> bool {
    service.connect.as_ref().is_some_and(|connect| connect.sidecar_service.is_some() && connect.sidecar_task.is_none())
}

/// Adds a path to the proxy of `service` for each of its exposed checks.
fn expose(group: &mut TaskGroup, service: &mut Service) -> Result<(), String> {
    if !has_builtin_proxy(service) || group.networks.as_ref().is_none_or(Vec::is_empty) {
        return Ok(());
    }
    let mut paths = Vec::new();
    let (name, port_label) = (service.name.clone(), service.port_label.clone());
    for check in service.checks.iter_mut().flatten().filter(|check| check.expose && is_exposable(check)) {
        if check.port_label.is_empty() {
            let digest = blake3::hash(check.name.as_bytes()).to_hex();
            check.port_label = format!("svc_{name}_ck_{}", &digest[..6]).into();
            add_port(group, &check.port_label);
        }
        let Some(port) = local_port(group, &port_label) else {
            return Err(format!(
                "unable to determine local service port for service check {}->{name}->{}",
                group.name, check.name
            ));
        };
        paths.push(ConsulExposePath {
            path: check.path.clone(),
            protocol: check.protocol.clone(),
            local_path_port: port,
            listener_port: check.port_label.clone(),
        });
    }
    let sidecar = service.connect.as_mut().and_then(|connect| connect.sidecar_service.as_mut());
    if let Some(sidecar) = sidecar.filter(|_| !paths.is_empty()) {
        let expose = sidecar.proxy.get_or_insert_default().expose.get_or_insert_default();
        let known = expose.paths.get_or_insert_default();
        for path in paths {
            if !known.contains(&path) {
                known.push(path);
            }
        }
    }
    Ok(())
}

fn is_exposable(check: &ServiceCheck) -> bool {
    matches!(check.kind.as_str(), "http" | "grpc") && check.path.starts_with('/')
}

/// Port of a service inside its network namespace.
fn local_port(group: &TaskGroup, label: &str) -> Option<i64> {
    let networks = group.networks.iter().flatten();
    let mut ports = networks.flat_map(|network| network.reserved_ports.iter().chain(&network.dynamic_ports).flatten());
    match ports.find(|port| port.label == label) {
        Some(port) if port.to > 0 => Some(port.to),
        Some(port) if port.value > 0 => Some(port.value),
        Some(_) | None => label.parse().ok().filter(|port| *port > 0),
    }
}
