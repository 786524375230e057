//! Blocked evaluations: they wait for capacity and run again when some is gained. The eval broker takes the woken ones.
//!
//! Capacity is tracked by computed node class: an evaluation that found a class ineligible is not woken by gains in
//! that class. A CSI volume that can be used again wakes the evaluations of jobs that ask for it. One that only a quota
//! keeps from being placed waits for that quota. The tracker keeps nothing that must survive; a new leader fills it from
//! the tables, and runs once more what was computed before the newest capacity.

mod demand;

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocMetric, EvalId, EvalTrigger, Evaluation, JobKey, JobType, NamespaceName, NodeId, Str};

use crate::broker::Token;

pub use demand::{Demand, Wanted};

/// Most classes whose newest gain is remembered. Of more, the older half is forgotten.
const CLASSES_MAX: usize = 10_000;

/// Evaluations that failed to place at least one allocation.
#[derive(Debug, Clone, Default)]
pub struct BlockedEvals {
    enabled: bool,
    evals: BTreeMap<EvalId, Blocked>,
    by_job: BTreeMap<Slot, EvalId>,
    /// Number of `evals` whose constraints escape the node class; a gain in any class wakes them.
    escaped: usize,
    /// Index at which each class last gained capacity.
    unblocked: BTreeMap<Str, u64>,
    /// Newest index at which a class that is not in `unblocked` may have gained capacity.
    forgotten: u64,
    /// Index at which a CSI volume of each namespace last became usable.
    unblocked_volumes: BTreeMap<NamespaceName, u64>,
    /// Resources that the blocked evaluations wait for.
    demand: Demand,
    /// Index at which each quota last gave room.
    unblocked_quotas: BTreeMap<Str, u64>,
    /// Number of `evals` that wait for a quota.
    waiting_for_quota: usize,
    duplicates: Vec<Arc<Evaluation>>,
}

#[derive(Debug, Clone)]
struct Blocked {
    eval: Arc<Evaluation>,
    token: Option<Token>,
}

/// Key of a blocked evaluation: one per job, and for system jobs one per job and node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    job: JobKey,
    node: Option<NodeId>,
}

/// An evaluation to run again. The token is set while a worker still holds its delivery.
pub type Wake = (Arc<Evaluation>, Option<Token>);

impl BlockedEvals {
    /// An empty, disabled tracker.
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches tracking on or off. Switching off forgets everything.
    pub fn set_enabled(&mut self, enabled: bool) {
        if self.enabled && !enabled {
            *self = Self::default();
        }
        self.enabled = enabled;
    }

    /// Tracks a blocked evaluation. Returns the evaluation, to run again at once, when capacity came while a worker
    /// held it.
    pub fn block(&mut self, eval: Arc<Evaluation>, token: Option<Token>) -> Option<Wake> {
        if !self.enabled {
            return None;
        }
        let slot = slot(&eval);
        if let Some(existing) = self.by_job.get(&slot).copied()
            && existing != eval.id
        {
            let existing_age = self.evals.get(&existing).map_or(0, |blocked| age(&blocked.eval));
            if existing_age > age(&eval) {
                self.duplicates.push(eval);
                return None;
            }
            if let Some(older) = self.remove(existing) {
                self.duplicates.push(older.eval);
            }
        }
        let before = self.remove(eval.id);
        // The row of an evaluation comes again after a worker has given it back, and must not take the delivery away:
        // the broker ignores an evaluation that is still delivered.
        let token = token.or(before.as_ref().and_then(|before| before.token));
        // Nor its classes: the row is not written again when only they differ.
        let eval =
            before.map(|before| before.eval).filter(|known| known.snapshot_index > eval.snapshot_index).unwrap_or(eval);
        if self.missed_unblock(&eval) {
            return Some((eval, token));
        }
        self.by_job.insert(slot, eval.id);
        self.escaped += usize::from(eval.escaped_computed_class);
        self.waiting_for_quota += usize::from(!eval.quota_limit_reached.is_empty());
        self.demand.add(&eval);
        self.evals.insert(eval.id, Blocked { eval, token });
        None
    }

    /// Notes that a class gained capacity at `index`, and returns the evaluations that may fit there.
    pub fn unblock(&mut self, class: &Str, index: u64) -> Vec<Wake> {
        if !self.enabled {
            return Vec::new();
        }
        self.unblocked.insert(class.clone(), index);
        self.forget_old_classes();
        self.take(|eval| {
            !is_only_over_quota(eval) && (eval.escaped_computed_class || eligibility(eval, class) != Some(false))
        })
    }

    /// Notes that a quota has more room at `index`: its use fell, its limit was raised, or it no longer limits a
    /// namespace. Returns the evaluations that it kept from being placed.
    pub fn unblock_quota(&mut self, quota: &Str, index: u64) -> Vec<Wake> {
        if !self.enabled {
            return Vec::new();
        }
        self.unblocked_quotas.insert(quota.clone(), index);
        self.take(|eval| eval.quota_limit_reached == *quota)
    }

    /// Notes that a CSI volume of `namespace` became usable at `index`, and returns the evaluations whose jobs ask for
    /// it.
    pub fn unblock_volume(
        &mut self,
        namespace: &NamespaceName,
        index: u64,
        asks: impl Fn(&Evaluation) -> bool,
    ) -> Vec<Wake> {
        if !self.enabled {
            return Vec::new();
        }
        self.unblocked_volumes.insert(namespace.clone(), index);
        self.take(|eval| eval.namespace == *namespace && asks(eval))
    }

