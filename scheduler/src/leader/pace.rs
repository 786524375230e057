//! The server's time when the machine's clock jumps: neither the log nor waits may jump with it.
//!
//! There are two clocks. Times written into the log are wall time, except that they never run backwards. Waits and
//! deadlines follow the pace: it follows wall time, but at no less than half and no more than twice the speed of steady
//! time. So a wall clock that skips an hour does not end at once every wait that had an hour left. The shell reads the
//! clocks.

use std::time::Duration;

use songline_model::{Dur, Time};

/// The last times returned, and the steady time of the last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    steady: Duration,
    /// Wall time for the log. After the wall clock was set back, it advances at half speed until the wall clock has
    /// caught up.
    pub now: Time,
    /// Time for waits and deadlines.
    pub pace: Time,
}

impl Pace {
    /// Starts with a reading of the wall clock and of the steady clock (time since a fixed moment, never set).
    pub fn new(wall: Time, steady: Duration) -> Self {
        Self { steady, now: wall, pace: wall }
    }

    /// Takes a reading of both clocks.
    pub fn read(&mut self, wall: Time, steady: Duration) {
        let passed = Dur::from(steady.saturating_sub(self.steady));
        self.steady = steady;
        let (slowly, fast) = (Dur(passed.nanos() / 2), Dur(passed.nanos().saturating_mul(2)));
        self.now = wall.max(self.now.plus(slowly));
        self.pace = wall.clamp(self.pace.plus(slowly), self.pace.plus(fast));
    }

    /// Raises `now` to at least `at`: another server's clock was ahead.
    pub fn not_before(&mut self, at: Time) {
        self.now = self.now.max(at);
    }
}
