//! A simulated machine as the servers and agents on it see it: clocks that differ from those of other machines,
//! randomness from the seed, and one thread.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use songline_model::Time;
use songline_rpc::world::{NoRandomness, Work, World};

use super::clock::Clock;

/// Longest simulated time of one scheduling decision, in milliseconds.
const DECISION_MS_MAX: u64 = 20;

/// One life of a machine.
pub struct SimWorld {
    clock: Clock,
    rng: Mutex<SmallRng>,
}

impl SimWorld {
    /// A life whose randomness comes from `seed`.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self { clock, rng: Mutex::new(SmallRng::seed_from_u64(seed)) }
    }
}

impl World for SimWorld {
    fn wall(&self) -> Time {
        self.clock.wall()
    }

    fn steady(&self) -> Duration {
        self.clock.steady()
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self.rng.lock().fill_bytes(bytes);
        Ok(())
    }

    fn start_loop(&self, _name: String, work: Work) -> io::Result<()> {
        tokio::spawn(work);
        Ok(())
    }

    fn decision_time(&self) -> Duration {
        Duration::from_millis(self.rng.lock().random_range(0..DECISION_MS_MAX))
    }
}

impl Debug for SimWorld {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimWorld").finish_non_exhaustive()
    }
}
