//! Event sinks: which events a receiver gets, and how far it has come. The leader delivers the events and reports its
//! progress; this module accepts reports of the current run alone, so that no late report undoes what a user has set.

use std::sync::Arc;

use songline_commands::{DeleteEventSinks, EventSinkChange, MoveEventSink, UpsertEventSinks};
use songline_model::{EventSink, EventSinkName, EventSinkProgress, EventSinkStatus};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<EventSinkName, EventSink> for tables::EventSinks {
    fn key(row: &EventSink) -> EventSinkName {
        row.id.clone()
    }

    #[cfg(test)]
    fn in_story(row: &EventSink) -> String {
        format!("sink:{}", row.id)
    }
}

impl Rules<EventSinkName, EventSinkProgress> for tables::EventSinkProgress {
    fn key(row: &EventSinkProgress) -> EventSinkName {
        row.id.clone()
    }

    #[cfg(test)]
    fn in_story(row: &EventSinkProgress) -> String {
        format!("progress:{}", row.id)
    }
}

impl State {
    /// The event sink of this name.
    pub fn event_sink(&self, name: &str) -> Option<&Arc<EventSink>> {
        self.tables.event_sinks.get(&EventSinkName::from(name))
    }

    /// All event sinks, by name.
    pub fn event_sinks(&self) -> impl DoubleEndedIterator<Item = &Arc<EventSink>> {
        self.tables.event_sinks.iter()
    }

    /// Progress of the event sink of this name.
    pub fn event_sink_progress(&self, name: &str) -> Option<&Arc<EventSinkProgress>> {
        self.tables.event_sink_progress.get(&EventSinkName::from(name))
    }
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertEventSinks) -> Result<(), Rejected> {
    for sink in &cmd.sinks {
        // Two writers of one file could not tell how far each of them has come.
        let same_file =
            |other: &&Arc<EventSink>| other.is_file() && other.address == sink.address && other.id != sink.id;
        if sink.is_file()
            && let Some(other) = tx.event_sinks().find(same_file)
        {
            return Err(Rejected::EventSinkFileTaken { file: sink.address.clone(), by: other.id.clone() });
        }
        let create_index = tx.event_sink(&sink.id).map_or(tx.index(), |stored| stored.create_index);
        let row = EventSink { create_index, modify_index: tx.index(), ..sink.clone() };
        tx.put::<tables::EventSinks>(row);
        let progress = match tx.event_sink_progress(&sink.id) {
            Some(stored) => EventSinkProgress { run: tx.index(), ..EventSinkProgress::clone(stored) },
            None => EventSinkProgress {
                id: sink.id.clone(),
                run: tx.index(),
                position: reachable(tx, cmd.position.unwrap_or(tx.index()))?,
                ..EventSinkProgress::default()
            },
        };
        put(tx, progress);
    }
    Ok(())
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteEventSinks) -> Result<(), Rejected> {
    for name in &cmd.names {
        if !tx.delete::<tables::EventSinks>(name) {
            return Err(Rejected::EventSinkNotFound(name.clone()));
        }
        tx.delete::<tables::EventSinkProgress>(name);
    }
    Ok(())
}

pub(crate) fn proceed(tx: &mut Tx<'_>, cmd: &MoveEventSink) -> Result<(), Rejected> {
    let Some(stored) = tx.event_sink_progress(&cmd.name) else {
        return Err(Rejected::EventSinkNotFound(cmd.name.clone()));
    };
    let mut row = EventSinkProgress::clone(stored);
    let of_run = match &cmd.change {
        EventSinkChange::Delivered { run, .. } | EventSinkChange::Failed { run, .. } => *run,
        EventSinkChange::Reset { .. } => row.run,
    };
    if of_run != row.run {
        return Err(Rejected::EventSinkRunOver(cmd.name.clone()));
    }
    match &cmd.change {
        EventSinkChange::Delivered { run: _, position, delivered, gaps } => {
            row.position = row.position.max(*position);
            row.delivered = row.delivered.max(*delivered);
            row.gaps = row.gaps.max(*gaps);
            row.status = EventSinkStatus::Delivering;
        }
        EventSinkChange::Failed { run: _, error } => {
            row.status = EventSinkStatus::Failing;
            row.last_error = error.clone();
            row.last_error_time = Some(tx.at());
        }
        EventSinkChange::Reset { position } => {
            row.position = reachable(tx, *position)?;
            row.run = tx.index();
        }
    }
    put(tx, row);
    Ok(())
}

fn put(tx: &mut Tx<'_>, row: EventSinkProgress) {
    let row = EventSinkProgress { modify_index: tx.index(), ..row };
    tx.put::<tables::EventSinkProgress>(row);
}

/// A position is that of an entry which exists: one in the future would skip events.
fn reachable(tx: &Tx<'_>, position: u64) -> Result<u64, Rejected> {
    if position > tx.index() {
        return Err(Rejected::EventSinkPositionAhead { position, newest: tx.index() });
    }
    Ok(position)
}

#[cfg(test)]
mod tests;
