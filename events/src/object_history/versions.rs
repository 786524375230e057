//! Changes of an object with the fields that they changed. The record says which entries changed the object; the rows
//! before and after are payloads of events.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use songline_commands::Kind;
use songline_model::Str;

use super::diff::{self, FieldChange};
use super::error::ObjectHistoryError;
use super::object::{Object, ObjectKind};
use super::store::{Before, How, Touch};
use crate::hub::{EventHub, Payloads};

/// Number of rows that are kept while changes are compared: those before and after one change. The next change has one
/// of them, too.
const ROWS_KEPT: usize = 2;

/// One change of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectChange {
    /// Index of the entry.
    pub index: u64,
    /// Kind of the entry.
    pub kind: Kind,
    /// Namespace of the object; empty when it has none.
    pub namespace: Str,
    /// The change.
    pub diff: ObjectDiff,
}

/// Change that an entry made to an object.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectDiff {
    /// The entry created the object with these fields.
    Created(Vec<FieldChange>),
    /// The entry changed these fields. None when the event history was lost and does not reach back to the row before.
    Updated(Vec<FieldChange>),
    /// The entry dropped the object.
    Deleted,
}

/// The rows that one object had, read from the event history.
pub(super) struct Versions<'a> {
    object: &'a Object,
    events: &'a EventHub,
    payloads: Payloads<'a>,
    /// Index from which on the event history is complete.
    oldest: u64,
    /// The rows that were read last, by the index of the entry that wrote them.
    rows: VecDeque<(u64, Arc<Value>)>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(events: &'a EventHub, object: &'a Object) -> Self {
        Self { object, events, payloads: events.payloads(), oldest: events.oldest(), rows: VecDeque::new() }
    }

    /// The change with its fields. `None`: the event history does not reach back to it, or it changed no field that is
    /// shown.
    pub(super) fn change(&mut self, touch: Touch) -> Result<Option<ObjectChange>, ObjectHistoryError> {
        let Touch { index, kind, namespace, how } = touch;
        if index < self.oldest {
            return Ok(None);
        }
        let diff = match how {
            How::Deleted => Some(ObjectDiff::Deleted),
            How::Created => self.after(index)?.map(|row| ObjectDiff::Created(diff::of_new(&row))),
            How::Updated(before) => self.update(before, index)?,
        };
        Ok(diff.map(|diff| ObjectChange { index, kind, namespace, diff }))
    }

    /// The fields that the entry at `index` changed. `None`: none that is shown.
    fn update(&mut self, before: Before, index: u64) -> Result<Option<ObjectDiff>, ObjectHistoryError> {
        // The newer row first: of the two that are kept then, the next change of a page from new to old has the older one.
        let Some(after) = self.after(index)? else { return Ok(None) };
        let Some(before) = self.before(before, index)? else { return Ok(Some(ObjectDiff::Updated(Vec::new()))) };
        let fields = diff::between(&before, &after);
        Ok((!fields.is_empty()).then_some(ObjectDiff::Updated(fields)))
    }

    /// The row before the entry at `index`. `None`: it is no longer, or not yet, in the event history.
    fn before(&mut self, before: Before, index: u64) -> Result<Option<Arc<Value>>, ObjectHistoryError> {
        match before {
            Before::Row(json) => {
                let row = serde_json::from_slice(&json);
                Ok(Some(Arc::new(row.map_err(|source| ObjectHistoryError::Content { index, source })?)))
            }
            Before::At(index) if index >= self.oldest => self.after(index),
            Before::At(_) | Before::Unknown => Ok(None),
        }
    }

    /// The row after the entry at `index`. `None`: its events have been dropped since this reader began.
    fn after(&mut self, index: u64) -> Result<Option<Arc<Value>>, ObjectHistoryError> {
        if let Some((_, row)) = self.rows.iter().find(|(at, _)| *at == index) {
            return Ok(Some(Arc::clone(row)));
        }
        let Some(row) = row(&mut self.payloads, self.object, index)? else {
            let was_dropped = index < self.events.oldest();
            return if was_dropped { Ok(None) } else { Err(ObjectHistoryError::Damaged(index)) };
        };
        if self.rows.len() == ROWS_KEPT {
            self.rows.pop_front();
        }
        let row = Arc::new(row);
        self.rows.push_back((index, Arc::clone(&row)));
        Ok(Some(row))
    }
}

/// The row of an object after the entry at `index`; `None` when no event has it.
pub(super) fn row(
    payloads: &mut Payloads<'_>,
    object: &Object,
    index: u64,
) -> Result<Option<Value>, ObjectHistoryError> {
    let Some(topic) = object.kind.topic() else { return Ok(None) };
    let payload = payloads.of(index, |label| {
        let is_named = label.topic == topic.word && label.key == object.id;
        is_named && (object.kind != ObjectKind::Job || label.namespace == object.namespace)
    })?;
    Ok(payload.and_then(|mut payload| payload.get_mut(topic.field).map(Value::take)))
}
