//! Allocated resources in the older form, which the wire repeats. Only old nodes use it; it is written but never read.

use std::collections::BTreeMap;

use serde::Serialize;
use songline_model::{AllocatedResources, NetworkResource, Resources, Str};

/// Total resources, resources by task, and resources of the group.
#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Legacy {
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Resources>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_resources: Option<Resources>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_resources: Option<BTreeMap<Str, Resources>>,
}

impl Legacy {
    pub(super) fn of(allocated: Option<&AllocatedResources>) -> Self {
        let Some(allocated) = allocated else { return Self::default() };
        let shared = &allocated.shared;
        let mut all = Resources { disk_mb: shared.disk_mb, ..Resources::default() };
        let mut networks: Vec<NetworkResource> = Vec::new();
        let mut by_task = BTreeMap::new();
        for (name, task) in allocated.tasks.iter().flatten() {
            let (cpu, memory) = (task.cpu.cpu_shares, &task.memory);
            all.cpu += cpu;
            all.memory_mb += memory.memory_mb;
            all.memory_max_mb += if memory.memory_max_mb > 0 { memory.memory_max_mb } else { memory.memory_mb };
            networks.extend(task.networks.iter().flatten().cloned());
            let of_task = Resources {
                cpu,
                memory_mb: memory.memory_mb,
                memory_max_mb: memory.memory_max_mb,
                networks: task.networks.clone(),
                ..Resources::default()
            };
            by_task.insert(name.clone(), of_task);
        }
        all.networks = (!networks.is_empty()).then_some(networks);
        let of_group = Resources { disk_mb: shared.disk_mb, networks: shared.networks.clone(), ..Resources::default() };
        Self { resources: Some(all), shared_resources: Some(of_group), task_resources: Some(by_task) }
    }
}
