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
    /// The entry changed these fields; none while the event history lacks the row before.
    Updated(Vec<FieldChange>),
    /// The entry dropped the object.
    Deleted,
}

/// The rows that one object had, read from the event history.
pub(super) struct Versions<'a> {
    object: &'a Object,
    payloads: Payloads<'a>,
    /// Index from which on the event history is complete.
    oldest: u64,
    /// The rows that were read last, by the index of the entry that wrote them.
    rows: VecDeque<(u64, Arc<Value>)>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(events: &'a EventHub, object: &'a Object) -> Self {
        Self { object, payloads: events.payloads(), oldest: events.oldest(), rows: VecDeque::new() }
    }

    /// The change with its fields. `None`: the event history does not reach back to it, or it changed no field that is
    /// shown.
    pub(super) fn change(&mut self, touch: Touch) -> Result<Option<ObjectChange>, ObjectHistoryError> {
        let Touch { index, kind, namespace, how } = touch;
        if index < self.oldest {
            return Ok(None);
        }
        let diff = match how {
            How::Deleted => ObjectDiff::Deleted,
            How::Created => ObjectDiff::Created(diff::of_new(&*self.after(index)?)),
            How::Updated(before) => match self.before(before, index)? {
                None => ObjectDiff::Updated(Vec::new()),
                Some(before) => {
                    let fields = diff::between(&before, &*self.after(index)?);
                    if fields.is_empty() {
                        return Ok(None);
                    }
                    ObjectDiff::Updated(fields)
                }
            },
        };
        Ok(Some(ObjectChange { index, kind, namespace, diff }))
    }

    /// The row before the entry at `index`. `None`: it is no longer, or not yet, in the event history.
    fn before(&mut self, before: Before, index: u64) -> Result<Option<Arc<Value>>, ObjectHistoryError> {
        match before {
            Before::Row(json) => {
                let row = serde_json::from_slice(&json);
                Ok(Some(Arc::new(row.map_err(|source| ObjectHistoryError::Content { index, source })?)))
            }
            Before::At(index) if index >= self.oldest => self.after(index).map(Some),
            Before::At(_) | Before::Unknown => Ok(None),
        }
    }

    /// The row after the entry at `index`.
    fn after(&mut self, index: u64) -> Result<Arc<Value>, ObjectHistoryError> {
        if let Some((_, row)) = self.rows.iter().find(|(at, _)| *at == index) {
            return Ok(Arc::clone(row));
        }
        let row = self.row(index)?.ok_or(ObjectHistoryError::Damaged(index))?;
        if self.rows.len() == ROWS_KEPT {
            self.rows.pop_front();
        }
        let row = Arc::new(row);
        self.rows.push_back((index, Arc::clone(&row)));
        Ok(row)
    }

    /// The row after the entry at `index`; `None` when no event has it.
    pub(super) fn row(&mut self, index: u64) -> Result<Option<Value>, ObjectHistoryError> {
        let Some(topic) = self.object.kind.topic() else { return Ok(None) };
        let object = self.object;
        let payload = self.payloads.of(index, |label| {
            let is_named = label.topic == topic.word && label.key == object.id;
            is_named && (object.kind != ObjectKind::Job || label.namespace == object.namespace)
        })?;
        Ok(payload.and_then(|mut payload| payload.get_mut(topic.field).map(Value::take)))
    }
}
