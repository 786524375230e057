//! Feeds applied changes to the eval queues: new evaluations are queued, new capacity and usable volumes wake blocked
//! ones, success untracks blocked ones.

mod volumes;

use std::sync::Arc;

use songline_model::{CsiVolumeKey, EvalStatus, Evaluation, JobKey, Node, QuotaName, Time};
use songline_projections::{Change, State, Table};

use crate::blocked::{BlockedEvals, Wake};
use crate::broker::{Delivery, EvalBroker};

/// Most superseded evaluations that one entry cancels. Duplicates of blocked evaluations come on top, unbounded.
const CANCELED_MAX: usize = 728;

/// Evaluations that need a write, found by [`EvalQueues::on_time`].
#[derive(Debug, Default)]
pub struct Tended {
    /// Rows of evaluations that are no longer needed, to be written as canceled.
    pub canceled: Vec<Evaluation>,
    /// Evaluations that were delivered too often: to be written as failed and then acknowledged.
    pub failed: Vec<Delivery>,
}

/// The eval broker and the blocked evaluations, fed by applied changes.
#[derive(Debug, Clone, Default)]
pub struct EvalQueues {
    /// Evaluations that are pending.
    pub broker: EvalBroker,
    /// Evaluations that wait for capacity.
    pub blocked: BlockedEvals,
}

impl EvalQueues {
    /// Empty queues, switched off.
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches both queues on and fills them from the tables, or switches both off and empties them.
    pub fn set_enabled(&mut self, enabled: bool, view: &State, now: Time) {
        self.broker.set_enabled(enabled);
        self.blocked.set_enabled(enabled);
        if enabled {
            // Capacity that came while the queues were off was not noted: whatever is blocked runs once, unless nothing
            // has changed since it was computed.
            let tables = [
                Table::Nodes,
                Table::Allocs,
                Table::CsiVolumes,
                Table::CsiPlugins,
                Table::QuotaSpecs,
                Table::Namespaces,
            ];
            self.blocked.missed_until(tables.map(|table| view.table_index(table)).into_iter().max().unwrap_or(0));
            for eval in view.evals() {
                self.on_eval(&eval, now);
            }
        }
    }

    /// Takes the changes of the entry at `index`; `view` is the state after the entry. The entry's own evaluations are
    /// queued before the blocked ones that it wakes, so that of one job's evaluations the entry's own runs first.
    pub fn on_changes(&mut self, view: &State, index: u64, changes: &[Change], now: Time) {
        for change in changes {
            match change {
                Change::Eval { after: Some(eval), .. } => self.on_eval(eval, now),
                Change::Eval { before: Some(eval), after: None } => self.blocked.forget(eval.id),
                _ => {}
            }
        }
        for change in changes {
            self.on_gain(view, index, change, now);
        }
    }

    /// Does the work that is due at `now` on the clock for waits. Changed rows get the time `written`.
    pub fn on_time(&mut self, now: Time, written: Time) -> Tended {
        self.broker.on_time(now);
        let superseded = self.broker.take_cancelable(CANCELED_MAX).into_iter();
        let superseded =
            superseded.map(|eval| canceled(&eval, "canceled after more recent eval was processed".into(), written));
        let duplicates = self.blocked.take_duplicates().into_iter().map(|eval| {
            let why = format!("existing blocked evaluation exists for job {:?}", eval.job_id.as_str());
            canceled(&eval, why, written)
        });
        let canceled = superseded.chain(duplicates).collect();
        let failed = std::iter::from_fn(|| self.broker.dequeue_failed()).collect();
        Tended { canceled, failed }
    }

    /// Gives an evaluation back to the blocked ones while a worker still holds its delivery.
    pub fn reblock(&mut self, eval: Arc<Evaluation>, token: crate::broker::Token, now: Time) {
        let wake = self.blocked.block(eval, Some(token));
        self.run_again(wake, now);
    }

    /// Retries the blocked evaluations that had run out of attempts.
    pub fn unblock_failed(&mut self, now: Time) {
        let wakes = self.blocked.unblock_failed();
        self.run_again(wakes, now);
    }

