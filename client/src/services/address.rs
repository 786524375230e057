//! Address and port of a service, from the job, the allocation's ports and the requested address mode.

use songline_model::{AllocNetworkStatus, AllocatedPortMapping, Allocation, Str};

/// Allocation with the interface and address of its own, if it has one.
pub(crate) type Located<'a> = (&'a Allocation, Option<&'a AllocNetworkStatus>);

/// Evaluates the table of address modes. No driver here has a network of its own.
pub(crate) fn of(
    (alloc, network): Located<'_>,
    address: &str,
    mode: &str,
    label: &str,
) -> Result<(String, i64), String> {
    match mode {
        "auto" | "" if !address.is_empty() => given(alloc, address, label),
        "auto" | "" => host(alloc, label),
        "host" | "driver" | "alloc" if !address.is_empty() => {
            Err(format!("cannot use custom advertise address with {mode:?} address mode"))
        }
        "host" => host(alloc, label),
        "driver" => Err("cannot use address_mode=\"driver\": no driver network exists".to_owned()),
        "alloc" => own(alloc, network, label),
        other => Err(format!("invalid address mode {other:?}")),
    }
}

/// The allocation's own address, and the port there.
fn own(alloc: &Allocation, network: Option<&AllocNetworkStatus>, label: &str) -> Result<(String, i64), String> {
    let network = network
        .filter(|network| !network.address.is_empty())
        .ok_or("cannot use address_mode=\"alloc\": no allocation network status reported")?;
    let inside = |port: &AllocatedPortMapping| if port.to > 0 { port.to } else { port.value };
    let port = match shared(alloc, label).map(inside) {
        _ if label.is_empty() => 0,
        Some(port) => port,
        None => match label.parse() {
            Ok(port @ 1..) => port,
            Ok(_) => return Err(format!("invalid port: {label:?}: port must be >0")),
            Err(_) => return Err(format!("invalid port {label:?}: port label not found")),
        },
    };
    Ok((network.address.to_string(), port))
}

/// The port of the allocation's own network with this label.
fn shared<'a>(alloc: &'a Allocation, label: &str) -> Option<&'a AllocatedPortMapping> {
    let ports = alloc.allocated_resources.as_ref()?.shared.ports.iter().flatten();
    ports.into_iter().find(|port| port.label == label)
}

/// The allocation's port with this label: its host address and its port number there.
fn mapped(alloc: &Allocation, label: &str) -> Option<(Str, i64)> {
    shared(alloc, label).map(|port| (port.host_ip.clone(), port.value)).or_else(|| {
        let resources = alloc.allocated_resources.as_ref()?;
        // Ports of a task's own network, a form of old jobs.
        let networks = resources.tasks.iter().flatten().flat_map(|(_, task)| task.networks.iter().flatten());
        networks.into_iter().find_map(|network| {
            let mut ports = network.reserved_ports.iter().flatten().chain(network.dynamic_ports.iter().flatten());
            ports.find(|port| port.label == label).map(|port| (network.ip.clone(), port.value))
        })
    })
}

fn given(alloc: &Allocation, address: &str, label: &str) -> Result<(String, i64), String> {
    let port = match mapped(alloc, label) {
        _ if label.is_empty() => 0,
        Some((_, port)) => port,
        None => {
            label.parse().map_err(|_| format!("invalid port: {label:?}: not a valid port mapping or numeric port"))?
        }
    };
    Ok((address.to_owned(), port))
}

fn host(alloc: &Allocation, label: &str) -> Result<(String, i64), String> {
    if label.is_empty() {
        let networks = alloc
            .allocated_resources
            .as_ref()
            .and_then(|resources| resources.shared.networks.as_deref())
            .unwrap_or_default();
        return Ok((if let [only] = networks { only.ip.to_string() } else { String::new() }, 0));
    }
    if let Some((ip, port)) = mapped(alloc, label) {
        return Ok((ip.to_string(), port));
    }
    match label.parse() {
        Ok(port @ 1..) => Ok((String::new(), port)),
        Ok(_) => Err(format!("invalid port: {label:?}: port must be >0")),
        Err(_) => Err(format!("invalid port {label:?}: port label not found")),
    }
}
