//! Lines of the event stream as deliveries read them: frames with events, and marks.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

/// A line of a stream in one of our dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// Events of one entry.
    Events {
        /// Index of the entry.
        index: u64,
        /// Number of events.
        count: u64,
    },
    /// Entries before `oldest` are gone.
    Gap {
        /// Index of the oldest entry that is left.
        oldest: u64,
    },
    /// Every event up to this index was sent.
    Through(u64),
    /// Every event up to this index was sent, and there are no others yet.
    CaughtUp(u64),
    /// The following events are old.
    FellBehind,
    /// The stream ends.
    Closed,
    /// Nothing: a heartbeat.
    Nothing,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Fields {
    index: u64,
    events: Option<Count>,
    gap: Option<Gap>,
    caught_up: bool,
    fell_behind: bool,
    checkpoint: bool,
    closed: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Gap {
    oldest: u64,
}

/// Number of elements of a list.
struct Count(u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = Count;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of events")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        d.deserialize_seq(Counting)
    }
}

impl Line {
    /// Reads a line.
    pub(super) fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        let fields: Fields = serde_json::from_slice(line)?;
        let index = fields.index;
        Ok(match fields {
            Fields { events: Some(Count(count)), .. } => Self::Events { index, count },
            Fields { gap: Some(Gap { oldest }), .. } => Self::Gap { oldest },
            Fields { closed: Some(_), .. } => Self::Closed,
            Fields { caught_up: true, .. } => Self::CaughtUp(index),
            Fields { checkpoint: true, .. } => Self::Through(index),
            Fields { fell_behind: true, .. } => Self::FellBehind,
            Fields { .. } => Self::Nothing,
        })
    }
}

/// Splits a piece of a stream into its lines, each with its line feed. JSON has no other line feeds.
pub(super) fn lines(mut piece: Bytes) -> Vec<Bytes> {
    let mut lines = Vec::new();
    while !piece.is_empty() {
        let end = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1);
        lines.push(piece.split_to(end));
    }
    lines
}