    fn on_eval(&mut self, eval: &Arc<Evaluation>, now: Time) {
        match eval.status {
            EvalStatus::Pending => self.broker.enqueue(Arc::clone(eval), now),
            EvalStatus::Blocked => {
                let wake = self.blocked.block(Arc::clone(eval), None);
                self.run_again(wake, now);
            }
            EvalStatus::Complete => {
                if eval.failed_tg_allocs.as_ref().is_none_or(|failed| failed.is_empty()) {
                    self.blocked.untrack(&JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() });
                }
            }
            EvalStatus::Failed | EvalStatus::Canceled => self.blocked.forget(eval.id),
        }
    }

    /// Wakes the blocked evaluations that a change may have given room, quota or a volume.
    fn on_gain(&mut self, view: &State, index: u64, change: &Change, now: Time) {
        match change {
            Change::Node { before, after: Some(node) } => self.on_node(before.as_deref(), node, index, now),
            Change::Alloc { before: Some(before), after: Some(after) } => {
                // A node may be back when its lost allocation is written, so `lost` counts, too.
                if after.client_terminal()
                    && !before.client_terminal()
                    && let Some(node) = after.node_id.and_then(|id| view.node(id))
                {
                    self.unblock(node, index, now);
                }
            }
            Change::QuotaUsage { before: Some(before), after: Some(after) }
                if after.used.is_less_than(&before.used) =>
            {
                self.unblock_quota(&after.name, index, now);
            }
            Change::QuotaSpec { before: Some(before), after }
                if after.as_ref().is_none_or(|after| after.allows_more_than(before)) =>
            {
                self.unblock_quota(&before.name, index, now);
            }
            Change::Namespace { before: Some(before), after }
                if after.as_ref().is_none_or(|after| after.quota != before.quota) =>
            {
                self.unblock_quota(&before.quota, index, now);
            }
            Change::CsiVolume { before, after: Some(volume) } if volumes::gained(before.as_deref(), volume) => {
                self.unblock_volume(view, &volume.key(), index, now);
            }
            Change::CsiPlugin { before, after: Some(plugin) } if volumes::recovered(before.as_deref(), plugin) => {
                for volume in view.csi_volumes_of_plugin(&plugin.id) {
                    self.unblock_volume(view, &volume.key(), index, now);
                }
            }
            _ => {}
        }
    }

    fn on_node(&mut self, before: Option<&Node>, after: &Node, index: u64, now: Time) {
        if !after.is_ready() {
            return;
        }
        let gained = before.is_none_or(|before| {
            after.offers_more_than(before) || volumes::mountable(before) != volumes::mountable(after)
        });
        if gained {
            self.unblock(after, index, now);
        }
    }

    fn unblock(&mut self, node: &Node, index: u64, now: Time) {
        let mut wakes = self.blocked.unblock(&node.computed_class, index);
        wakes.extend(self.blocked.unblock_node(node.id));
        self.run_again(wakes, now);
    }

    fn unblock_volume(&mut self, view: &State, key: &CsiVolumeKey, index: u64, now: Time) {
        let wakes = self.blocked.unblock_volume(&key.namespace, index, |eval| volumes::asks(view, eval, &key.id));
        self.run_again(wakes, now);
    }

    fn unblock_quota(&mut self, quota: &QuotaName, index: u64, now: Time) {
        if !quota.is_empty() {
            let wakes = self.blocked.unblock_quota(&quota.0, index);
            self.run_again(wakes, now);
        }
    }

    fn run_again(&mut self, wakes: impl IntoIterator<Item = Wake>, now: Time) {
        for (eval, token) in wakes {
            match token {
                Some(token) => self.broker.enqueue_again(eval, token, now),
                None => self.broker.enqueue(eval, now),
            }
        }
    }
}

fn canceled(eval: &Evaluation, why: String, now: Time) -> Evaluation {
    Evaluation { status: EvalStatus::Canceled, status_description: why.into(), modify_time: now, ..eval.clone() }
}

#[cfg(test)]
mod tests;
