//! The agent's clock: the wall-clock time at start, advanced by the monotonic clock, so that it never runs backwards.
//! And the agent's randomness, which comes from the same machine.

use std::sync::Arc;
use std::time::Duration;

use songline_model::{Dur, Time};
use songline_rpc::world::World;

use crate::core::Jitter;

/// A clock that is set once. Clones share the machine.
#[derive(Debug, Clone)]
pub struct Clock {
    world: Arc<dyn World>,
    base: Time,
    at: Duration,
}

impl Clock {
    /// Sets the clock to the machine's time.
    pub fn start(world: Arc<dyn World>) -> Self {
        Self { base: world.wall(), at: world.steady(), world }
    }

    /// Current time.
    pub fn now(&self) -> Time {
        self.base.plus(Dur::from(self.world.steady().saturating_sub(self.at)))
    }

    /// Waits until a time; `None` waits for ever.
    pub async fn until(&self, time: Option<Time>) {
        match time {
            Some(time) => tokio::time::sleep(time.since(self.now()).to_std()).await,
            None => std::future::pending().await,
        }
    }

    /// The machine.
    pub fn world(&self) -> &dyn World {
        &*self.world
    }

    /// Random variation of delays.
    pub fn jitter(&self) -> Jitter {
        Jitter::new(self.world.number())
    }
}
