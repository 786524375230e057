//! The changes of an entry in the form of the checkers that look at single entries: preemptions, launches and
//! roll-outs.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_lang::schedule::Schedule;
use songline_model::{
    AllocClientStatus, AllocDesiredStatus, Allocation, Deployment, DeploymentStatus, EvalTrigger, Job, JobKey,
    NodeStatus, PeriodicLaunch, Str, Time,
};
use songline_projections::{Applied, Change, State};

use super::super::record::Record;
use super::super::rest::of_this_version;
use crate::check::{Eviction, Launch, Preemptor, Replacement, preemption_is_sound, rollout_is_sound};

/// Description of an allocation that stops because its job has a new version.
pub const REPLACED: &str = "alloc is being updated due to job update";

/// Most times that are said to be left out between two launches.
const LEFT_OUT_MAX: usize = 20;

/// Hands an entry's changes to the checkers. `state` is the state after the entry.
pub fn judge(record: &Record, applied: &Applied, state: &State) {
    let (index, changes) = (applied.index, &applied.changes);
    for eviction in changes.iter().filter_map(|change| eviction(index, change, state)) {
        record.count(|counts| counts.preempted += 1);
        if let Err(error) = preemption_is_sound(&eviction) {
            record.found(error.into());
        }
    }
    for replacement in replacements(index, changes, state) {
        if let Err(error) = rollout_is_sound(&replacement) {
            record.found(error.into());
        }
    }
    for launch in changes.iter().filter_map(|change| launch(record, index, change, changes, state)) {
        record.launched(&launch);
    }
    for change in changes {
        count(record, change);
    }
}

fn count(record: &Record, change: &Change) {
    match change {
        Change::Job { before: None, after: Some(job) } if job.dispatched => {
            record.count(|counts| counts.dispatched += 1);
        }
        Change::Deployment { before: Some(before), after: Some(after) } => {
            let promoted =
                |row: &Deployment| row.task_groups.iter().flatten().filter(|(_, group)| group.promoted).count();
            let more = promoted(after).saturating_sub(promoted(before));
            let fails = after.status == DeploymentStatus::Failed && before.status != DeploymentStatus::Failed;
            record.count(|counts| {
                counts.promoted += more as u64;
                counts.failed_deployments += u64::from(fails);
            });
        }
        // Other rows have no counts.
        _ => {}
    }
}

/// The row of a change that stopped or preempted an allocation.
fn ended(change: &Change, by: AllocDesiredStatus) -> Option<&Arc<Allocation>> {
    match change {
        Change::Alloc { before, after: Some(after) } => {
            let was = before.as_ref().map(|before| before.desired_status);
            (after.desired_status == by && was != Some(by)).then_some(after)
        }
        // Only allocations end.
        _ => None,
    }
}

fn eviction(index: u64, change: &Change, state: &State) -> Option<Eviction> {
    let victim = ended(change, AllocDesiredStatus::Evict)?;
    let priority = |alloc: &Allocation| alloc.job.as_ref().map_or(0, |job| job.priority);
    let node = |alloc: &Allocation| alloc.node_name.to_string();
    let by = victim.preempted_by_allocation.and_then(|id| state.alloc(id)).map(|by| Preemptor {
        alloc: by.id.to_string(),
        priority: priority(by),
        node: node(by),
        placed: by.create_index,
    });
    Some(Eviction { index, victim: victim.id.to_string(), priority: priority(victim), node: node(victim), by })
}

/// The replacements of an entry, by deployment and group. Only groups with a deployment have a limit.
fn replacements(index: u64, changes: &[Change], state: &State) -> Vec<Replacement> {
    let mut stopped: BTreeMap<(JobKey, Str), usize> = BTreeMap::new();
    for alloc in changes.iter().filter_map(|change| ended(change, AllocDesiredStatus::Stop)) {
        // An allocation that had ended before frees nothing: its replacement is not limited.
        if alloc.desired_description == REPLACED && !alloc.client_terminal() {
            *stopped.entry((alloc.job_key(), alloc.task_group.clone())).or_default() += 1;
        }
    }
    stopped.into_iter().filter_map(|((job, group), stopped)| replacement(index, &job, &group, stopped, state)).collect()
}

fn replacement(index: u64, key: &JobKey, group: &Str, stopped: usize, state: &State) -> Option<Replacement> {
    let job = state.job_by_key(key)?;
    let deployment = of_this_version(state, job).next()?;
    let update = job.group(group)?.update.as_ref()?;
    // An allocation whose node is away or drained is replaced in any case, and does not count.
    let counts = |alloc: &Allocation| {
        let node = alloc.node_id.and_then(|id| state.node(id));
        let stays = node.is_some_and(|node| node.status == NodeStatus::Ready && node.drain_strategy.is_none());
        stays && !alloc.desired_transition.should_migrate() && alloc.client_status != AllocClientStatus::Unknown
    };
    let is_awaited = |alloc: &&Arc<Allocation>| {
        let healthy = alloc.deployment_status.as_ref().and_then(|status| status.healthy);
        let is_new = alloc.alloc_modify_index == index;
        alloc.task_group == *group && !alloc.terminal() && healthy.is_none() && !is_new && counts(alloc)
    };
    Some(Replacement {
        index,
        group: format!("{}.{group}", key.id),
        stopped,
        awaited: state.allocs_of_deployment(deployment.id).filter(is_awaited).count(),
        max_parallel: usize::try_from(update.max_parallel).unwrap_or(0),
    })
}

/// The launch that a change is: an evaluation for the child of a periodic job. A second launch of a time may leave the
/// child itself as it is.
fn launch(record: &Record, index: u64, change: &Change, changes: &[Change], state: &State) -> Option<Launch> {
    let Change::Eval { before: None, after: Some(eval) } = change else { return None };
    if eval.triggered_by != EvalTrigger::PeriodicJob {
        return None;
    }
    let child = state.job(&eval.namespace, &eval.job_id)?;
    let at = PeriodicLaunch::launch_of(&child.parent_id, &child.id)?;
    let parent = state.job(&child.namespace, &child.parent_id)?;
    let before = changes.iter().find_map(|change| match change {
        Change::PeriodicLaunch { before, .. } => before.as_ref(),
        // The entry writes other rows as well.
        _ => None,
    });
    let since = before.map_or(0, |before| before.modify_index).max(parent.job_modify_index);
    Some(Launch {
        index,
        child: child.id.to_string(),
        at: at.secs(),
        written: eval.create_time.secs(),
        left_out: before.map_or_else(Vec::new, |before| left_out(parent, before, at)),
        leader_changed: record.began_since(since),
    })
}

/// The times of the job between its launch before and this one.
fn left_out(parent: &Job, before: &PeriodicLaunch, at: Time) -> Vec<i64> {
    let Some(periodic) = parent.periodic.as_ref().filter(|periodic| !periodic.prohibit_overlap) else {
        return Vec::new();
    };
    let schedule = Schedule::of(periodic);
    let since = before.launch.max(parent.submit_time);
    let times = std::iter::successors(schedule.next(since), |time| schedule.next(*time));
    times.take_while(|time| *time < at).take(LEFT_OUT_MAX).map(Time::secs).collect()
}
