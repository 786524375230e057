//! What time alone changes, and what follows from changes: the leader's machines.
//!
//! Each is without clock and IO: it sees changes and times, and says what to propose. None keeps anything that must survive; a new leader
//! builds them from the tables and starts by doing once whatever an interrupted one may have dropped.

pub mod autopilot;
pub mod deployments;
pub mod digests;
pub mod drains;
pub mod effects;
pub mod evals;
pub mod gc;
pub mod heartbeats;
pub mod nodes;
pub mod outbox;
pub mod pace;
pub mod reports;
pub mod root_keys;
pub mod services;
pub mod tokens;
pub mod work;

#[cfg(test)]
mod tests;
