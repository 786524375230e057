//! The events of one entry, encoded once per format and shared by all subscribers. Which changes are events is in `wire::event`.

use std::sync::OnceLock;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;
use songline_commands::Kind;
use songline_model::Str;
use songline_projections::Change;

use crate::wire::event;

/// How frames are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// One msgpack map after the other, the same tree.
    Msgpack,
}

/// The events of one entry.
#[derive(Debug)]
pub struct Batch {
    /// Index of the entry.
    pub index: u64,
    /// Kind of the entry, by number.
    pub kind: u16,
    /// Ordered by step.
    pub events: Vec<EncodedEvent>,
    /// Frames of all events, by format and dialect.
    frames: [OnceLock<Vec<Bytes>>; 4],
}

/// One event and what it is found by.
#[derive(Debug)]
pub struct EncodedEvent {
    /// Topic.
    pub topic: Str,
    /// Id or name of its row.
    pub key: Str,
    /// Namespace of its row, empty when it has none.
    pub namespace: Str,
    /// What else it is found by.
    pub filter_keys: Vec<Str>,
    /// Which of the plain dialect's frames it is in.
    pub step: u8,
    /// The event as JSON.
    pub json: Bytes,
    msgpack: OnceLock<Bytes>,
}

impl EncodedEvent {
    /// An event whose JSON is known.
    pub fn new(topic: Str, key: Str, namespace: Str, filter_keys: Vec<Str>, step: u8, json: Bytes) -> Self {
        Self { topic, key, namespace, filter_keys, step, json, msgpack: OnceLock::new() }
    }

    fn encoded(&self, format: Format) -> &Bytes {
        match format {
            Format::Json => &self.json,
            // Made from the JSON, so that the two can never say different things.
            Format::Msgpack => self.msgpack.get_or_init(|| {
                let tree: Value = serde_json::from_slice(&self.json).expect("what this server encoded as JSON is JSON");
                Bytes::from(rmp_serde::to_vec_named(&tree).expect("a JSON value fits into msgpack"))
            }),
        }
    }
}

impl Batch {
    /// Encodes the events of an entry.
    pub fn encode(index: u64, kind: Kind, changes: &[Change]) -> Self {
        let events = event::events(kind, changes).into_iter().map(|event| {
            let json = serde_json::to_vec(&event.view(index)).expect("rows have text keys only, so they are JSON");
            let filter_keys = event.filter_keys.unwrap_or_default();
            EncodedEvent::new(Str::new_static(event.topic.as_str()), event.key, event.namespace, filter_keys, event.step, json.into())
        });
        Self::new(index, kind.number(), events.collect())
    }

    /// A batch of events that are encoded already.
    pub fn new(index: u64, kind: u16, events: Vec<EncodedEvent>) -> Self {
        Self { index, kind, events, frames: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// Bytes of its JSON.
    pub(super) fn bytes(&self) -> usize {
        self.events.iter().map(|event| event.json.len()).sum()
    }

    /// How many frames a plain request gets of it.
    pub(super) fn steps(&self) -> usize {
        self.events.chunk_by(|a, b| a.step == b.step).count()
    }

    /// The frames of all its events: one, or one per step.
    pub(super) fn frames(&self, format: Format, split: bool) -> &[Bytes] {
        let slot = usize::from(format == Format::Msgpack) * 2 + usize::from(split);
        self.frames[slot].get_or_init(|| self.frames_of(format, split, |_| true))
    }

    /// The frames of those of its events that are wanted.
    pub(super) fn frames_of(&self, format: Format, split: bool, wanted: impl Fn(&EncodedEvent) -> bool) -> Vec<Bytes> {
        let mut out = Vec::new();
        for chunk in self.events.chunk_by(|a, b| !split || a.step == b.step) {
            let events: Vec<&Bytes> = chunk.iter().filter(|event| wanted(event)).map(|event| event.encoded(format)).collect();
            if !events.is_empty() {
                out.push(frame(format, self.index, &events));
            }
        }
        out
    }
}

fn frame(format: Format, index: u64, events: &[&Bytes]) -> Bytes {
    let size: usize = events.iter().map(|event| event.len() + 1).sum();
    let mut out = BytesMut::with_capacity(size + 48);
    match format {
        Format::Json => {
            out.put_slice(b"{\"Events\":[");
            for (i, event) in events.iter().enumerate() {
                if i > 0 {
                    out.put_u8(b',');
                }
                out.put_slice(event);
            }
            out.put_slice(b"],\"Index\":");
            out.put_slice(index.to_string().as_bytes());
            out.put_slice(b"}\n");
        }
        Format::Msgpack => {
            out.put_u8(0x82);
            out.put_slice(b"\xa6Events\xdd");
            out.put_u32(u32::try_from(events.len()).expect("an entry has fewer than 2^32 events"));
            for event in events {
                out.put_slice(event);
            }
            out.put_slice(b"\xa5Index\xcf");
            out.put_u64(index);
        }
    }
    out.freeze()
}

/// A frame that says something about the stream itself, or a heartbeat.
pub(super) fn mark(format: Format, value: &Value) -> Bytes {
    match format {
        Format::Json => Bytes::from(format!("{value}\n")),
        Format::Msgpack => Bytes::from(rmp_serde::to_vec_named(value).expect("a JSON value fits into msgpack")),
    }
}
