//! Scheduling decisions: placement of allocations as a function of a view, an evaluation, a seed and a time. The
//! modules of the leader (`applier`, `blocked`, `broker`, `leader`) queue evaluations, check plans and react to time.

pub mod attempts;
pub mod csi;
pub mod devices;
pub mod dry_run;
pub mod feasible;
pub mod fit;
pub mod generic;
mod holders;
pub mod network;
mod planning;
mod preempt;
pub mod rank;
pub mod reconcile;
pub mod reschedule;
pub mod seed;
mod system;
pub mod what_if;

pub use attempts::{Decision, Done, Scheduler, Step, schedule};

pub mod applier;
pub mod blocked;
pub mod broker;
pub mod leader;
