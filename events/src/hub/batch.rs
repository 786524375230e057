//! The events of one entry, encoded once and shared by all subscribers. `event` decides which changes are
//! events.
//!
//! Events are kept as msgpack, in memory and on disk. JSON is made from it on request.

use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use songline_commands::Kind;
use songline_model::Str;
use songline_projections::Change;

use super::json;
use crate::event::{self, Audience, Event};
use crate::sweep::Sweep;

/// Number of renderings for which an entry keeps shared frames.
const SHARED_RENDERINGS_MAX: usize = 8;
/// Bytes that are reserved for each event of an entry while it is encoded; an allocation's event takes about as many.
const EVENT_BYTES: usize = 3 * 1024;

/// Largest buffer for the encoding of entries that is kept for the next entry.
const BUFFER_BYTES_MAX: usize = 4 << 20;

/// Encoding of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    Json,
    /// Concatenated msgpack maps with the same content as the JSON.
    Msgpack,
}

/// Dialect of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The reference's frames and nothing else.
    Plain,
    /// One frame per entry, and marks.
    Ours,
    /// Same as [`Self::Ours`], with the events that the reference does not have.
    Full,
}

impl Dialect {
    /// Whether the dialect shows events of this audience.
    pub fn shows(self, audience: Audience) -> bool {
        match audience {
            Audience::Everyone => true,
            Audience::Plain => matches!(self, Dialect::Plain | Dialect::Ours),
            Audience::Full => self == Dialect::Full,
        }
    }

    /// Whether an entry may take several frames.
    pub fn splits(self) -> bool {
        self == Dialect::Plain
    }

    /// Whether the dialect has marks.
    pub fn has_marks(self) -> bool {
        matches!(self, Dialect::Ours | Dialect::Full)
    }
}

/// The events of one entry.
#[derive(Debug)]
pub struct Batch {
    /// Index of the entry.
    pub index: u64,
    /// Number of the entry's command kind.
    pub kind: u16,
    /// Events ordered by step, without those of the entry's sweep.
    pub events: Vec<EncodedEvent>,
    /// All of `events` as one msgpack frame.
    frame: Bytes,
    /// Rows that the entry swept, in stored form, for full streams. They become events when the first full stream
    /// reads them.
    swept: Option<Swept>,
    /// Frames that subscribers share. `None`: the entry is no longer new.
    shared: Mutex<Option<SharedFrames>>,
    /// JSON of the events by their position, empty before the first use. `None`: the entry is no longer new.
    json: Mutex<Option<Vec<Option<Bytes>>>>,
}

/// Frames of one entry, made once for all subscribers that want the same.
#[derive(Debug, Default)]
struct SharedFrames {
    /// Frames of all events that a dialect shows, by format and dialect.
    whole: [Option<Vec<Bytes>>; 6],
    /// Filtered frames by rendering number.
    filtered: Vec<(u64, Vec<Bytes>)>,
}

/// A sweep in stored form, and, while the entry is new, the batch of the entry's events together with those of the
/// sweep.
#[derive(Debug)]
struct Swept {
    stored: Bytes,
    whole: Mutex<Option<Arc<Batch>>>,
}

/// One event and its label.
#[derive(Debug)]
pub struct EncodedEvent {
    /// Attributes for filters.
    pub label: Label,
    /// The event as msgpack, a part of its entry's frame.
    msgpack: Bytes,
}

/// The attributes by which an event is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Topic, such as `Job`.
    pub topic: Str,
    /// Type, such as `JobRegistered`.
    pub word: Str,
    /// Id or name of the changed row.
    pub key: Str,
    /// Namespace of the row, empty when it has none.
    pub namespace: Str,
    /// Further keys that a filter on keys matches.
    pub filter_keys: Vec<Str>,
    /// Number of the plain dialect's frame that contains the event.
    pub step: u8,
    /// Streams that show the event.
    pub audience: Audience,
}

impl EncodedEvent {
    /// The event as msgpack.
    pub fn msgpack(&self) -> &Bytes {
        &self.msgpack
    }

    /// The event as JSON.
    pub(super) fn json(&self) -> Bytes {
        json_of(&self.msgpack)
    }
}

impl Batch {
    /// Encodes the events of an entry.
    pub fn encode(index: u64, kind: Kind, changes: &[Change]) -> Self {
        Self::encode_in(&mut Vec::new(), index, kind, changes)
    }

