//! The machine that an agent runs on: clocks, randomness and loops. A real machine here; the simulation has another.
//! Connections are a trait of their own ([`crate::port::Network`]). Files, and whether work may block a thread, are the
//! log's (`songline_log::Disk`).
//!
//! Timers are tokio's in both: a simulation pauses tokio's clock.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::TryRng;
use rand::rngs::SysRng;
use songline_model::{Dur, Time};
use uuid::Uuid;

/// A task that runs until it ends by itself.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The operating system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system's source of randomness failed")]
pub struct NoRandomness;

/// Clocks, randomness and loops of a machine.
pub trait World: Debug + Send + Sync + 'static {
    /// Wall-clock time. May jump when the clock is set.
    fn wall(&self) -> Time;

    /// Monotonic time since an arbitrary moment.
    fn steady(&self) -> Duration;

    /// Fills `bytes` with random bytes that are good enough for keys.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness>;

    /// Starts a loop that is bound by the processor, on a thread of its own if this world has threads. Must be called
    /// within a tokio runtime.
    fn start_loop(&self, name: String, work: Work) -> io::Result<()>;

    /// Duration that stands for the processor time of one scheduling decision. Zero on a real machine, where the
    /// decision itself takes the time.
    fn decision_time(&self) -> Duration {
        Duration::ZERO
    }
}

impl dyn World {
    /// A random UUID (version 4). Panics when the system has no randomness: without it no object can get an id.
    pub fn uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes).expect("the system's source of randomness works");
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// A random number. Panics as `uuid` does.
    pub fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes).expect("the system's source of randomness works");
        u64::from_le_bytes(bytes)
    }
}

/// This machine.
#[derive(Debug)]
pub struct Machine {
    started: Instant,
}

impl Default for Machine {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl World for Machine {
    fn wall(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_nanos(Dur::from(since).nanos())
    }

    fn steady(&self) -> Duration {
        self.started.elapsed()
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        SysRng.try_fill_bytes(bytes).map_err(|_| NoRandomness)
    }

    fn start_loop(&self, name: String, work: Work) -> io::Result<()> {
        let runtime = tokio::runtime::Handle::current();
        std::thread::Builder::new().name(name).spawn(move || runtime.block_on(work)).map(drop)
    }
}
