//! Event sinks: receivers to which the leader delivers the events of the log, and how far each of them has come.
//! Delivery is not here: `server` reads the events, and the program talks to receivers.

mod brokers;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::empty::is_empty;
use crate::{EventSinkName, EventSinkStatus, EventSinkType, PartitionKey, Secret, Str, Time};

pub use brokers::{Broker, Brokers, InvalidBrokers};

/// A receiver of events, and the choice of the events that it gets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EventSink {
    #[serde(rename = "ID")]
    pub id: EventSinkName,
    #[serde(rename = "Type")]
    pub kind: EventSinkType,
    /// URL of a webhook or of a NATS server; brokers of Kafka; name of a file in the server's directory of event sinks.
    pub address: Str,
    /// Subject of NATS or topic of Kafka to which events are published; empty for other types.
    pub subject: Str,
    /// Kind of key of the messages to Kafka; none for other types.
    #[serde(skip_serializing_if = "is_empty")]
    pub partition_key: PartitionKey,
    /// Namespace whose events are delivered; `*` is all.
    pub namespace: Str,
    /// Keys by topic, as the event stream takes them. A topic without keys has all; no topic is all topics.
    pub topics: BTreeMap<Str, Vec<Str>>,
    /// Filter expression over events; empty: every event of the topics.
    pub filter: Str,
    /// Whether events are delivered that the reference does not have.
    pub full: bool,
    /// Key of the signatures of a webhook; password or token of NATS; user and password of Kafka.
    pub secret: Secret,
    /// Additional headers of a webhook's requests.
    pub headers: BTreeMap<Str, Secret>,
    /// Largest number of log entries in one delivery.
    pub batch_size: u64,
    pub create_index: u64,
    pub modify_index: u64,
}

impl EventSink {
    /// Whether the receiver is a file of the leading server.
    pub fn is_file(&self) -> bool {
        self.kind == EventSinkType::File
    }
}

/// Progress of an event sink. A row of its own, so that the frequent writes are small.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EventSinkProgress {
    #[serde(rename = "ID")]
    pub id: EventSinkName,
    /// Index of the entry that began this run of deliveries: the last write of the sink or of its position by a user.
    /// Reports of an earlier run are refused.
    pub run: u64,
    /// Index up to which every event was delivered.
    pub position: u64,
    /// Number of delivered events since the sink was created. Repeated deliveries count once.
    pub delivered: u64,
    /// Number of gaps that the receiver was told of: events that were no longer kept when they were due.
    pub gaps: u64,
    pub status: EventSinkStatus,
    /// The last failure of a delivery. It stays after the delivery succeeded.
    pub last_error: Str,
    pub last_error_time: Option<Time>,
    pub modify_index: u64,
}