    /// Same as [`Self::encode`], in a buffer that its caller keeps for further entries.
    pub(super) fn encode_in(buffer: &mut Vec<u8>, index: u64, kind: Kind, changes: &[Change]) -> Self {
        let (sweep, others) = Sweep::split(kind, changes).unzip();
        let events = event::events(kind, others.as_deref().unwrap_or(changes));
        let batch = Self::of_in(buffer, index, kind.number(), events);
        if buffer.capacity() > BUFFER_BYTES_MAX {
            *buffer = Vec::new();
        }
        match sweep {
            None => batch,
            Some(sweep) => batch.with_swept(sweep.encode().into()),
        }
    }

    /// Encodes events of the entry at `index`.
    pub fn of(index: u64, kind: u16, events: Vec<Event>) -> Self {
        Self::of_in(&mut Vec::new(), index, kind, events)
    }

    fn of_in(buffer: &mut Vec<u8>, index: u64, kind: u16, events: Vec<Event>) -> Self {
        buffer.clear();
        buffer.reserve(EVENT_BYTES * events.len() + 32);
        frame_head(Format::Msgpack, events.len(), buffer);
        let labels = events.into_iter().map(|event| push(event, index, buffer)).collect();
        Self::ended(index, kind, buffer, labels)
    }

    /// Completes the frame in `buffer` and makes its batch.
    fn ended(index: u64, kind: u16, buffer: &mut Vec<u8>, labels: Vec<(Label, Range<usize>)>) -> Self {
        frame_end(Format::Msgpack, index, buffer);
        // A copy of the frame's length: it stays in memory for long, and the buffer has room for more.
        Self::new(index, kind, Bytes::copy_from_slice(buffer), labels)
    }

    /// A batch of encoded events: their frame, and the position of each event in it.
    pub(super) fn new(index: u64, kind: u16, frame: Bytes, labels: Vec<(Label, Range<usize>)>) -> Self {
        let events = labels.into_iter().map(|(label, at)| EncodedEvent { label, msgpack: frame.slice(at) });
        Self {
            index,
            kind,
            events: events.collect(),
            frame,
            swept: None,
            shared: Mutex::new(Some(SharedFrames::default())),
            json: Mutex::new(Some(Vec::new())),
        }
    }

    /// Adds the entry's sweep, in stored form.
    pub(super) fn with_swept(self, stored: Bytes) -> Self {
        Self { swept: Some(Swept { stored, whole: Mutex::default() }), ..self }
    }

    /// The entry's sweep, in stored form.
    pub(super) fn swept(&self) -> Option<&Bytes> {
        self.swept.as_ref().map(|swept| &swept.stored)
    }

    /// The batch with the events of the entry's sweep, if this dialect shows them. `None`: `self` has all events that
    /// the dialect shows.
    pub(super) fn whole(&self, dialect: Dialect) -> Option<Arc<Batch>> {
        let swept = self.swept.as_ref().filter(|_| dialect.shows(Audience::Full))?;
        Some(Arc::clone(swept.whole.lock().get_or_insert_with(|| Arc::new(self.spread(&swept.stored)))))
    }

    fn spread(&self, stored: &[u8]) -> Self {
        let kind = Kind::from_number(self.kind).expect("the number of a kind is what it was encoded with");
        let sweep =
            Sweep::decode(stored).expect("what was stored by this server is whole: who reads it from disk looks");
        let dropped: Vec<Event> = sweep.changes().flat_map(|change| event::events(kind, &[change])).collect();
        let count = dropped.len() + self.events.len();
        let mut out = Vec::with_capacity(EVENT_BYTES * dropped.len() + self.frame.len() + 32);
        frame_head(Format::Msgpack, count, &mut out);
        let mut labels: Vec<_> = dropped.into_iter().map(|event| push(event, self.index, &mut out)).collect();
        for event in &self.events {
            let start = out.len();
            out.extend_from_slice(&event.msgpack);
            labels.push((event.label.clone(), start..out.len()));
        }
        Self::ended(self.index, self.kind, &mut out, labels)
    }

