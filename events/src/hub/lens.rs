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
pub(super) struct Lens {
    pub(super) interest: Interest,
    pub(super) format: Format,
    pub(super) dialect: Dialect,
    everything: bool,
    /// Number of the lens. Subscribers with the same wishes share one lens.
    number: u64,
}

/// All lenses in use.
#[derive(Debug, Default)]
pub(super) struct Lenses {
    known: Vec<Weak<Lens>>,
    made: u64,
}

impl Lenses {
    /// The lens for a subscription, shared with equal subscriptions.
    pub(super) fn get(&mut self, interest: Interest, format: Format, dialect: Dialect) -> Arc<Lens> {
        self.known.retain(|lens| lens.strong_count() > 0);
        let same = |lens: &Arc<Lens>| lens.format == format && lens.dialect == dialect && lens.interest == interest;
        if let Some(lens) = self.known.iter().filter_map(Weak::upgrade).find(same) {
            return lens;
        }
        self.made += 1;
        let everything = interest.is_everything();
        let lens = Arc::new(Lens { interest, format, dialect, everything, number: self.made });
        self.known.push(Arc::downgrade(&lens));
        lens
    }
}

/// Frames of some entries for one subscriber.
#[derive(Debug, Default)]
pub(super) struct Sight {
    /// Frames, one after another.
    pub(super) frames: Bytes,
    /// Index of the last entry that was read; 0 for none.
    pub(super) through: u64,
    /// Index of the last entry with a frame; 0 for none.
    pub(super) told: u64,
    /// Number of frames.
    pub(super) count: u64,
}

impl Lens {
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
            return batch.frames(self.format, self.dialect).to_vec();
        }
        batch.frames_of(self.format, self.dialect, |event| self.interest.wants(batch.index, event))
    }

    /// Frames of entries of the tail, up to about `bytes_max` bytes.
    pub(super) fn look<'a>(&self, batches: impl Iterator<Item = &'a Batch>, bytes_max: usize) -> Sight {
        let mut sight = Sight::default();
        let mut pile = Pile::default();
        for batch in batches {
            let add = |frame: &Bytes| {
                sight.count += 1;
                pile.add(frame);
            };
            if self.frames(batch, add) {
                sight.told = batch.index;
            }
            sight.through = batch.index;
            if pile.bytes >= bytes_max {
                break;
            }
        }
        sight.frames = pile.take();
        sight
    }

    /// Frames of the entries after index `after` in stored blocks.
    pub(super) fn look_at_blocks(&self, blocks: &[Block], after: u64) -> Result<Sight, HistoryError> {
        let mut sight = Sight::default();
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
                    sight.told = entry.index;
                    sight.count += 1;
                } else {
                    if let Some(run) = run.take() {
                        pile.add(&block.frames(run));
                    }
                    for frame in self.own_frames(&block.batch(entry)?) {
                        pile.add(&frame);
                        sight.told = entry.index;
                        sight.count += 1;
                    }
                }
                sight.through = entry.index;
            }
            if let Some(run) = run {
                pile.add(&block.frames(run));
            }
        }
        sight.frames = pile.take();
        Ok(sight)
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
