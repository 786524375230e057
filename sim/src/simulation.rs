//! Simulation of a whole cluster in one thread from one seed. The log with its consensus and files, and the tables,
//! are the real ones; disks, clocks and network are simulated, with faults. The scheduler's machines and the node
//! agent's machines run around them. The same seed gives the same run.
//!
//! A small shell takes the place of the real server's (`server`: HTTP, threads) and drives the same machines. The
//! event stream is the real one, over a history in memory.

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
