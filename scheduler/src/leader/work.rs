//! Long work: chooses the next slice and its size. `projections` applies the slices.
//!
//! The pacer keeps nothing that must survive: the table lists the open work, and a new leader soon measures the slice
//! size anew.

use std::time::Duration;

use songline_commands::{ContinueWork, Slice, WorkId};
use songline_projections::State;

/// Target time for applying a slice. It is a fifth of the 5 ms for which no request may wait: two slices may come in
/// one batch, and other threads need the processor too.
const SLICE_TIME: Duration = Duration::from_micros(1_000);
/// Rows of the first slice of a leader.
const ROWS_FIRST: u32 = 256;
/// Fewest rows of a slice; with fewer, overhead dominates.
const ROWS_MIN: u32 = 16;
/// Most rows of a slice; more would give subscribers too many changes in one entry.
const ROWS_MAX: u32 = 4096;

/// Chooses slices: pieces of work in turn, each slice as large as can be applied in time.
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
    /// A pacer that has not measured this machine yet.
    pub fn new() -> Self {
        Self { rows: ROWS_FIRST, turn: WorkId::default() }
    }

    /// The next slice. `None`: no work is open.
    pub fn next(&mut self, view: &State) -> Option<ContinueWork> {
        let after = view.work_under_way().find(|work| work.id > self.turn);
        let next = after.or_else(|| view.work_under_way().next())?;
        self.turn = next.id;
        Some(ContinueWork { work: next.id, slice: Slice::of_rows(self.rows) })
    }

    /// Takes the time that applying the last slice took. Shrinks the slice at once, at most to half; grows it by at
    /// most a tenth.
    pub fn on_applied(&mut self, took: Duration) {
        let ratio = SLICE_TIME.as_secs_f64() / took.as_secs_f64().max(1e-6);
        let rows = f64::from(self.rows) * ratio.clamp(0.5, 1.1);
        // Fits in u32, because both bounds do.
        self.rows = rows.clamp(f64::from(ROWS_MIN), f64::from(ROWS_MAX)) as u32;
    }
}

#[cfg(test)]
mod tests;
