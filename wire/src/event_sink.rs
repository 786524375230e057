//! JSON forms of event sinks. No form has the secret or the value of a header.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{
    EventSink, EventSinkName, EventSinkProgress, EventSinkStatus, EventSinkType, PartitionKey, Secret, Str, Time,
};

use crate::acl::REDACTED;

/// Body of a request that creates or updates an event sink.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EventSinkRequest {
    /// Name; empty is that of the path.
    #[serde(rename = "ID")]
    pub id: EventSinkName,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub address: Str,
    pub subject: Str,
    pub partition_key: Str,
    pub namespace: Str,
    pub topics: BTreeMap<Str, Vec<Str>>,
    pub filter: Str,
    pub full: bool,
    pub secret: Secret,
    pub headers: BTreeMap<Str, Secret>,
    pub batch_size: u64,
    /// Position of a sink that does not exist yet; an existing sink keeps its own.
    pub position: Option<u64>,
}

/// Body of a request that sets the position of an event sink.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EventSinkReset {
    pub position: Option<u64>,
}

/// The definition of an event sink.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EventSinkView {
    #[serde(rename = "ID")]
    id: EventSinkName,
    #[serde(rename = "Type")]
    kind: EventSinkType,
    address: Str,
    subject: Str,
    partition_key: PartitionKey,
    namespace: Str,
    topics: BTreeMap<Str, Vec<Str>>,
    filter: Str,
    full: bool,
    secret: &'static str,
    headers: BTreeMap<Str, &'static str>,
    batch_size: u64,
    create_index: u64,
    modify_index: u64,
}

/// An event sink with its progress.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EventSinkStanding {
    #[serde(flatten)]
    definition: EventSinkView,
    status: EventSinkStatus,
    position: u64,
    lag: u64,
    delivered: u64,
    gaps: u64,
    last_error: Str,
    last_error_time: Option<Time>,
}

impl EventSinkView {
    /// The view of a sink.
    pub fn new(sink: &EventSink) -> Self {
        let sink = sink.clone();
        Self {
            id: sink.id,
            kind: sink.kind,
            address: sink.address,
            subject: sink.subject,
            partition_key: sink.partition_key,
            namespace: sink.namespace,
            topics: sink.topics,
            filter: sink.filter,
            full: sink.full,
            secret: if sink.secret.is_empty() { "" } else { REDACTED },
            headers: sink.headers.into_keys().map(|name| (name, REDACTED)).collect(),
            batch_size: sink.batch_size,
            create_index: sink.create_index,
            modify_index: sink.modify_index,
        }
    }
}

impl EventSinkStanding {
    /// The view of a sink and its progress. `lag` is the number of log entries that it is behind.
    pub fn new(sink: &EventSink, progress: &EventSinkProgress, lag: u64) -> Self {
        Self {
            definition: EventSinkView::new(sink),
            status: progress.status,
            position: progress.position,
            lag,
            delivered: progress.delivered,
            gaps: progress.gaps,
            last_error: progress.last_error.clone(),
            last_error_time: progress.last_error_time,
        }
    }

    /// Name of the sink.
    pub fn name(&self) -> &EventSinkName {
        &self.definition.id
    }
}
