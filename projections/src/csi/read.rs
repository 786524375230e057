//! A volume as its readers see it: with its plugin's health, its allocations, and the claims to be released. API
//! responses, the claim command, garbage collection and the volume watcher all use this one function, so that they
//! agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, CsiHealth, CsiPlugin, CsiVolume, CsiVolumeKey, NodeId,
};

use crate::state::State;

/// A volume with data of other tables.
#[derive(Debug, Clone, PartialEq)]
pub struct DenormalizedVolume {
    /// The row, with added past claims for allocations that are gone or terminal. No claim is removed.
    pub volume: CsiVolume,
    /// Health of the plugin; all zero when there is no plugin.
    pub health: CsiHealth,
    /// The plugin; `None` when it is unknown.
    pub plugin: Option<Arc<CsiPlugin>>,
    /// The allocations that hold the volume; `None` for those that are gone.
    pub allocs: BTreeMap<AllocId, Option<Arc<Allocation>>>,
}

impl DenormalizedVolume {
    /// The allocations that still exist, readers first, then writers.
    pub fn known_allocs(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.volume.holders().filter_map(|(id, _)| self.allocs.get(id)?.as_ref())
    }

    /// The plugin's provider; that of the registration while the plugin is unknown.
    pub fn provider(&self) -> &str {
        self.plugin.as_ref().map_or(&self.volume.provider, |plugin| &plugin.provider)
    }

    /// The version of the plugin's provider; that of the registration while the plugin is unknown.
    pub fn provider_version(&self) -> &str {
        self.plugin.as_ref().map_or(&self.volume.provider_version, |plugin| &plugin.version)
    }

    /// Whether every allocation that holds the volume is gone or terminal.
    pub fn all_over(&self) -> bool {
        self.allocs.values().all(|alloc| alloc.as_ref().is_none_or(|alloc| alloc.terminal()))
    }
}

impl State {
    /// Adds the current data of other tables to a volume.
    pub fn denormalize(&self, volume: &CsiVolume) -> DenormalizedVolume {
        let plugin = self.csi_plugin(&volume.plugin_id).cloned();
        let mut out = DenormalizedVolume {
            volume: volume.clone(),
            health: plugin.as_ref().map(|plugin| plugin.health()).unwrap_or_default(),
            plugin,
            allocs: volume.holders().map(|(id, _)| (*id, self.alloc(*id).cloned())).collect(),
        };
        for (id, alloc) in &out.allocs {
            if alloc.as_ref().is_none_or(|alloc| alloc.terminal()) {
                out.volume.give_up(*id);
            }
        }
        out
    }

    /// The volumes that a node needs, by namespace and id: claimed from the node, or requested by an allocation that
    /// runs or should run on the node.
    pub fn csi_volumes_of_node(&self, node: NodeId) -> Vec<Arc<CsiVolume>> {
        let mut keys: BTreeSet<CsiVolumeKey> = self
            .csi_volumes()
            .filter(|row| row.holders().any(|(_, claim)| claim.node_id == node))
            .map(|row| row.key())
            .collect();
        for alloc in self.allocs_of_node(node).filter(|alloc| is_wanted(alloc)) {
            let group = alloc.job.as_ref().and_then(|job| job.group(&alloc.task_group));
            for asked in group.into_iter().flat_map(|group| group.volumes.iter().flatten()).map(|(_, asked)| asked) {
                if asked.kind == "csi" {
                    keys.insert(CsiVolumeKey::new(&*alloc.namespace, asked.volume_of(&alloc.name)));
                }
            }
        }
        keys.iter().filter_map(|key| self.csi_volume_by_key(key)).cloned().collect()
    }
}

fn is_wanted(alloc: &Allocation) -> bool {
    alloc.desired_status == AllocDesiredStatus::Run || alloc.client_status == AllocClientStatus::Running
}
