//! Readable texts for task events that were reported without one; `model` has the texts.

use songline_model::{FlatMap, Str, TaskState};

/// The states with texts in all their events; `None` when no text is missing.
pub fn filled(states: Option<&FlatMap<Str, TaskState>>) -> Option<FlatMap<Str, TaskState>> {
    let lacks = |state: &TaskState| state.events.iter().flatten().any(|event| event.display_message.is_empty());
    let states = states.filter(|states| states.values().any(lacks))?;
    let mut out = states.clone();
    for event in out.values_mut().flat_map(|state| state.events.iter_mut().flatten()) {
        event.fill_display_message();
    }
    Some(out)
}
