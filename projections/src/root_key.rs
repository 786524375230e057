//! Root keys: the active key, keys being phased out, and their remaining uses. Key material stays wrapped here.

use std::sync::Arc;

use songline_commands::{DeleteRootKey, UpsertRootKey};
use songline_model::{RootKey, RootKeyId, RootKeyMeta, RootKeyState};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<RootKeyId, RootKey> for tables::RootKeys {
    fn key(row: &RootKey) -> RootKeyId {
        row.meta.key_id
    }

    #[cfg(test)]
    fn in_story(row: &RootKey) -> String {
        format!("root:{}", crate::story::name(row.meta.key_id.as_bytes()))
    }
}

impl State {
    /// The root key with this id.
    pub fn root_key(&self, id: RootKeyId) -> Option<&Arc<RootKey>> {
        self.tables.root_keys.get(&id)
    }

    /// All root keys, by id.
    pub fn root_keys(&self) -> impl DoubleEndedIterator<Item = &Arc<RootKey>> {
        self.tables.root_keys.iter()
    }

    /// The key that encrypts new data and signs new identities. `None`: a new cluster whose leader has not created one
    /// yet.
    pub fn active_root_key(&self) -> Option<&Arc<RootKey>> {
        self.root_keys().find(|row| row.meta.is_active())
    }

    /// Number of allocations whose identities, signed with this key, may still be used.
    pub fn allocs_of_signing_key_len(&self, id: RootKeyId) -> u64 {
        self.by.allocs_by_signing_key.get(&id).copied().unwrap_or(0)
    }

    /// Whether variables or identities still need this key.
    pub fn root_key_in_use(&self, id: RootKeyId) -> bool {
        self.allocs_of_signing_key_len(id) > 0 || self.variables_of_root_key(id).next().is_some()
    }
}

/// Adds or updates a root key. A key that becomes active replaces the active one in the same entry.
pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertRootKey) -> Result<(), Rejected> {
    let id = cmd.meta.key_id;
    if id.is_nil() {
        return Err(Rejected::RootKeyWithoutId);
    }
    if cmd.meta.algorithm.is_empty() {
        return Err(Rejected::RootKeyWithoutAlgorithm);
    }
    let stored = tx.root_key(id).cloned();
    let mut row = RootKey { meta: cmd.meta.clone(), wrapped: cmd.wrapped.clone() };
    match &stored {
        Some(known) if known.meta.algorithm != row.meta.algorithm => return Err(Rejected::RootKeyAlgorithmChanged),
        Some(known) => {
            row.wrapped = known.wrapped.clone();
            row.meta.create_index = known.meta.create_index;
            row.meta.create_time = known.meta.create_time;
        }
        None if row.wrapped.material.is_empty() => return Err(Rejected::RootKeyWithoutMaterial),
        None => row.meta.create_index = tx.index(),
    }
    row.meta.modify_index = tx.index();
    let rotates = row.meta.is_active() && stored.is_none_or(|known| !known.meta.is_active());
    if cmd.rekey && !rotates {
        return Err(Rejected::RekeyWithoutRotation);
    }
    if rotates {
        let others: Vec<Arc<RootKey>> = tx.root_keys().filter(|row| row.meta.key_id != id).cloned().collect();
        for other in others {
            if let Some(state) = state_after_rotation(other.meta.state, cmd.rekey) {
                let meta = RootKeyMeta { state, modify_index: tx.index(), ..other.meta.clone() };
                tx.put::<tables::RootKeys>(RootKey { meta, wrapped: other.wrapped.clone() });
            }
        }
    }
    tx.put::<tables::RootKeys>(row);
    Ok(())
}

/// New state of a key when another one becomes active. `None`: the state stays.
fn state_after_rotation(state: RootKeyState, rekey: bool) -> Option<RootKeyState> {
    match state {
        RootKeyState::Active | RootKeyState::Inactive if rekey => Some(RootKeyState::Rekeying),
        RootKeyState::Active => Some(RootKeyState::Inactive),
        RootKeyState::Inactive | RootKeyState::Rekeying | RootKeyState::Deprecated => None,
    }
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteRootKey) -> Result<(), Rejected> {
    let stored = tx.root_key(cmd.key_id).ok_or(Rejected::RootKeyNotFound)?;
    if stored.meta.is_active() {
        return Err(Rejected::RootKeyActive);
    }
    if cmd.unused_only && tx.root_key_in_use(cmd.key_id) {
        return Err(Rejected::RootKeyInUse(cmd.key_id));
    }
    tx.delete::<tables::RootKeys>(&cmd.key_id);
    Ok(())
}

#[cfg(test)]
mod tests;
