//! The surroundings of a server: everything that it takes from the world besides its directory, its disk and its
//! connections. A real machine is the default; the simulation brings its own.

use std::sync::Arc;
use std::time::Duration;

use songline_api::sso::{Fetch, FetchError, FetchFuture, Outgoing};
use songline_commands::Kind;
use songline_events::Folder;
use songline_events::hub::HubConfig;
use songline_events::refill::Refilled;
use songline_log::{Committed, Position, Retention, StoreConfig, Timing, Transport};
use songline_projections::{Applied, State};
use songline_rpc::world::{Machine, World};

/// The world around a server.
#[derive(Clone)]
pub struct Surroundings {
    /// Clocks, randomness and threads.
    pub world: Arc<dyn World>,
    /// Folder of the event history; `None`: `events` in the server's directory.
    pub history: Option<Folder>,
    /// Folder of the record of what entries did; `None`: `touches` in the server's directory.
    pub object_history: Option<Folder>,
    /// Carries the messages of consensus; `None`: the connections between servers.
    pub transport: Option<Arc<dyn Transport>>,
    /// Raft timeouts.
    pub timing: Timing,
    /// Sizes of the log's files and cache.
    pub store: StoreConfig,
    /// Retention of old entries; `None`: as configured.
    pub retention: Option<Retention>,
    /// When checkpoints are made.
    pub keeping: Keeping,
    /// Bounds of the event hub; its backlog is the configuration's.
    pub hub: HubConfig,
    /// Watches what the server applies.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            world: Arc::new(Machine::default()),
            history: None,
            object_history: None,
            transport: None,
            timing: Timing::default(),
            store: StoreConfig::default(),
            retention: None,
            keeping: Keeping::default(),
            hub: HubConfig::default(),
            observer: None,
        }
    }
}

/// When a server makes checkpoints and drops old log segments. More checkpoints shorten a start and cost writes.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    /// Interval at which the log is checked.
    pub look_every: Duration,
    /// A checkpoint is due after this number of entries ..
    pub entries_max: u64,
    /// .. or this number of bytes of the log, but not before the log has grown by the size of the last checkpoint ..
    pub log_bytes_max: u64,
    /// .. or, if anything is new, after this time.
    pub age_max: Duration,
}

/// Growth of the log and of time since the last checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsaved {
    /// Number of applied entries.
    pub entries: u64,
    /// Bytes of the log, in whole segments.
    pub log_bytes: u64,
    /// Bytes of the last checkpoint. 0: there is none.
    pub checkpoint_bytes: u64,
    /// Time since the last checkpoint was tried.
    pub age: Duration,
}

impl Keeping {
    /// Whether a checkpoint is due. With the bound in bytes a start replays about as many bytes as it reads from the
    /// checkpoint, and checkpoints write at most about as many bytes as the log.
    pub(crate) fn is_due(&self, unsaved: Unsaved) -> bool {
        let Unsaved { entries, log_bytes, checkpoint_bytes, age } = unsaved;
        entries >= self.entries_max
            || entries > 0 && (log_bytes >= self.log_bytes_max.max(checkpoint_bytes) || age >= self.age_max)
    }
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            look_every: Duration::from_secs(20),
            entries_max: 200_000,
            log_bytes_max: 256 << 20,
            age_max: Duration::from_secs(600),
        }
    }
}

/// Watches what a server's state machine does. Called on the thread that applies, so it must not wait.
pub trait Observer: Send + Sync + 'static {
    /// Sees an entry before it is applied, and returns the entry to apply: a checker injects defects here.
    fn before(&self, entry: Committed) -> Committed {
        entry
    }

    /// An entry was applied: its kind and effect if it is a command, and the state after it.
    fn applied(&self, entry: &Committed, applied: Option<(Kind, &Applied)>, state: &State);

    /// The state of a checkpoint was installed, which covers the entries up to `position`.
    fn installed(&self, position: Position);

    /// The server goes on after a failure of its disk, with a state that it builds anew from its files.
    fn began_anew(&self) {}

    /// A store that had been lost was filled anew from the log.
    fn refilled(&self, _store: &'static str, _came_of_it: Refilled) {}
}

/// HTTP client of a server that can reach no identity provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProviders;

impl Fetch for NoProviders {
    fn fetch(&self, _: Outgoing) -> FetchFuture<'_> {
        Box::pin(async { Err(FetchError::Failed("this server reaches no identity provider".into())) })
    }
}

#[cfg(test)]
mod tests;
