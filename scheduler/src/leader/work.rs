//! Long work: which slice is proposed next, and how large it is. What a slice does is `projections`' business.
//!
//! Nothing is kept that must survive: the table says what is under way, and how large a slice may be is soon found out anew.

use std::time::Duration;

use songline_commands::{ContinueWork, Slice, WorkId};
use songline_projections::State;

/// How long applying a slice should take. A fifth of the 5 ms that nobody shall wait: two may come in one batch, and other threads want
/// the processor, too.
const SLICE_TIME: Duration = Duration::from_micros(1_000);
/// Rows of the first slice of a leader.
const ROWS_FIRST: u32 = 256;
/// Fewer rows than these would only be overhead.
const ROWS_MIN: u32 = 16;
/// More rows than these make entries whose changes are long to hand around.
const ROWS_MAX: u32 = 4096;

/// Chooses slices: each piece of work in its turn, and as many rows as can be applied in time.
#[derive(Debug)]
pub struct Pacer {
    rows: u32,
    turn: WorkId,
}

impl Default for Pacer {
    fn default() -> Self {
        Self::new()
    }
}

impl Pacer {
    /// Knows nothing of how fast this machine is.
    pub fn new() -> Self {
        Self { rows: ROWS_FIRST, turn: WorkId::default() }
    }

    /// The next slice. `None`: no work is under way.
    pub fn next(&mut self, view: &State) -> Option<ContinueWork> {
        let after = view.work_under_way().find(|work| work.id > self.turn);
        let next = after.or_else(|| view.work_under_way().next())?;
        self.turn = next.id;
        Some(ContinueWork { work: next.id, slice: Slice::of_rows(self.rows) })
    }

    /// The last slice took so long to apply. Slows down at once and speeds up in small steps.
    pub fn on_applied(&mut self, took: Duration) {
        let ratio = SLICE_TIME.as_secs_f64() / took.as_secs_f64().max(1e-6);
        let rows = f64::from(self.rows) * ratio.clamp(0.5, 1.1);
        // Within the bounds of u32: both limits are.
        self.rows = rows.clamp(f64::from(ROWS_MIN), f64::from(ROWS_MAX)) as u32;
    }
}

#[cfg(test)]
mod tests;
