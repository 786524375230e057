//! Follow-up evaluations: after the delay of a reschedule policy, when a node was disconnected for too long, or when a
//! disconnected node has stopped its allocations by itself.

use std::collections::BTreeMap;

use songline_model::{
    AllocClientStatus, AllocId, AllocStateField, Allocation, Dur, EvalId, EvalStatus, EvalTrigger, Evaluation, Str,
    TaskGroup, Time,
};

use super::set::{Later, Set, max_disconnect};
use super::{Run, unknown};

/// Follow-ups due within this time after the first share one evaluation.
const BATCH_WINDOW: Dur = Dur(5_000_000_000);
/// Least time that a task is given to end when its node stops it.
const KILL_TIMEOUT_MIN: Dur = Dur(5_000_000_000);
/// Descriptions of the evaluations of one list: that of the first, and that of all others.
type Descriptions = [&'static str; 2];
const DELAYED_RESCHEDULING: Descriptions = ["created for delayed rescheduling", ""];
const DISCONNECT_TIMEOUT: Descriptions = ["created for delayed disconnect timeout"; 2];

impl Run<'_, '_> {
    /// Creates evaluations for when these allocations may be rescheduled. Each row gets the id of its evaluation.
    pub(super) fn reschedule_later(&mut self, later: &[Later]) {
        let followups = self.batches(later.to_vec(), EvalTrigger::RetryFailedAlloc, DELAYED_RESCHEDULING);
        for Later { alloc, .. } in later {
            let followup = followups.get(&alloc.id).copied();
            if let Some(update) = self.out.disconnect_updates.get_mut(&alloc.id) {
                update.followup_eval_id = followup;
            } else {
                let update = Allocation { followup_eval_id: followup, ..(**alloc).clone() };
                self.out.attribute_updates.insert(alloc.id, update);
            }
        }
    }

    /// Creates evaluations for when the nodes of these allocations have stopped them by themselves. Empty: no
    /// allocation has to wait.
    pub(super) fn lost_later(&mut self, group: &TaskGroup, lost: &Set) -> BTreeMap<AllocId, EvalId> {
        let mut later = Vec::new();
        for alloc in lost.iter() {
            if let Some(at) = stopped_by_client(alloc, group, self.input.now).filter(|at| *at > self.input.now) {
                later.push(Later { alloc: alloc.clone(), at });
            }
        }
        self.batches(later, EvalTrigger::RetryFailedAlloc, DELAYED_RESCHEDULING)
    }

    /// Whether an allocation already marked lost may still be running until its node stops it, so that it must not be
    /// replaced yet. The follow-up evaluation created for the allocation may replace it.
    pub(super) fn still_stopping(&self, group: &TaskGroup, all: &Set) -> bool {
        all.iter().any(|alloc| {
            alloc.server_terminal()
                && alloc.client_status == AllocClientStatus::Lost
                && alloc.next_allocation.is_none()
                && alloc.followup_eval_id.is_some_and(|followup| followup != self.input.eval.id)
                && stopped_by_client(alloc, group, self.input.now).is_some_and(|at| at > self.input.now)
        })
    }

    /// Marks these allocations unknown, and creates evaluations for the ends of their disconnect windows.
    pub(super) fn disconnect(&mut self, disconnecting: &Set) {
        let now = self.input.now;
        let mut later = Vec::new();
        for alloc in disconnecting.iter() {
            if let Some(limit) = max_disconnect(alloc).filter(|limit| limit.0 > 0) {
                later.push(Later { alloc: alloc.clone(), at: now.plus(limit) });
            }
        }
        let followups = self.batches(later, EvalTrigger::MaxDisconnectTimeout, DISCONNECT_TIMEOUT);
        for alloc in disconnecting.iter() {
            let Some(followup) = followups.get(&alloc.id) else { continue };
            let update = Allocation { followup_eval_id: Some(*followup), ..unknown(alloc, now) };
            self.out.disconnect_updates.insert(alloc.id, update);
        }
    }

    /// Creates one evaluation for all follow-ups that are due within `BATCH_WINDOW` of the first.
    fn batches(
        &mut self,
        mut later: Vec<Later>,
        trigger: EvalTrigger,
        descriptions: Descriptions,
    ) -> BTreeMap<AllocId, EvalId> {
        later.sort_by_key(|later| (later.at, later.alloc.id));
        let mut followups = BTreeMap::new();
        let mut open: Option<(Time, EvalId)> = None;
        for Later { alloc, at } in later {
            let id = match open {
                Some((first, id)) if at.since(first) < BATCH_WINDOW => id,
                Some(_) | None => {
                    let eval = self.followup(at, trigger, descriptions[usize::from(open.is_some())]);
                    let id = eval.id;
                    self.out.followups.push(eval);
                    open = Some((at, id));
                    id
                }
            };
            followups.insert(alloc.id, id);
        }
        followups
    }

    fn followup(&mut self, at: Time, trigger: EvalTrigger, description: &'static str) -> Evaluation {
        let parent = self.input.eval;
        let job = self.input.job;
        Evaluation {
            id: self.seed.eval_id(),
            namespace: parent.namespace.clone(),
            priority: parent.priority,
            kind: job.map_or_else(|| parent.kind.clone(), |job| job.kind.clone()),
            triggered_by: trigger,
            job_id: parent.job_id.clone(),
            job_modify_index: job.map_or(parent.job_modify_index, |job| job.modify_index),
            status: EvalStatus::Pending,
            status_description: Str::new_static(description),
            wait_until: Some(at),
            previous_eval: Some(parent.id),
            create_time: self.input.now,
            modify_time: self.input.now,
            ..Evaluation::default()
        }
    }
}

/// Time at which the node of a lost allocation has stopped it by itself; `None` when its group does not ask for that.
fn stopped_by_client(alloc: &Allocation, group: &TaskGroup, now: Time) -> Option<Time> {
    let asked = alloc.group().unwrap_or(group);
    let after = asked.stop_after_client_disconnect.filter(|after| after.0 > 0)?;
    let is_lost = |state: &&songline_model::AllocState| {
        state.field == AllocStateField::ClientStatus && state.value == AllocClientStatus::Lost.as_str()
    };
    let since = alloc.alloc_states.iter().flatten().find(is_lost).map_or(now, |state| state.time);
    let kill =
        asked.tasks.iter().flatten().map(|task| task.kill_timeout).max().unwrap_or_default().max(KILL_TIMEOUT_MIN);
    Some(since.plus(after).plus(kill))
}
