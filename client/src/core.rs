//! The node agent's decisions without IO: state machines that take events and times and return effects.
//!
//! Nothing here reads a clock, a file or a random source, starts a thread or blocks. The shell beside it carries the
//! effects out and feeds their results back. A simulated node drives the same machines with a mock driver.

mod alloc;
mod checks;
mod coordinator;
mod counted;
pub mod event;
mod health;
mod heartbeat;
mod jitter;
mod servers;
mod status;
mod sync;
mod task;
mod tracker;
mod watch;

pub use alloc::{
    AllocRunner, AllocRunnerConfig, Effect, Input, NOMAD_PROVIDER, Reaction, SignalCause, Unsignalled, Workload,
    signalled,
};
pub use checks::{CheckMode, CheckOutcome, CheckPlan, CheckRequest, CheckVerdict};
pub use coordinator::{Coordinator, Stage};
pub use counted::{Counted, counted};
pub use health::{HealthWatcher, Verdict};
pub use heartbeat::{Heartbeats, NextCall};
pub use jitter::Jitter;
pub use servers::{NoServers, ServerList};
pub use status::client_status;
pub use sync::{AllocSync, Priority, priority};
pub use task::{LocalState, TaskRecord};
pub use tracker::{Decision, ExitResult, RestartTracker, StartFailure};
pub use watch::{
    Changes, MISSING_RETRY, WATCH_RETRY, Wanted, begins_anew, changes, is_reconnect, is_unknown, retry_after, wanted,
};

#[cfg(test)]
mod tests;
