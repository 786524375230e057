//! The difference between a state and its fork, job by job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    AllocDesiredStatus, AllocId, AllocOutcome, Allocation, BlockedGroup, JobKey, JobOutcome, NodeId, Str, WhatIf,
};
use songline_projections::State;

/// The difference that the written allocations and the evaluations make. Nodes are not counted yet.
pub(super) fn between(before: &State, after: &State, touched: &BTreeSet<AllocId>) -> WhatIf {
    let mut jobs: BTreeMap<JobKey, JobOutcome> = BTreeMap::new();
    let changed = || touched.iter().filter_map(|id| after.alloc(*id));
    let new: Vec<_> = changed().filter(|alloc| !alloc.terminal() && before.alloc(alloc.id).is_none()).collect();
    let gone: Vec<_> = changed()
        .filter(|alloc| alloc.terminal())
        .filter_map(|alloc| Some((before.alloc(alloc.id).filter(|known| !known.terminal())?, alloc)))
        .collect();
    let heirs = heirs(before, after, &gone, &new);
    let matched: BTreeSet<AllocId> = heirs.values().map(|heir| heir.id).collect();
    for alloc in new.iter().filter(|alloc| !matched.contains(&alloc.id)) {
        outcome(&mut jobs, alloc).placed.push(placed(after, alloc));
    }
    for (known, alloc) in gone {
        let preempted = alloc.desired_status == AllocDesiredStatus::Evict;
        let left = AllocOutcome { preempted, ..left(before, known, &alloc.desired_description) };
        let job = outcome(&mut jobs, alloc);
        match heirs.get(&alloc.id) {
            Some(heir) => job.moved.push(AllocOutcome { to: node_name(after, heir.node_id), ..left }),
            None if preempted => job.preempted.push(left),
            None => job.stopped.push(left),
        }
    }
    for eval in after.blocked_evals().filter(|eval| eval.modify_index > before.applied_index()) {
        let summary = after.job_summary(&eval.namespace, &eval.job_id).and_then(|summary| summary.summary.as_ref());
        let key = JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() };
        let job = jobs.entry(key).or_default();
        (job.namespace, job.id) = (eval.namespace.clone(), eval.job_id.clone());
        for (group, metric) in eval.failed_tg_allocs.iter().flat_map(|failed| failed.iter()) {
            let queued = summary.and_then(|groups| groups.get(group)).map_or(0, |counts| counts.queued);
            job.blocked.insert(group.clone(), BlockedGroup { queued, metric: metric.clone() });
        }
    }
    let mut jobs: Vec<JobOutcome> = jobs.into_values().collect();
    for job in &mut jobs {
        for list in [&mut job.placed, &mut job.moved, &mut job.stopped, &mut job.preempted] {
            list.sort_by(|one, other| (&one.name, &one.from, &one.to).cmp(&(&other.name, &other.from, &other.to)));
        }
    }
    WhatIf { index: before.applied_index(), jobs, nodes: Vec::new() }
}

/// The new allocations that replace those that are gone, by the replaced one. The successor of a preempted allocation
/// does not name it, but has its name.
fn heirs<'s>(
    before: &State,
    after: &'s State,
    gone: &[(&Arc<Allocation>, &Arc<Allocation>)],
    new: &[&'s Arc<Allocation>],
) -> BTreeMap<AllocId, &'s Arc<Allocation>> {
    let named = |alloc: &&'s Arc<Allocation>| Some((first(before, after, alloc)?, *alloc));
    let mut heirs: BTreeMap<AllocId, &'s Arc<Allocation>> = new.iter().filter_map(named).collect();
    let mut unnamed: BTreeMap<(JobKey, &Str), Vec<&'s Arc<Allocation>>> = BTreeMap::new();
    // The names of jobs that run on every node are the same there.
    let is_per_node = |alloc: &Allocation| alloc.job.as_ref().is_some_and(|job| job.kind.is_per_node());
    for alloc in new.iter().filter(|alloc| first(before, after, alloc).is_none() && !is_per_node(alloc)) {
        unnamed.entry((alloc.job_key(), &alloc.name)).or_default().push(alloc);
    }
    for (known, _) in gone {
        if !heirs.contains_key(&known.id)
            && let Some(heir) = unnamed.get_mut(&(known.job_key(), &known.name)).and_then(Vec::pop)
        {
            heirs.insert(known.id, heir);
        }
    }
    heirs
}

/// The live allocation of the state before that a new one replaces, over any number of others.
fn first(before: &State, after: &State, alloc: &Allocation) -> Option<AllocId> {
    let mut previous = alloc.previous_allocation;
    while let Some(id) = previous {
        if let Some(known) = before.alloc(id) {
            return (!known.terminal()).then_some(id);
        }
        previous = after.alloc(id).and_then(|alloc| alloc.previous_allocation);
    }
    None
}

fn outcome<'j>(jobs: &'j mut BTreeMap<JobKey, JobOutcome>, alloc: &Allocation) -> &'j mut JobOutcome {
    let job = jobs.entry(alloc.job_key()).or_default();
    (job.namespace, job.id) = (alloc.namespace.clone(), alloc.job_id.clone());
    job
}

fn placed(after: &State, alloc: &Allocation) -> AllocOutcome {
    AllocOutcome {
        name: alloc.name.clone(),
        task_group: alloc.task_group.clone(),
        to: node_name(after, alloc.node_id),
        ..AllocOutcome::default()
    }
}

fn left(before: &State, known: &Allocation, why: &Str) -> AllocOutcome {
    AllocOutcome {
        name: known.name.clone(),
        task_group: known.task_group.clone(),
        alloc_id: Some(known.id),
        from: node_name(before, known.node_id),
        reason: why.clone(),
        ..AllocOutcome::default()
    }
}

fn node_name(state: &State, id: Option<NodeId>) -> Str {
    id.and_then(|id| state.node(id)).map(|node| node.name.clone()).unwrap_or_default()
}
