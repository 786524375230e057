//! The order in which plans are checked: the most important first, and in the order of their arrival among equals.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What waits for the applier.
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
    /// Puts a plan of this priority behind those that are as important.
    pub fn push(&mut self, priority: i64, plan: T) {
        self.arrived += 1;
        self.waiting.insert((Reverse(priority), self.arrived), plan);
    }

    /// Takes the next plan.
    pub fn pop(&mut self) -> Option<T> {
        self.waiting.pop_first().map(|(_, plan)| plan)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
