//! CSI volumes: registration, claims, and their release. Values derived from plugins are in `plugin`, the view of a
//! volume for readers is in `read`. Nodes and the leader talk to the storage and record the results through commands.

#[cfg(test)]
pub(crate) mod check;
pub(crate) mod plugin;
mod read;

use std::sync::Arc;

use songline_commands::{ClaimCsiVolume, ClaimCsiVolumes, DeregisterCsiVolumes, RegisterCsiVolumes};
use songline_model::{CsiPluginId, CsiVolume, CsiVolumeId, CsiVolumeKey, NamespaceName};

pub use read::DenormalizedVolume;

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<CsiVolumeKey, CsiVolume> for tables::CsiVolumes {
    fn key(row: &CsiVolume) -> CsiVolumeKey {
        row.key()
    }

    #[cfg(test)]
    fn in_story(row: &CsiVolume) -> String {
        format!("volume:{}", row.id)
    }

    fn reindex(state: &mut State, before: Option<&Arc<CsiVolume>>, after: Option<&Arc<CsiVolume>>) {
        let of_plugin = |row: &Arc<CsiVolume>| (row.plugin_id.clone(), row.key());
        crate::index::move_key(&mut state.by.csi_volumes_by_plugin, before.map(of_plugin), after.map(of_plugin));
    }
}

impl State {
    /// The volume of this namespace and id.
    pub fn csi_volume(&self, namespace: &str, id: &str) -> Option<&Arc<CsiVolume>> {
        self.tables.csi_volumes.get(&CsiVolumeKey::new(namespace, id))
    }

    /// The volume of this key.
    pub fn csi_volume_by_key(&self, key: &CsiVolumeKey) -> Option<&Arc<CsiVolume>> {
        self.tables.csi_volumes.get(key)
    }

    /// All volumes, by namespace and id.
    pub fn csi_volumes(&self) -> impl DoubleEndedIterator<Item = &Arc<CsiVolume>> {
        self.tables.csi_volumes.iter()
    }

    /// The volumes of a namespace, by id.
    pub fn csi_volumes_in(&self, namespace: &str) -> impl DoubleEndedIterator<Item = &Arc<CsiVolume>> {
        // In key order, nothing lies between a name and the same name followed by NUL.
        let start = CsiVolumeKey { namespace: NamespaceName::from(namespace), id: CsiVolumeId::default() };
        let end = CsiVolumeKey { namespace: NamespaceName::from(format!("{namespace}\0")), id: CsiVolumeId::default() };
        self.tables.csi_volumes.range(start..end)
    }

    /// The volumes of a plugin, by namespace and id.
    pub fn csi_volumes_of_plugin(&self, plugin: &str) -> impl Iterator<Item = &Arc<CsiVolume>> {
        let plugin = CsiPluginId::from(plugin);
        let start = (plugin.clone(), CsiVolumeKey::default());
        self.by
            .csi_volumes_by_plugin
            .range(start..)
            .take_while(move |(of, _)| *of == plugin)
            .filter_map(|(_, key)| self.csi_volume_by_key(key))
    }
}

/// Creates or updates volumes. The allowed changes are checked here and not only before proposing: a claim taken in
/// between must be neither lost nor ignored.
pub(crate) fn register(tx: &mut Tx<'_>, cmd: &RegisterCsiVolumes) -> Result<(), Rejected> {
    for request in &cmd.volumes {
        if tx.namespace(&request.namespace).is_none() {
            let (volume, namespace) = (request.id.clone(), request.namespace.clone());
            return Err(Rejected::CsiVolumeNamespaceUnknown { volume, namespace });
        }
        let mut row = match tx.csi_volume_by_key(&request.key()) {
            Some(stored) => stored.updated(request)?,
            None => {
                let mut new = request.as_registered();
                new.create_index = tx.index();
                (new.provider, new.provider_version) = tx
                    .csi_plugin(&new.plugin_id)
                    .map(|plugin| (plugin.provider.clone(), plugin.version.clone()))
                    .unwrap_or_default();
                new
            }
        };
        row.modify_index = tx.index();
        tx.put::<tables::CsiVolumes>(row);
    }
    Ok(())
}

pub(crate) fn deregister(tx: &mut Tx<'_>, cmd: &DeregisterCsiVolumes) -> Result<(), Rejected> {
    for id in &cmd.ids {
        let key = CsiVolumeKey { namespace: cmd.namespace.clone(), id: id.clone() };
        let stored = tx.csi_volume_by_key(&key).ok_or_else(|| Rejected::CsiVolumeNotFound(id.clone()))?;
        // Force is for claims whose plugin can no longer detach, so only claims of terminal allocs may be dropped.
        let droppable = cmd.force && tx.denormalize(stored).all_over();
        if stored.in_use() && !droppable {
            return Err(Rejected::CsiVolumeInUse(id.clone()));
        }
        tx.delete::<tables::CsiVolumes>(&key);
    }
    Ok(())
}

/// Applies a claim. The denormalized volume is written back, so every gone or terminal alloc gets its past claim with
/// this write.
pub(crate) fn claim(tx: &mut Tx<'_>, cmd: &ClaimCsiVolume) -> Result<(), Rejected> {
    let stored = tx.csi_volume_by_key(&cmd.volume).ok_or_else(|| Rejected::CsiVolumeNotFound(cmd.volume.id.clone()))?;
    let DenormalizedVolume { mut volume, health, .. } = tx.denormalize(stored);
    volume.claim(&cmd.claim, tx.alloc(cmd.claim.allocation_id).is_some(), &health)?;
    volume.modify_index = tx.index();
    tx.put::<tables::CsiVolumes>(volume);
    Ok(())
}

pub(crate) fn claim_all(tx: &mut Tx<'_>, cmd: &ClaimCsiVolumes) -> Result<(), Rejected> {
    cmd.claims.iter().try_for_each(|one| claim(tx, one))
}

#[cfg(test)]
mod tests;
