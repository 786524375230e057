//! Values that a node publishes, for the metrics of its agent.

use std::sync::Arc;

/// A current value.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// The reference's name, with dots.
    pub name: &'static str,
    /// Help in one sentence, with the unit.
    pub help: &'static str,
    /// Names and values of the labels.
    pub labels: Arc<[(&'static str, String)]>,
    /// The value.
    pub value: f64,
}

/// Number of events of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// The reference's name, with dots.
    pub name: &'static str,
    /// Help in one sentence.
    pub help: &'static str,
    /// Names and values of the labels.
    pub labels: Arc<[(&'static str, String)]>,
    /// Events since the agent's start.
    pub total: u64,
    /// Events of the last complete interval, or of the first one while it lasts.
    pub during: u64,
}

/// A node that publishes values.
pub trait Gauges: Send + Sync + 'static {
    /// The gauges as they were last read; none before the first reading, and of a node that publishes none.
    fn gauges(&self) -> Arc<Vec<Gauge>>;

    /// The counts now; none of a node that publishes none.
    fn counts(&self) -> Vec<Count>;
}