    /// Returns the system evaluations that wait for this node, which has become ready or has room again.
    pub fn unblock_node(&mut self, node: NodeId) -> Vec<Wake> {
        self.take(|eval| eval.kind == JobType::System && eval.node_id == Some(node))
    }

    /// Returns the evaluations that ran out of attempts, to be tried again. The leader calls this periodically.
    pub fn unblock_failed(&mut self) -> Vec<Wake> {
        self.take(|eval| eval.triggered_by == EvalTrigger::MaxPlans)
    }

    /// Forgets the evaluations of a job, because a newer one placed everything or because they were canceled.
    pub fn untrack(&mut self, job: &JobKey) {
        let ids: Vec<_> = self
            .by_job
            .range(Slot { job: job.clone(), node: None }..)
            .take_while(|(s, _)| s.job == *job)
            .map(|(_, id)| *id)
            .collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// Forgets one evaluation.
    pub fn forget(&mut self, id: EvalId) {
        self.remove(id);
    }

    /// Takes the evaluations that another evaluation of the same job replaced. They are to be canceled.
    pub fn take_duplicates(&mut self) -> Vec<Arc<Evaluation>> {
        std::mem::take(&mut self.duplicates)
    }

    /// Notes that any class may have gained capacity up to this index, because the tracker did not follow the changes
    /// until then.
    pub fn missed_until(&mut self, index: u64) {
        if self.enabled {
            self.forgotten = self.forgotten.max(index);
        }
    }

    /// Resources that the blocked evaluations wait for.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Number of blocked evaluations, and number of those that a gain in any class wakes.
    pub fn stats(&self) -> (usize, usize) {
        (self.evals.len(), self.escaped)
    }

    /// Number of blocked evaluations that wait for a quota.
    pub fn waiting_for_quota(&self) -> usize {
        self.waiting_for_quota
    }

    /// Whether the evaluation is tracked.
    #[cfg(test)]
    pub(crate) fn is_blocked(&self, id: EvalId) -> bool {
        self.evals.contains_key(&id)
    }

    fn take(&mut self, wanted: impl Fn(&Evaluation) -> bool) -> Vec<Wake> {
        let ids: Vec<_> =
            self.evals.values().filter(|blocked| wanted(&blocked.eval)).map(|blocked| blocked.eval.id).collect();
        ids.into_iter().filter_map(|id| self.remove(id)).map(|blocked| (blocked.eval, blocked.token)).collect()
    }

    fn remove(&mut self, id: EvalId) -> Option<Blocked> {
        let blocked = self.evals.remove(&id)?;
        self.escaped -= usize::from(blocked.eval.escaped_computed_class);
        self.demand.remove(&blocked.eval);
        self.waiting_for_quota -= usize::from(!blocked.eval.quota_limit_reached.is_empty());
        let slot = slot(&blocked.eval);
        if self.by_job.get(&slot) == Some(&id) {
            self.by_job.remove(&slot);
        }
        Some(blocked)
    }

    /// Whether a class that the evaluation may fit gained capacity, or a volume of its namespace became usable, after
    /// the view that it was computed on. Whether its job asks for that volume is not known here: running once more
    /// for nothing is harmless, a lost wake-up is not.
    fn missed_unblock(&self, eval: &Evaluation) -> bool {
        let newer = |index: &u64| eval.snapshot_index < *index;
        if newer(&self.forgotten) || self.unblocked_volumes.get(&eval.namespace).is_some_and(newer) {
            return true;
        }
        let quota = &eval.quota_limit_reached;
        if !quota.is_empty() {
            let given = self.unblocked_quotas.get(quota).is_some_and(newer);
            if given {
                return true;
            }
            if is_only_over_quota(eval) {
                return false;
            }
        }
        if eval.escaped_computed_class {
            return self.unblocked.values().any(newer);
        }
        self.unblocked.iter().any(|(class, index)| newer(index) && eligibility(eval, class) != Some(false))
    }

    fn forget_old_classes(&mut self) {
        if self.unblocked.len() <= CLASSES_MAX {
            return;
        }
        let mut indexes: Vec<u64> = self.unblocked.values().copied().collect();
        let (_, middle, _) = indexes.select_nth_unstable(CLASSES_MAX / 2);
        let middle = *middle;
        self.unblocked.retain(|_, index| *index > middle);
        self.forgotten = self.forgotten.max(middle);
    }
}

fn slot(eval: &Evaluation) -> Slot {
    let node = if eval.kind == JobType::System { eval.node_id } else { None };
    Slot { job: JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() }, node }
}

fn age(eval: &Evaluation) -> u64 {
    eval.create_index.max(eval.snapshot_index)
}

/// Whether a quota, and nothing else, keeps each failed group from being placed.
fn is_only_over_quota(eval: &Evaluation) -> bool {
    let over = |metric: &AllocMetric| metric.quota_exhausted.is_some() && metric.nodes_exhausted == 0;
    let failed = eval.failed_tg_allocs.as_deref();
    !eval.quota_limit_reached.is_empty() && failed.is_some_and(|failed| failed.values().all(over))
}

fn eligibility(eval: &Evaluation, class: &Str) -> Option<bool> {
    eval.class_eligibility.as_ref()?.get(class).copied()
}

#[cfg(test)]
mod tests;
