//! The driver's configuration of a run, from the job and from what the hooks of its set-up made.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Map;
use songline_model::{AllocatedPortMapping, NetworkResource, Node, Port};

use super::hooks::resources::TaskResources;
use super::hooks::task::TaskContext;
use crate::core::event;
use crate::driver::{Listener, RunId, TaskConfig};
use crate::network::Made;

/// Creates the configuration with which the task's driver starts it. A `config` block that the driver refuses is an
/// event of the task.
pub(super) fn configure(context: &TaskContext, made: &TaskResources) -> Result<TaskConfig, String> {
    let TaskContext { shared, alloc, dir, task, run, resources, .. } = context;
    let driver = context.driver()?;
    let config = made.env().evaluate_config(task.config.as_ref().unwrap_or(&BTreeMap::new()));
    let valid = |config: Map<_, _>| match driver.validate(&config) {
        Ok(()) => Ok(config),
        Err(error) => Err(vec![error]),
    };
    let config = config.and_then(valid).map_err(|faults| {
        let lines: String = faults.iter().map(|fault| format!("\t* {fault}\n")).collect();
        let text = format!("{} errors occurred:\n\t* failed to parse config: \n{lines}\n", faults.len() + 1);
        context.event(event::failed_validation(shared.clock.now(), &text));
        text
    })?;
    let all = alloc.allocated_resources.as_ref();
    let own = all.and_then(|all| all.tasks.as_ref()?.get(&task.name).cloned()).unwrap_or_default();
    let logs = task.log_config.clone().unwrap_or_default();
    let node = Arc::clone(&shared.node.lock());
    let positive = |n: i64, otherwise: u64| if n > 0 { n.unsigned_abs() } else { otherwise };
    let Made { network, dns, resolv_conf, status: _ } = resources.network();
    Ok(TaskConfig {
        id: RunId { alloc: alloc.id, task: task.name.clone(), run: *run },
        config,
        user: made.user().to_owned(),
        env: made.env().vars.clone(),
        task_dir: dir.task(&task.name),
        shared_dir: dir.shared(),
        log_dir: dir.logs(),
        alloc_dir: dir.root().to_owned(),
        log_files_max: positive(logs.max_files, 10),
        log_file_bytes_max: positive(logs.max_file_size_mb, 10) << 20,
        log_disabled: logs.disabled,
        cpu_shares: own.cpu.cpu_shares,
        memory_mb: own.memory.memory_mb,
        memory_max_mb: own.memory.memory_max_mb,
        cores: own.cpu.reserved_cores.unwrap_or_default(),
        mounts: made.mounts().to_vec(),
        cpu_fraction: cpu_fraction(&node, own.cpu.cpu_shares),
        ports: all.and_then(|all| all.shared.ports.clone()).unwrap_or_default(),
        own_ports: own_ports(&own.networks),
        node: (node.id.to_string().into(), node.name.clone()),
        network,
        listener: Listener::default(),
        dns,
        resolv_conf,
    })
}

/// Part of the node's processor capacity that a task's share is; 0 if the capacity is not known.
fn cpu_fraction(node: &Node, shares: i64) -> f64 {
    let capacity = node.node_resources.as_ref().map_or(0, |all| all.cpu.cpu_shares);
    if capacity > 0 { shares as f64 / capacity as f64 } else { 0.0 }
}

/// Ports of a task's own network, a form of old jobs.
fn own_ports(networks: &Option<Vec<NetworkResource>>) -> Vec<AllocatedPortMapping> {
    let mapped = |network: &NetworkResource, port: &Port| AllocatedPortMapping {
        label: port.label.clone(),
        value: port.value,
        to: port.to,
        host_ip: network.ip.clone(),
    };
    let of_network = |network: &NetworkResource| -> Vec<AllocatedPortMapping> {
        let ports = network.reserved_ports.iter().flatten().chain(network.dynamic_ports.iter().flatten());
        ports.map(|port| mapped(network, port)).collect()
    };
    networks.iter().flatten().flat_map(of_network).collect()
}
