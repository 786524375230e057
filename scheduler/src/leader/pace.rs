//! What time it is for a server, when its machine's clock is set: it may jump, and what is done by it must not.
//!
//! There are two answers. What is written into the log carries the wall time, except that it never runs backwards. What waits for a time
//! goes by the pace: that follows the wall, but never faster than twice as fast as time passes, so that an hour that is skipped does not
//! end everything at once that had an hour left. Reading clocks is the shell's.

use std::time::Duration;

use songline_model::{Dur, Time};

/// What was told last, and when that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    steady: Duration,
    /// The wall time. Where that was set back, time goes on at half its speed until the wall has caught up.
    pub now: Time,
    /// The time that waiting goes by.
    pub pace: Time,
}

impl Pace {
    /// Begins with what the clocks say: of the day, and since some moment that nobody sets.
    pub fn new(wall: Time, steady: Duration) -> Self {
        Self { steady, now: wall, pace: wall }
    }

    /// What the clocks say now.
    pub fn read(&mut self, wall: Time, steady: Duration) {
        let passed = Dur::from(steady.saturating_sub(self.steady));
        self.steady = steady;
        let (slowly, fast) = (Dur(passed.nanos() / 2), Dur(passed.nanos().saturating_mul(2)));
        self.now = wall.max(self.now.plus(slowly));
        self.pace = wall.clamp(self.pace.plus(slowly), self.pace.plus(fast));
    }

    /// What is told from now on is not before `at`: another server's clock was ahead.
    pub fn not_before(&mut self, at: Time) {
        self.now = self.now.max(at);
    }
}