    /// Whether no stream shows any event of the entry.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.swept.is_none()
    }

    /// All of `events` as one msgpack frame.
    pub(super) fn frame(&self) -> &Bytes {
        &self.frame
    }

    /// Bytes of the frame and of the stored sweep.
    pub fn bytes(&self) -> usize {
        self.frame.len() + self.swept().map_or(0, Bytes::len)
    }

    /// Positions of the events in the frame.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (&Label, Range<usize>)> {
        let base = self.frame.as_ptr() as usize;
        self.events.iter().map(move |event| {
            let start = event.msgpack.as_ptr() as usize - base;
            (&event.label, start..start + event.msgpack.len())
        })
    }

    /// Whether some streams show only a part of the events.
    pub(super) fn is_mixed(&self) -> bool {
        self.swept.is_some() || self.events.iter().any(|event| event.label.audience != Audience::Everyone)
    }

    /// Number of frames that a plain stream gets of the entry.
    pub(super) fn steps(&self) -> usize {
        let plain: Vec<u8> = self
            .events
            .iter()
            .filter(|event| Dialect::Plain.shows(event.label.audience))
            .map(|event| event.label.step)
            .collect();
        plain.chunk_by(|a, b| a == b).count()
    }

    /// Frames of all events that the dialect shows.
    pub(super) fn frames(&self, format: Format, dialect: Dialect) -> Vec<Bytes> {
        let mut shared = self.shared.lock();
        let Some(known) = shared.as_mut() else {
            drop(shared);
            return self.whole_frames(format, dialect);
        };
        let slot = usize::from(format == Format::Msgpack) * 3 + dialect as usize;
        known.whole[slot].get_or_insert_with(|| self.whole_frames(format, dialect)).clone()
    }

    fn whole_frames(&self, format: Format, dialect: Dialect) -> Vec<Bytes> {
        match dialect {
            Dialect::Ours | Dialect::Full if !self.is_mixed() => vec![match format {
                Format::Msgpack => self.frame.clone(),
                Format::Json => line_of(&self.frame),
            }],
            Dialect::Plain | Dialect::Ours | Dialect::Full => self.frames_of(format, dialect, |_| true),
        }
    }

    /// Frames of the rendering `rendering`, made by `make` once for all subscribers with that rendering while the entry
    /// is new.
    pub(super) fn shared_frames(&self, rendering: u64, make: impl FnOnce() -> Vec<Bytes>) -> Vec<Bytes> {
        let mut shared = self.shared.lock();
        let frames = shared.as_ref().and_then(|known| known.filtered.iter().find(|(number, _)| *number == rendering));
        if let Some((_, frames)) = frames {
            return frames.clone();
        }
        match shared.as_mut().filter(|known| known.filtered.len() < SHARED_RENDERINGS_MAX) {
            Some(known) => {
                let frames = make();
                known.filtered.push((rendering, frames.clone()));
                frames
            }
            None => {
                drop(shared);
                make()
            }
        }
    }

    /// Drops everything that was made for subscribers once the entry is no longer new: most of them have read it by
    /// then. For the others it is made again, for each of them.
    pub(super) fn forget_shared(&self) {
        *self.shared.lock() = None;
        *self.json.lock() = None;
        if let Some(swept) = &self.swept {
            *swept.whole.lock() = None;
        }
    }

    /// Whether frames are kept for other subscribers.
    #[cfg(test)]
    pub(super) fn is_shared(&self) -> bool {
        self.shared.lock().is_some() && self.json.lock().is_some()
    }

    /// Frames of the events that the dialect shows and `wanted` accepts.
    pub(super) fn frames_of(
        &self,
        format: Format,
        dialect: Dialect,
        wanted: impl Fn(&EncodedEvent) -> bool,
    ) -> Vec<Bytes> {
        let mut out = Vec::new();
        let mut start = 0;
        for chunk in self.events.chunk_by(|a, b| !dialect.splits() || a.label.step == b.label.step) {
            let at = start..start + chunk.len();
            start = at.end;
            let shown = at.zip(chunk).filter(|(_, event)| dialect.shows(event.label.audience) && wanted(event));
            let events: Vec<Bytes> = shown.map(|(at, event)| self.encoded(at, event, format)).collect();
            if !events.is_empty() {
                out.push(frame(format, self.index, &events));
            }
        }
        out
    }

    /// The event at this position in this format.
    fn encoded(&self, at: usize, event: &EncodedEvent, format: Format) -> Bytes {
        if format == Format::Msgpack {
            return event.msgpack.clone();
        }
        let mut json = self.json.lock();
        let Some(known) = json.as_mut() else {
            drop(json);
            return json_of(&event.msgpack);
        };
        known.resize(self.events.len(), None);
        known[at].get_or_insert_with(|| json_of(&event.msgpack)).clone()
    }
}

