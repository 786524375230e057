//! Life cycle of root keys: creates the first one, rotates by age, re-encrypts variables of old keys, deletes keys that
//! are not in use. The shell makes and uses the key material.

use std::sync::Arc;

use songline_model::{Dur, RootKey, RootKeyId, RootKeyState, Time};
use songline_projections::State;

/// Ages of root keys at which they change state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootKeyAges {
    /// Age at which the active key is rotated.
    pub rotation: Dur,
    /// Age at which an unused key is deleted.
    pub gc: Dur,
}

impl Default for RootKeyAges {
    fn default() -> Self {
        Self { rotation: Dur::from_hours(720), gc: Dur::from_hours(1) }
    }
}

/// One step to propose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Create a new key and make it active.
    Rotate,
    /// Encrypt variables of this key with the active key.
    TakeOver(RootKeyId),
    /// Make this key inactive: all its variables were re-encrypted.
    Retire(RootKeyId),
    /// Delete this unused key.
    Delete(RootKeyId),
}

/// The steps that are due now. A rotation comes alone: the other steps wait for the new key. A paused eval broker holds
/// back re-encryption, as in Nomad, where it is the work of an evaluation.
pub fn due(view: &State, ages: &RootKeyAges, now: Time) -> Vec<Effect> {
    let age = |created: Time| now.since(created);
    if view.active_root_key().is_none_or(|row| age(row.meta.create_time) > ages.rotation) {
        return vec![Effect::Rotate];
    }
    let paused = view.scheduler_config().is_some_and(|config| config.pause_eval_broker);
    let mut effects = Vec::new();
    for row in view.root_keys() {
        let id = row.meta.key_id;
        match row.meta.state {
            RootKeyState::Active => {}
            RootKeyState::Rekeying if paused => {}
            RootKeyState::Rekeying if view.variables_of_root_key(id).next().is_some() => {
                effects.push(Effect::TakeOver(id))
            }
            RootKeyState::Rekeying => effects.push(Effect::Retire(id)),
            // Deleted below, once it is old enough.
            RootKeyState::Inactive | RootKeyState::Deprecated => {}
        }
    }
    let old = unused(view).filter(|row| age(row.meta.create_time) > ages.gc);
    effects.extend(old.map(|row| Effect::Delete(row.meta.key_id)));
    effects
}

/// The keys that were replaced, and that nothing needs any more.
pub(super) fn unused(view: &State) -> impl Iterator<Item = &Arc<RootKey>> {
    let replaced = |state: RootKeyState| matches!(state, RootKeyState::Inactive | RootKeyState::Deprecated);
    view.root_keys().filter(move |row| replaced(row.meta.state) && !view.root_key_in_use(row.meta.key_id))
}

#[cfg(test)]
mod tests;
