//! Preemption: which allocations of a node may give way to one of higher priority, and in which order they do. The
//! search for the room that they leave is in `generic::room`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{AllocId, Allocation, Amount, Job, JobKey, JobType, Node, PreemptionConfig, Str};
use songline_projections::State;

/// Least difference between the priorities of the two jobs.
const PRIORITY_DIFFERENCE: i64 = 10;
/// Penalty on the distance for each allocation above the group's `migrate.max_parallel`.
const MAX_PARALLEL_PENALTY: f64 = 50.0;
/// Steepness and middle of the logistic curve that turns priorities into a score.
const SCORE_RATE: f64 = 0.0048;
const SCORE_ORIGIN: f64 = 2048.0;

/// An allocation that may give way.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub alloc: Arc<Allocation>,
    /// Priority of its job.
    pub priority: i64,
    pub uses: Amount,
    /// Whether it gives way for CPU, memory or disk, rather than for a port or a device.
    pub for_room: bool,
    penalty: f64,
}

/// Number of allocations that the plan preempts, by job and group.
#[derive(Debug, Default)]
pub(crate) struct Preempted(BTreeMap<(JobKey, Str), u64>);

impl Preempted {
    /// Counts one more allocation.
    pub fn add(&mut self, alloc: &Allocation) {
        *self.0.entry((alloc.job_key(), alloc.task_group.clone())).or_insert(0) += 1;
    }

    /// Penalty for preempting one more allocation of a group that has lost as many as it migrates at once.
    fn penalty(&self, alloc: &Allocation, job: &Job) -> f64 {
        let migrate = job.group(&alloc.task_group).and_then(|group| group.migrate.as_ref());
        let most = migrate.map_or(0, |migrate| migrate.max_parallel);
        let gone = self.0.get(&(alloc.job_key(), alloc.task_group.clone())).copied().unwrap_or(0) as i64;
        if most > 0 && gone >= most { (gone + 1 - most) as f64 * MAX_PARALLEL_PENALTY } else { 0.0 }
    }
}

/// Whether jobs of this type may preempt others. Without a scheduler configuration all may, as in the reference; the
/// first leader of a cluster writes one before anything is placed.
pub(crate) fn is_enabled(view: &State, kind: &JobType) -> bool {
    let without = PreemptionConfig {
        system_scheduler_enabled: true,
        sys_batch_scheduler_enabled: true,
        batch_scheduler_enabled: true,
        service_scheduler_enabled: true,
    };
    let PreemptionConfig {
        system_scheduler_enabled,
        sys_batch_scheduler_enabled,
        batch_scheduler_enabled,
        service_scheduler_enabled,
    } = view.scheduler_config().map_or(without, |config| config.preemption_config);
    match kind {
        JobType::System => system_scheduler_enabled,
        JobType::SysBatch => sys_batch_scheduler_enabled,
        JobType::Batch => batch_scheduler_enabled,
        JobType::Service => service_scheduler_enabled,
        JobType::Other(_) => false,
    }
}

/// The allocations of the node that may give way to one of `job`, those of the lowest priority first. `leaving` are the
/// ones that the plan stops or preempts.
pub(crate) fn candidates(
    view: &State,
    node: &Node,
    job: &Job,
    leaving: &BTreeSet<AllocId>,
    preempted: &Preempted,
) -> Vec<Candidate> {
    let candidate = |alloc: &Arc<Allocation>| {
        // The room of an allocation that stops already comes free without preemption, so it would go in vain.
        if alloc.terminal() || leaving.contains(&alloc.id) {
            return None;
        }
        let own = alloc.job_id == job.id && alloc.namespace == job.namespace;
        let its_job = alloc.job.as_ref().filter(|its| !own && job.priority - its.priority >= PRIORITY_DIFFERENCE)?;
        let penalty = preempted.penalty(alloc, its_job);
        Some(Candidate {
            alloc: alloc.clone(),
            priority: its_job.priority,
            uses: alloc.amount(),
            for_room: false,
            penalty,
        })
    };
    let mut candidates: Vec<Candidate> = view.allocs_of_node(node.id).filter_map(candidate).collect();
    candidates.sort_by_key(|candidate| candidate.priority);
    candidates
}

/// Position of the candidate that gives way next when `needed` is missing: of the lowest priority, the one whose size
/// comes closest to it. `candidates` are sorted by priority.
pub(crate) fn closest(candidates: &[Candidate], needed: Amount) -> Option<usize> {
    let lowest = candidates.first()?.priority;
    let of_lowest = candidates.iter().take_while(|candidate| candidate.priority == lowest);
    let far = |candidate: &Candidate| distance(needed, candidate.uses) + candidate.penalty;
    let closest = of_lowest.enumerate().min_by(|(_, one), (_, other)| far(one).total_cmp(&far(other)));
    closest.map(|(position, _)| position)
}

/// Distance between what is needed and what an allocation uses; 0: the same in every dimension that is needed.
pub(crate) fn distance(needed: Amount, uses: Amount) -> f64 {
    let part = |needed: i64, uses: i64| if needed > 0 { (needed - uses) as f64 / needed as f64 } else { 0.0 };
    let parts = [part(needed.memory, uses.memory), part(needed.cpu, uses.cpu), part(needed.disk, uses.disk)];
    parts.iter().map(|part| part * part).sum::<f64>().sqrt()
}

/// Score of a node for the priorities of the allocations that would give way there: 1 is best. `None`: there are none.
pub(crate) fn score(priorities: &[i64]) -> Option<f64> {
    let highest = *priorities.iter().max()? as f64;
    let sum = priorities.iter().sum::<i64>() as f64;
    // Of two nodes with the same highest priority, the one with fewer allocations to preempt is better.
    let net = highest + if highest > 0.0 { sum / highest } else { 0.0 };
    Some(1.0 / (1.0 + (SCORE_RATE * (net - SCORE_ORIGIN)).exp()))
}

#[cfg(test)]
mod tests;
