//! A cluster that is simulated whole, in one thread, from one seed: the real log with its consensus and its files, the real tables, on disks,
//! clocks and a network that are not real and go wrong; and around it the scheduler's machines, and nodes with the real agent's. The same seed
//! is the same run.
//!
//! The shell of a real server (`src/server`: HTTP, threads) is not in it, but a small one that drives the same machines. The event stream is the real
//! one, over a history in memory.

mod agent;
mod client;
mod clock;
mod disk;
mod ending;
mod jobs;
mod machine;
mod network;
mod operator;
mod plan;
mod record;
mod rest;
mod run;
mod server;
mod shell;
mod shrink;
mod stream;

pub use plan::{Fault, Plan, Sabotage, What, Whom};
pub use record::{Counts, Violation};
pub use run::{Report, run};
pub use shrink::{Story, shrink};
