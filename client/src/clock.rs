//! The agent's clock: the wall-clock time at start, advanced by the monotonic clock, so that it never runs backwards.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use songline_model::{Dur, Time};

/// A clock that is set once.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    base: Time,
    at: Instant,
}

impl Clock {
    /// Sets the clock to the machine's time.
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { base: Time::from_nanos(Dur::from(since).nanos()), at: Instant::now() }
    }

    /// Current time.
    pub fn now(&self) -> Time {
        self.base.plus(Dur::from(self.at.elapsed()))
    }

    /// Waits until a time; `None` waits for ever.
    pub async fn until(&self, time: Option<Time>) {
        match time {
            Some(time) => tokio::time::sleep(time.since(self.now()).to_std()).await,
            None => std::future::pending().await,
        }
    }
}
