//! The leader's machines: they propose commands when rows change or time passes.
//!
//! Each machine is without clock and IO: it takes changes and times, and returns commands to propose. No machine keeps
//! anything that must survive. A new leader builds the machines from the tables; each then does once all the work that
//! an interrupted leader may have dropped.

pub mod autopilot;
mod backoff;
pub mod deployments;
pub mod digests;
pub mod drains;
pub mod effects;
pub mod evals;
pub mod gc;
pub mod heartbeats;
pub mod multiregion;
pub mod nodes;
pub mod outbox;
pub mod pace;
pub mod periodic;
pub mod reports;
pub mod root_keys;
pub mod services;
pub mod tokens;
pub mod volumes;
pub mod work;

#[cfg(test)]
mod tests;
