//! Places the allocations of a job that runs on every node, each on the one node that lacks it.

use std::sync::Arc;

use songline_model::{AllocMetric, FlatMap, Job, Str, TaskGroup};

use super::Attempt;
use super::diff::Wanted;
use crate::generic::stack::Options;
use crate::planning;
use crate::rank::exhaust_resources;

impl Attempt<'_> {
    pub(super) fn place(&mut self, job: &Arc<Job>, wanted: Wanted) {
        let Some(group) = job.group(&wanted.group) else { return };
        let Some(stack) = self.stack.as_mut() else { return };
        let options = Options { name: &wanted.name, preempt: stack.preempts, ..Options::default() };
        let mut selected = match stack.select_on(group, &wanted.node, &options) {
            Ok(selected) => selected,
            Err(metric) if metric.nodes_filtered > 0 => return self.filtered(group, &wanted, &metric),
            Err(metric) => return self.exhausted(group, &wanted, *metric),
        };
        stack.place(group, &selected);
        let victims = std::mem::take(&mut selected.victims);
        let new = planning::New {
            id: self.seed.alloc_id(),
            group: wanted.group,
            name: wanted.name,
            previous: wanted.previous.as_deref(),
        };
        let mut alloc = planning::new_alloc(new, job, self.eval, selected, self.now);
        self.desired.entry(group.name.clone()).or_default().preemptions += victims.len() as u64;
        planning::preempt(&mut self.decision.plan, &mut alloc, &victims, self.now);
        self.decision.placed.insert(alloc.id, group.name.clone());
        planning::write(&mut self.decision.plan, alloc, self.now);
    }

    /// Counts a node that may not run the group. It needs no allocation; the group fails only if no node may run it.
    fn filtered(&mut self, group: &TaskGroup, wanted: &Wanted, metric: &AllocMetric) {
        let sum = self.filtered.entry(group.name.clone()).or_default();
        add_filtered(sum, metric);
        if let Some(desired) = self.desired.get_mut(&group.name).filter(|_| !wanted.replaces) {
            desired.place = desired.place.saturating_sub(1);
        }
        let queued = self.decision.queued.entry(group.name.clone()).or_default();
        *queued -= 1;
        if *queued <= 0 {
            self.decision.failed.insert(group.name.clone(), sum.clone());
        }
    }

    /// Counts a node without room. Only the first one of a group gets a blocked evaluation: the group is tried on all
    /// nodes when that runs, and room on a node of any class that suits the group makes it run.
    fn exhausted(&mut self, group: &TaskGroup, wanted: &Wanted, mut metric: AllocMetric) {
        if let Some(first) = self.decision.failed.get_mut(&group.name) {
            first.coalesced_failures += 1;
            exhaust_resources(first, group);
            return;
        }
        exhaust_resources(&mut metric, group);
        self.waiting.entry(wanted.node.id).or_default().insert(group.name.clone(), metric.clone());
        self.decision.failed.insert(group.name.clone(), metric);
    }
}

/// Adds the counts of filtered nodes. The numbers of nodes in the pool and in the datacenters stay out.
fn add_filtered(sum: &mut AllocMetric, metric: &AllocMetric) {
    let add = |into: &mut Option<Box<FlatMap<Str, i64>>>, from: Option<&FlatMap<Str, i64>>| {
        for (key, count) in from.into_iter().flatten() {
            *into.get_or_insert_default().or_default(key) += count;
        }
    };
    sum.nodes_evaluated += metric.nodes_evaluated;
    sum.nodes_filtered += metric.nodes_filtered;
    add(&mut sum.class_filtered, metric.class_filtered.as_deref());
    add(&mut sum.constraint_filtered, metric.constraint_filtered.as_deref());
}