/// Appends an event to its frame.
fn push(event: Event, index: u64, out: &mut Vec<u8>) -> (Label, Range<usize>) {
    let start = out.len();
    let view = event.view(index);
    let mut encoder = rmp_serde::Serializer::new(&mut *out).with_struct_map().with_human_readable();
    view.serialize(&mut encoder).expect("rows have text keys only, so they fit into msgpack");
    debug_assert_eq!(
        String::from_utf8_lossy(&json_of(&out[start..])),
        serde_json::to_string(&view).expect("rows have text keys only, so they are JSON"),
        "the way over msgpack changes nothing"
    );
    let label = Label {
        topic: Str::new_static(event.topic.word),
        word: Str::new_static(event.kind),
        key: event.key,
        namespace: event.namespace,
        filter_keys: event.filter_keys.unwrap_or_default(),
        step: event.step,
        audience: event.audience,
    };
    (label, start..out.len())
}

/// The JSON of msgpack that this server encoded.
fn json_of(msgpack: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(msgpack.len() + msgpack.len() / 4 + 16);
    json::from_msgpack(msgpack, &mut out).expect("what this server encodes is a tree with text keys");
    out.into()
}

/// The JSON line of a msgpack frame that this server encoded.
fn line_of(frame: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(frame.len() + frame.len() / 4 + 16);
    json::from_msgpack(frame, &mut out).expect("what this server encodes is a tree with text keys");
    out.push(b'\n');
    out.into()
}

/// A frame of events that belong to no batch.
pub(super) fn frame_of(format: Format, index: u64, events: &[EncodedEvent]) -> Bytes {
    let events = events.iter().map(|event| match format {
        Format::Msgpack => event.msgpack.clone(),
        Format::Json => json_of(&event.msgpack),
    });
    frame(format, index, &events.collect::<Vec<Bytes>>())
}

fn frame(format: Format, index: u64, events: &[Bytes]) -> Bytes {
    let size: usize = events.iter().map(|event| event.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 48);
    frame_head(format, events.len(), &mut out);
    for (i, event) in events.iter().enumerate() {
        if i > 0 && format == Format::Json {
            out.put_u8(b',');
        }
        out.put_slice(event);
    }
    frame_end(format, index, &mut out);
    out.into()
}

/// Appends the beginning of a frame, up to its first event.
fn frame_head(format: Format, events: usize, out: &mut Vec<u8>) {
    match format {
        Format::Json => out.put_slice(b"{\"Events\":["),
        Format::Msgpack => {
            out.put_slice(b"\x82\xa6Events\xdd");
            out.put_u32(u32::try_from(events).expect("an entry has fewer than 2^32 events"));
        }
    }
}

/// Appends the end of a frame, after its last event.
fn frame_end(format: Format, index: u64, out: &mut Vec<u8>) {
    match format {
        Format::Json => {
            out.put_slice(b"],\"Index\":");
            out.put_slice(index.to_string().as_bytes());
            out.put_slice(b"}\n");
        }
        Format::Msgpack => {
            out.put_slice(b"\xa5Index\xcf");
            out.put_u64(index);
        }
    }
}

/// A frame without events: a mark or a heartbeat.
pub(super) fn mark(format: Format, value: &Value) -> Bytes {
    match format {
        Format::Json => Bytes::from(format!("{value}\n")),
        Format::Msgpack => Bytes::from(rmp_serde::to_vec_named(value).expect("a JSON value fits into msgpack")),
    }
}

/// The JSON frame of an entry in a stream of all events; `None` when the stream shows no event of the entry. The
/// frame is made from the changes alone, without the compact form of sweeps, so that streams can be checked against
/// it.
pub fn full_frame(index: u64, kind: Kind, changes: &[Change]) -> Option<Bytes> {
    let frames =
        Batch::of(index, kind.number(), event::events(kind, changes)).frames_of(Format::Json, Dialect::Full, |_| true);
    (!frames.is_empty()).then(|| Bytes::from(frames.concat()))
}
