//! Address and port of a service, from the job, the allocation's ports, the driver's network and the requested address
//! mode.

use songline_model::{AllocNetworkStatus, AllocatedPortMapping, Allocation, Str};

use crate::driver::DriverNetwork;

/// Places at which a workload can be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Located<'a> {
    /// The allocation, with its ports on the host.
    pub alloc: &'a Allocation,
    /// Interface and address of the allocation's own, if it has one.
    pub network: Option<&'a AllocNetworkStatus>,
    /// Network in which the driver runs the task, if it is one of the driver's own. A group has none.
    pub driver: Option<&'a DriverNetwork>,
}

/// Evaluates the table of address modes.
pub(crate) fn of(located: Located<'_>, address: &str, mode: &str, label: &str) -> Result<(String, i64), String> {
    let Located { alloc, network, driver } = located;
    match mode {
        "auto" | "" if !address.is_empty() => given(alloc, address, label),
        "auto" | "" => match driver.filter(|driver| driver.advertise) {
            Some(driver) => inside(alloc, driver, label),
            None => host(alloc, label),
        },
        "host" | "driver" | "alloc" if !address.is_empty() => {
            Err(format!("cannot use custom advertise address with {mode:?} address mode"))
        }
        "host" => host(alloc, label),
        "driver" => {
            let driver = driver.ok_or("cannot use address_mode=\"driver\": no driver network exists")?;
            inside(alloc, driver, label)
        }
        "alloc" => own(alloc, network, label),
        other => Err(format!("invalid address mode {other:?}")),
    }
}

/// The allocation's own address, and the port there.
fn own(alloc: &Allocation, network: Option<&AllocNetworkStatus>, label: &str) -> Result<(String, i64), String> {
    let network = network
        .filter(|network| !network.address.is_empty())
        .ok_or("cannot use address_mode=\"alloc\": no allocation network status reported")?;
    Ok((network.address.to_string(), port_inside(alloc, label)?))
}

/// The task's address in the network of its driver, and the port there. The address is empty where the agent and not
/// the driver made the network.
fn inside(alloc: &Allocation, driver: &DriverNetwork, label: &str) -> Result<(String, i64), String> {
    let port = match driver.ports.get(label) {
        Some(port) => *port,
        None => port_inside(alloc, label)?,
    };
    Ok((driver.address.clone(), port))
}

/// The port to which the port with this label is mapped; 0 without a label.
fn port_inside(alloc: &Allocation, label: &str) -> Result<i64, String> {
    let mapped = |port: &AllocatedPortMapping| if port.to > 0 { port.to } else { port.value };
    match shared(alloc, label).map(mapped) {
        _ if label.is_empty() => Ok(0),
        Some(port) => Ok(port),
        None => number(label),
    }
}

/// A port that is given as a number.
fn number(label: &str) -> Result<i64, String> {
    match label.parse() {
        Ok(port @ 1..) => Ok(port),
        Ok(_) => Err(format!("invalid port: {label:?}: port must be >0")),
        Err(_) => Err(format!("invalid port {label:?}: port label not found")),
    }
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
    Ok((String::new(), number(label)?))
}
