//! A volume as its readers see it: with its plugin's health, its allocations, and claims that are to be given back. One function for
//! all of them (answers, the writing of claims, whoever collects or unpublishes), so that none acts on another picture.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, CsiHealth, CsiVolume, CsiVolumeKey, NodeId, VolumeRequest,
};

use crate::state::State;

/// A volume with what other tables say of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DenormalizedVolume {
    /// The row; claims of allocations that are gone or over are past claims, too. Nothing is ever taken out.
    pub volume: CsiVolume,
    /// How its plugin fares; all zero when there is none.
    pub health: CsiHealth,
    /// The allocations that hold it; those that are gone are `None`.
    pub allocs: BTreeMap<AllocId, Option<Arc<Allocation>>>,
}

impl DenormalizedVolume {
    /// The allocations that read it and are still known, then those that write.
    pub fn known_allocs(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.volume.holders().filter_map(|(id, _)| self.allocs.get(id)?.as_ref())
    }

    /// Whether every allocation that holds it is gone or over.
    pub fn all_over(&self) -> bool {
        self.allocs.values().all(|alloc| alloc.as_ref().is_none_or(|alloc| alloc.terminal()))
    }
}

impl State {
    /// What there is to know of a volume now.
    pub fn denormalize(&self, volume: &CsiVolume) -> DenormalizedVolume {
        let mut out = DenormalizedVolume {
            volume: volume.clone(),
            health: self.csi_plugin(&volume.plugin_id).map(|plugin| plugin.health()).unwrap_or_default(),
            allocs: volume.holders().map(|(id, _)| (*id, self.alloc(*id).cloned())).collect(),
        };
        for (id, alloc) in &out.allocs {
            if alloc.as_ref().is_none_or(|alloc| alloc.terminal()) {
                out.volume.give_up(*id);
            }
        }
        out
    }

    /// The volumes that a node has to do with, by namespace and id: claimed from there, or asked for by an allocation that runs there or
    /// is to run.
    pub fn csi_volumes_of_node(&self, node: NodeId) -> Vec<Arc<CsiVolume>> {
        let mut keys: BTreeSet<CsiVolumeKey> =
            self.csi_volumes().filter(|row| row.holders().any(|(_, claim)| claim.node_id == node)).map(|row| row.key()).collect();
        for alloc in self.allocs_of_node(node).filter(|alloc| is_wanted(alloc)) {
            let group = alloc.job.as_ref().and_then(|job| job.group(&alloc.task_group));
            for asked in group.into_iter().flat_map(|group| group.volumes.iter().flatten()).map(|(_, asked)| asked) {
                if asked.kind == "csi" {
                    keys.insert(CsiVolumeKey::new(&*alloc.namespace, source(asked, alloc)));
                }
            }
        }
        keys.iter().filter_map(|key| self.csi_volume_by_key(key)).cloned().collect()
    }
}

fn is_wanted(alloc: &Allocation) -> bool {
    alloc.desired_status == AllocDesiredStatus::Run || alloc.client_status == AllocClientStatus::Running
}

/// The volume that an allocation asks for: one of its own where each has one, named by its index within the job.
fn source(asked: &VolumeRequest, alloc: &Allocation) -> String {
    let index = alloc.name.rfind('[').filter(|_| asked.per_alloc).map_or("", |at| &alloc.name[at..]);
    format!("{}{index}", asked.source)
}
