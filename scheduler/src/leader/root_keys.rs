//! What is due about root keys: a first one, a new one after a time, taking over from old ones, dropping those that nobody needs.
//! Making and using keys is the shell's.

use songline_model::{Dur, RootKeyId, RootKeyState, Time};
use songline_projections::State;

/// How old root keys get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootKeyAges {
    /// The active one, before another takes its place.
    pub rotation: Dur,
    /// An unused one, before it is dropped.
    pub gc: Dur,
}

impl Default for RootKeyAges {
    fn default() -> Self {
        Self { rotation: Dur::from_hours(720), gc: Dur::from_hours(1) }
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A new key becomes active.
    Rotate,
    /// Variables of this key are to be encrypted with the active one.
    TakeOver(RootKeyId),
    /// Nothing is left to take over from this key.
    Retire(RootKeyId),
    /// Nobody needs this key.
    Delete(RootKeyId),
}

/// What is due now. Once a new key is, the rest waits for it.
pub fn due(view: &State, ages: &RootKeyAges, now: Time) -> Vec<Effect> {
    let age = |created: i64| now.since(Time::from_nanos(created));
    if view.active_root_key().is_none_or(|row| age(row.meta.create_time) > ages.rotation) {
        return vec![Effect::Rotate];
    }
    let mut effects = Vec::new();
    for row in view.root_keys() {
        let id = row.meta.key_id;
        match row.meta.state {
            RootKeyState::Active => {}
            RootKeyState::Rekeying if view.variables_of_root_key(id).next().is_some() => effects.push(Effect::TakeOver(id)),
            RootKeyState::Rekeying => effects.push(Effect::Retire(id)),
            RootKeyState::Inactive | RootKeyState::Deprecated => {
                if age(row.meta.create_time) > ages.gc && !view.root_key_in_use(id) {
                    effects.push(Effect::Delete(id));
                }
            }
        }
    }
    effects
}

#[cfg(test)]
mod tests;
