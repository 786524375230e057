//! Plan queue: the order in which plans are checked. Higher priority first; equal priorities in order of arrival.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Plans that wait for the applier.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: BTreeMap<(Reverse<i64>, u64), T>,
    arrived: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), arrived: 0 }
    }
}

impl<T> Queue<T> {
    /// Puts a plan behind those of the same priority.
    pub fn push(&mut self, priority: i64, plan: T) {
        self.arrived += 1;
        self.waiting.insert((Reverse(priority), self.arrived), plan);
    }

    /// Takes the next plan.
    pub fn pop(&mut self) -> Option<T> {
        self.waiting.pop_first().map(|(_, plan)| plan)
    }

    /// Whether no plan waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
