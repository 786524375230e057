//! Deciding: what goes where. Everything here is a function of a view, an evaluation, a seed and a time.
//! What time alone changes, and who runs which evaluation when, is in the modules of the leader.

pub mod dry_run;
pub mod feasible;
pub mod fit;
pub mod generic;
pub mod network;
pub mod rank;
pub mod reconcile;
pub mod reschedule;
pub mod seed;
pub mod unbuilt;

pub use generic::{Decision, Done, Scheduler, Step, schedule};

pub mod applier;
pub mod blocked;
pub mod broker;
pub mod leader;
