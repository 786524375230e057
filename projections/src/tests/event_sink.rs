//! Random commands about event sinks. Each sink has one row of progress, and no position is ahead of the entry that
//! set it.

use songline_commands::{Command, DeleteEventSinks, EventSinkChange, MoveEventSink, UpsertEventSinks};
use songline_model::{EventSink, EventSinkName, EventSinkType};

use super::Dice;
use crate::State;

impl Dice {
    pub(super) fn about_event_sinks(&mut self, state: &State) -> Command {
        let name: EventSinkName = self.pick(&["s", "t", "u"]).into();
        let current = state.event_sink_progress(&name).map_or(0, |row| row.run);
        let run = if self.chance(80) { current } else { self.below(50) };
        let position = self.below(200);
        let change = match self.below(10) {
            0 => return DeleteEventSinks { names: vec![name] }.into(),
            1..=3 => {
                let kind = self.pick(EventSinkType::ALL);
                let address = self.pick(&["a", "b"]).into();
                let sink = EventSink { id: name, kind, address, ..EventSink::default() };
                let position = self.chance(30).then_some(position);
                return UpsertEventSinks { sinks: vec![sink], position }.into();
            }
            4 => EventSinkChange::Reset { position },
            5 => EventSinkChange::Failed { run, error: "refused".into() },
            _ => EventSinkChange::Delivered { run, position, delivered: self.below(9), gaps: self.below(2) },
        };
        MoveEventSink { name, change }.into()
    }
}
