//! The clock of simulated nodes.

use songline_model::{Dur, Time};
use songline_rpc::world::{Machine, World};
use tokio::time::Instant;

/// Wall-clock time at start, advanced by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    base: Time,
    at: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { base: Machine::default().wall(), at: Instant::now() }
    }

    pub(super) fn now(&self) -> Time {
        self.base.plus(Dur::from(self.at.elapsed()))
    }

    /// Waits until a time; `None` waits for ever.
    pub(super) async fn until(&self, time: Option<Time>) {
        match time {
            Some(time) => tokio::time::sleep(time.since(self.now()).to_std()).await,
            None => std::future::pending().await,
        }
    }
}
