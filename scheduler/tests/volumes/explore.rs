//! Every order of steps up to a depth, breadth first, so that the first failure is a shortest one. Worlds that are the
//! same for all that can come are followed once.

use std::collections::BTreeSet;

use crate::world::{Step, World};

/// Counts of an exploration.
pub(crate) struct Explored {
    /// Orders of steps that this stands for.
    pub(crate) paths: u64,
    /// Worlds that differ.
    pub(crate) states: usize,
    /// The first order that ends badly, and how.
    pub(crate) failure: Option<(Vec<Step>, String)>,
}

pub(crate) fn every_order(start: World, steps: &[Step], depth: usize) -> Explored {
    let mut seen = BTreeSet::from([start.key()]);
    let mut explored = Explored { paths: (steps.len() as u64).saturating_pow(depth as u32), states: 1, failure: None };
    let mut layer = vec![(start, Vec::new())];
    for _ in 0..depth {
        let mut next = Vec::new();
        for (world, path) in &layer {
            for &step in steps {
                let mut world = world.clone();
                if !world.make(step) || !seen.insert(world.key()) {
                    continue;
                }
                explored.states += 1;
                let path: Vec<Step> = path.iter().copied().chain([step]).collect();
                if let Some(what) = world.fault().or_else(|| world.clone().fault_at_rest()) {
                    explored.failure = Some((path, what));
                    return explored;
                }
                next.push((world, path));
            }
        }
        layer = next;
    }
    explored
}
