//! Every order of steps up to a depth, breadth first, so that the first failure is a shortest one. Worlds that are the
//! same for all that can come are followed once.

use std::collections::BTreeSet;

use crate::world::{Step, World};
use crate::{key, rest};

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
    let mut seen = BTreeSet::from([key::of(&start)]);
    let mut explored = Explored { paths: (steps.len() as u64).pow(depth as u32), states: 1, failure: None };
    explored.failure = rest::fault(start.clone()).map(|what| (Vec::new(), what));
    let mut layer = vec![(start, Vec::new())];
    for _ in 0..depth {
        let mut next = Vec::new();
        for (world, path) in &layer {
            for &step in steps {
                if explored.failure.is_some() {
                    return explored;
                }
                let before = world;
                let mut world = before.clone();
                if !world.make(step) || !seen.insert(key::of(&world)) {
                    continue;
                }
                explored.states += 1;
                let path: Vec<Step> = path.iter().copied().chain([step]).collect();
                explored.failure = rest::fault_at_once(before, &world)
                    .or_else(|| rest::fault(world.clone()))
                    .map(|what| (path.clone(), what));
                next.push((world, path));
            }
        }
        layer = next;
    }
    explored
}
