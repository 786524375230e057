//! Filtering and encoding of entries for a subscriber: which events, in which format and dialect. The subscription
//! decides which entries are read, and when.

use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};

use super::batch::{Batch, Dialect, Format};
use super::block::Block;
use super::error::HistoryError;
use super::filter::Interest;

/// Wanted events, format and dialect of a subscription.
#[derive(Debug)]
pub(super) struct Rendering {
    pub(super) interest: Interest,
    pub(super) format: Format,
    pub(super) dialect: Dialect,
    everything: bool,
    /// Number of the rendering. Subscribers with the same wishes share one rendering.
    number: u64,
}

/// All renderings in use.
#[derive(Debug, Default)]
pub(super) struct Renderings {
    known: Vec<Weak<Rendering>>,
    made: u64,
}

impl Renderings {
    /// The rendering for a subscription, shared with equal subscriptions.
    pub(super) fn get(&mut self, interest: Interest, format: Format, dialect: Dialect) -> Arc<Rendering> {
        self.known.retain(|rendering| rendering.strong_count() > 0);
        let same = |rendering: &Arc<Rendering>| {
            rendering.format == format && rendering.dialect == dialect && rendering.interest == interest
        };
        if let Some(rendering) = self.known.iter().filter_map(Weak::upgrade).find(same) {
            return rendering;
        }
        self.made += 1;
        let everything = interest.is_everything();
        let rendering = Arc::new(Rendering { interest, format, dialect, everything, number: self.made });
        self.known.push(Arc::downgrade(&rendering));
        rendering
    }
}

/// Frames of some entries for one subscriber.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    /// Frames, one after another.
    pub(super) frames: Bytes,
    /// Index of the last entry that was read; 0 for none.
    pub(super) through: u64,
    /// Index of the last entry with a frame; 0 for none.
    pub(super) told: u64,
    /// Number of frames.
    pub(super) count: u64,
}

impl Rendering {
    /// Passes the frames of an entry of the tail to `add`, one by one.
    fn frames(&self, batch: &Batch, add: impl FnMut(&Bytes)) -> bool {
        let whole = batch.whole(self.dialect);
        let batch = whole.as_deref().unwrap_or(batch);
        if self.everything {
            let frames = batch.frames(self.format, self.dialect);
            frames.iter().for_each(add);
            return !frames.is_empty();
        }
        let frames = batch.shared_frames(self.number, || self.own_frames(batch));
        frames.iter().for_each(add);
        !frames.is_empty()
    }

    /// Frames of an entry, not shared with other subscribers.
    fn own_frames(&self, batch: &Batch) -> Vec<Bytes> {
        let whole = batch.whole(self.dialect);
        let batch = whole.as_deref().unwrap_or(batch);
        if self.everything {
            return batch.frames(self.format, self.dialect);
        }
        batch.frames_of(self.format, self.dialect, |event| self.interest.wants(batch.index, event))
    }

    /// Frames of entries of the tail, up to about `bytes_max` bytes.
    pub(super) fn look<'a>(&self, batches: impl Iterator<Item = &'a Batch>, bytes_max: usize) -> Rendered {
        let mut rendered = Rendered::default();
        let mut pile = Pile::default();
        for batch in batches {
            let add = |frame: &Bytes| {
                rendered.count += 1;
                pile.add(frame);
            };
            if self.frames(batch, add) {
                rendered.told = batch.index;
            }
            rendered.through = batch.index;
            if pile.bytes >= bytes_max {
                break;
            }
        }
        rendered.frames = pile.take();
        rendered
    }

    /// Frames of the entries after index `after` in stored blocks.
    pub(super) fn look_at_blocks(&self, blocks: &[Block], after: u64) -> Result<Rendered, HistoryError> {
        let mut rendered = Rendered::default();
        let mut pile = Pile::default();
        let as_stored = self.everything && self.format == Format::Msgpack;
        for block in blocks {
            // Range of adjacent frames that are sent unchanged.
            let mut run: Option<std::ops::Range<usize>> = None;
            for entry in block.after(after) {
                let copied = as_stored
                    && match self.dialect {
                        Dialect::Ours | Dialect::Full => !entry.is_mixed,
                        Dialect::Plain => false,
                    };
                if copied {
                    let start = run.map_or(entry.frame.start, |run| run.start);
                    run = Some(start..entry.frame.end);
                    rendered.told = entry.index;
                    rendered.count += 1;
                } else {
                    if let Some(run) = run.take() {
                        pile.add(&block.frames(run));
                    }
                    for frame in self.own_frames(&block.batch(entry)?) {
                        pile.add(&frame);
                        rendered.told = entry.index;
                        rendered.count += 1;
                    }
                }
                rendered.through = entry.index;
            }
            if let Some(run) = run {
                pile.add(&block.frames(run));
            }
        }
        rendered.frames = pile.take();
        Ok(rendered)
    }
}

/// Collects frames into one piece. A single frame is shared instead of copied.
#[derive(Default)]
struct Pile {
    first: Bytes,
    joined: BytesMut,
    bytes: usize,
}

impl Pile {
    fn add(&mut self, frame: &Bytes) {
        if self.bytes == 0 {
            self.first = frame.clone();
        } else {
            if self.joined.is_empty() {
                self.joined.extend_from_slice(&self.first);
            }
            self.joined.extend_from_slice(frame);
        }
        self.bytes += frame.len();
    }

    fn take(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}
