//! Conversion of changes to events. The entry's kind determines the event's type, the changed row its topic, key and
//! payload: each noun's file in `nouns` has these.

#[cfg(test)]
mod tests;
mod topic;

use std::sync::Arc;

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use songline_commands::Kind;
use songline_model::{EvalTrigger, Job, JobStatus, Str};
use songline_projections::{Change, Visitor, Visits, tables};

pub use topic::{Right, Topic};

use crate::nouns::Announce;
use crate::nouns::job::is_revived;

/// Streams that show an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Audience {
    /// All streams.
    Everyone,
    /// Streams without `full`. Full streams have another event for the same change.
    Plain,
    /// Streams with `full`. The reference has no such event.
    Full,
}

/// One change of one row, not yet encoded.
#[derive(Debug, Clone)]
pub struct Event {
    /// Topic of the event.
    pub topic: Topic,
    /// Type of the event, from the entry's kind.
    pub kind: &'static str,
    /// Id or name of the row.
    pub key: Str,
    /// Namespace of the row; empty for rows without one.
    pub namespace: Str,
    /// Further keys for filters; `null` when the topic has none. A missing key is an empty string.
    pub filter_keys: Option<Vec<Str>>,
    /// The row after the change; before the change when it was dropped.
    pub payload: Payload,
    /// Number of the plain stream's frame that contains the event: the reference writes some entries in several
    /// steps.
    pub step: u8,
    /// Streams that show the event.
    pub audience: Audience,
}

/// The row of an event.
#[derive(Debug, Clone)]
pub enum Payload {
    /// A change that creates the row. The row is converted to the noun's view when it is encoded.
    Row(Change),
    /// Payload of an event for full streams, as it is sent.
    Full(Value),
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Payload::Row(row) => row.visit(Encode(s)),
            Payload::Full(row) => row.serialize(s),
        }
    }
}

/// Encodes a row as a payload: a map with the noun's view of the row.
struct Encode<S>(S);

impl<S: Serializer> Visitor for Encode<S> {
    type Out = Result<S::Ok, S::Error>;

    fn restored(self) -> Self::Out {
        Err(S::Error::custom("a restored state is no row"))
    }
}

impl<T: Announce, S: Serializer> Visits<T> for Encode<S> {
    fn visit(self, _before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) -> Self::Out {
        let field = T::TOPIC.map_or("", |topic| topic.field);
        self.0.collect_map(after.map(|row| (field, T::view(row))))
    }
}

/// Wire form of an event, with the index of its entry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EventView<'a> {
    filter_keys: Option<&'a [Str]>,
    index: u64,
    key: &'a str,
    namespace: &'a str,
    payload: &'a Payload,
    topic: &'static str,
    #[serde(rename = "Type")]
    kind: &'static str,
}

impl Event {
    /// Wire form of the event.
    pub fn view(&self, index: u64) -> EventView<'_> {
        EventView {
            filter_keys: self.filter_keys.as_deref(),
            index,
            key: &self.key,
            namespace: &self.namespace,
            payload: &self.payload,
            topic: self.topic.word,
            kind: self.kind,
        }
    }
}

impl Event {
    /// Event of a row that exists, or that existed before the entry.
    fn of<T: Announce>(topic: Topic, word: &'static str, row: &Arc<T::Row>) -> Self {
        Event {
            topic,
            kind: word,
            key: T::key(row),
            namespace: T::namespace(row),
            filter_keys: T::filter_keys(row),
            payload: Payload::Row(T::change(None, Some(Arc::clone(row)))),
            step: 0,
            audience: Audience::Everyone,
        }
    }

    /// Event of a row for full streams.
    fn of_full<T: Announce>(topic: Topic, word: &'static str, row: &Arc<T::Row>, deleted: bool) -> Self {
        if !deleted && topic.is_plain(false) {
            return Self::of::<T>(topic, word, row);
        }
        // Rows serialize as maps with string keys, so the conversion does not fail.
        let payload = if deleted {
            json!({ topic.field: serde_json::to_value(T::deleted_view(row)).unwrap_or_default(), "Deleted": true })
        } else {
            json!({ topic.field: serde_json::to_value(T::view(row)).unwrap_or_default() })
        };
        Event { payload: Payload::Full(payload), ..Self::of::<T>(topic, word, row) }
    }
}

/// Quick check whether an entry certainly has no events.
pub fn is_silent(changes: &[Change]) -> bool {
    changes.iter().all(|change| change.visit(IsSilent))
}

struct IsSilent;

impl Visitor for IsSilent {
    type Out = bool;

    fn restored(self) -> bool {
        false
    }
}

