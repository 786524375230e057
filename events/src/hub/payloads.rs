//! Payloads of single events, read back from the tail or the history.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::batch::{Batch, Dialect, Label};
use super::block::Block;
use super::error::HistoryError;
use super::{EventHub, Shared, tail};

/// A reader of payloads. It keeps the block and the entry that it read last: the wanted entries are often neighbours, and
/// the wanted events often of one entry.
pub struct Payloads<'a> {
    shared: &'a Shared,
    block: Option<Block>,
    batch: Option<Arc<Batch>>,
}

/// The part of an event that is read back.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WithPayload {
    payload: Value,
}

impl EventHub {
    /// A reader of payloads.
    pub fn payloads(&self) -> Payloads<'_> {
        Payloads { shared: &self.shared, block: None, batch: None }
    }

    /// Index from which on the events of all entries can be read.
    pub fn oldest(&self) -> u64 {
        match &self.shared.history {
            Some(history) => history.oldest(),
            None => self.shared.tail.lock().complete_after() + 1,
        }
    }
}

impl Payloads<'_> {
    /// The payload of the last event of an entry whose label is `wanted`, as full streams show it. `None`: the entry has no
    /// such event, or is not covered. Reads files.
    pub fn of(&mut self, index: u64, wanted: impl Fn(&Label) -> bool) -> Result<Option<Value>, HistoryError> {
        if self.batch.as_ref().is_none_or(|batch| batch.index != index) {
            self.batch = self.read(index)?;
        }
        let Some(batch) = &self.batch else { return Ok(None) };
        let shown = |label: &Label| Dialect::Full.shows(label.audience) && wanted(label);
        let Some(event) = batch.events.iter().rfind(|event| shown(&event.label)) else { return Ok(None) };
        let event: WithPayload = serde_json::from_slice(&event.json()).map_err(|_| HistoryError::Damaged(index))?;
        Ok(Some(event.payload))
    }

    fn read(&mut self, index: u64) -> Result<Option<Arc<Batch>>, HistoryError> {
        let after = index.saturating_sub(1);
        let read = self.shared.tail.lock().after(after, 1);
        if let tail::Read::Batches(batches) = read {
            return Ok(batches.into_iter().next().filter(|batch| batch.index == index));
        }
        let Some(history) = &self.shared.history else { return Ok(None) };
        if history.last() < index {
            return Err(HistoryError::NotWritten(index));
        }
        if self.block.as_ref().is_none_or(|block| !block.indexes().any(|at| at == index)) {
            self.block = history.read(after, 0)?.into_iter().next();
        }
        let Some(block) = &self.block else { return Ok(None) };
        let entry = block.after(after).first().filter(|entry| entry.index == index);
        entry.map(|entry| block.batch(entry).map(Arc::new)).transpose()
    }
}
