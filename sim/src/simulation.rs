//! Simulation of a whole cluster in one thread from one seed. The servers are the product's, with everything around
//! their logs; disks, clocks, randomness and network are simulated, with faults. Node agents are the product's state
//! machines and calls, around simulated processes. The same seed gives the same run.

mod agent;
mod callers;
mod client;
mod clock;
mod disk;
mod ending;
mod federation;
mod http;
mod jobs;
mod network;
mod observer;
mod operator;
mod plan;
mod record;
mod rest;
mod run;
mod server;
mod shrink;
mod stage;
mod stream;
mod world;

pub use plan::{Fault, Plan, Sabotage, What, Whom};
pub use record::{Counts, Violation};
pub use run::{Report, run};
pub use shrink::{Story, shrink};
pub use stage::{Stage, on_stage};