impl<T: Announce> Visits<T> for IsSilent {
    fn visit(self, _before: Option<&Arc<T::Row>>, _after: Option<&Arc<T::Row>>) -> bool {
        T::TOPIC.is_none()
    }
}

/// A row of a snapshot as an event of type `Snapshot`; `None`: its table has no topic.
pub fn snapshot(row: &Change) -> Option<Event> {
    row.visit(InSnapshot)
}

struct InSnapshot;

impl Visitor for InSnapshot {
    type Out = Option<Event>;

    fn restored(self) -> Option<Event> {
        None
    }
}

impl<T: Announce> Visits<T> for InSnapshot {
    fn visit(self, _before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) -> Option<Event> {
        let (topic, row) = T::TOPIC.zip(after)?;
        let audience = if topic.is_plain(false) { Audience::Everyone } else { Audience::Full };
        Some(Event { audience, ..Event::of_full::<T>(topic, "Snapshot", row, false) })
    }
}

/// Events of an entry, in the order of its changes within each step.
pub fn events(kind: Kind, changes: &[Change]) -> Vec<Event> {
    let (plain, full) = kind.event_types();
    let mut out = Vec::new();
    for change in changes {
        change.visit(InEntry { kind, plain, full, out: &mut out });
    }
    if let Some(word) = plain {
        show_revived(kind, word, changes, &mut out);
    }
    if kind == Kind::JobRegister {
        // The reference writes the deployment of a job of several regions without a type of events.
        hide_deployments(&mut out);
    }
    if kind == Kind::JobRegister && changes.iter().any(is_of_scaling) {
        // In the reference, a new count is two entries: a registration and then an update of evaluations.
        let of_eval = out.iter_mut().filter(|event| event.step > 0);
        of_eval.for_each(|event| event.kind = "EvaluationUpdated");
    }
    // The sort is stable: within a step the order of the changes stays.
    out.sort_by_key(|event| event.step);
    out
}

/// Adds the events of one change: that of plain streams, and that of full ones where it differs.
struct InEntry<'a> {
    kind: Kind,
    /// Types of the entry's events in plain and in full streams.
    plain: Option<&'static str>,
    full: &'static str,
    out: &'a mut Vec<Event>,
}

impl Visitor for InEntry<'_> {
    type Out = ();

    fn restored(self) {}
}

impl<T: Announce> Visits<T> for InEntry<'_> {
    fn visit(self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) {
        let Some((topic, row)) = T::TOPIC.zip(after.or(before)) else { return };
        let step = T::step(self.kind, before.map(|row| &**row), after.map(|row| &**row));
        let deleted = after.is_none();
        let plain = self.plain.filter(|_| topic.is_plain(deleted));
        if let Some(word) = plain
            && word == self.full
            && !deleted
        {
            self.out.push(Event { step, ..Event::of::<T>(topic, word, row) });
            return;
        }
        if let Some(word) = plain {
            self.out.push(Event { step, audience: Audience::Plain, ..Event::of::<T>(topic, word, row) });
        }
        let full = Event::of_full::<T>(topic, self.full, row, deleted);
        self.out.push(Event { step, audience: Audience::Full, ..full });
    }
}

fn is_of_scaling(change: &Change) -> bool {
    matches!(change, Change::Eval { after: Some(eval), .. } if eval.triggered_by == EvalTrigger::JobScaling)
}

/// Gives revived jobs their first event. The reference writes a dead job and its evaluation in two steps: the job is
/// still dead in the first, and pending in the second. So one change has two events.
fn show_revived(kind: Kind, word: &'static str, changes: &[Change], out: &mut Vec<Event>) {
    let Some(topic) = tables::Jobs::TOPIC else { return };
    for change in changes {
        let Change::Job { before, after: Some(after) } = change else { continue };
        if !is_revived(kind, before.as_deref(), after, changes) {
            continue;
        }
        let dead = Job { status: JobStatus::Dead, ..Job::clone(after) };
        let first = Event::of::<tables::Jobs>(topic, word, &Arc::new(dead));
        let is_second =
            |event: &Event| event.topic == topic && event.key == first.key && event.namespace == first.namespace;
        let place = out.iter().position(is_second).unwrap_or(out.len());
        out.iter_mut().filter(|event| is_second(event)).for_each(|event| event.step = 1);
        out.insert(place, first);
    }
}

/// Takes the events of deployments out of plain streams.
fn hide_deployments(out: &mut Vec<Event>) {
    let Some(topic) = tables::Deployment::TOPIC else { return };
    out.retain_mut(|event| {
        let is_plain = event.topic == topic && event.audience != Audience::Full;
        let goes = is_plain && event.audience == Audience::Plain;
        if is_plain {
            event.audience = Audience::Full;
        }
        !goes
    });
}
