//! Eval broker: chooses the evaluation to work on next. One at a time per job, by priority, delivered at least once.
//!
//! The broker is a machine without a clock: the shell passes the time, hands deliveries to workers and carries their
//! answers back. The broker keeps nothing that must survive; a new leader fills it from the tables. [`crate::blocked`]
//! keeps the evaluations that wait for capacity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{Dur, EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, Time};

/// Time after which an unanswered delivery counts as lost.
const NACK_TIMEOUT: Dur = Dur::from_secs(60);
/// Number of deliveries after which an evaluation counts as failed.
pub const DELIVERIES_MAX: u32 = 3;
const FIRST_NACK_DELAY: Dur = Dur::from_secs(1);
const LATER_NACK_DELAY: Dur = Dur::from_secs(20);

/// Names one delivery. An answer with the token of an older delivery is refused, because another worker has the
/// evaluation by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(u64);

impl Token {
    /// The token with this number, as another server says it.
    pub fn of(number: u64) -> Self {
        Self(number)
    }

    /// The token's number: it never repeats while the process of the broker lives.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// An evaluation handed to a worker.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The evaluation to work on.
    pub eval: Arc<Evaluation>,
    /// Token to give with the answer.
    pub token: Token,
    /// Number of deliveries before this one.
    pub earlier: u32,
    /// Panics of earlier deliveries, if there were any.
    pub panicked: Option<Panicked>,
}

/// Panics during the work on one evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked {
    /// Number of panics.
    pub times: u32,
    /// Message of the last panic.
    pub message: String,
}

/// Reason why an answer was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    /// The evaluation was never delivered, or was answered already.
    #[error("Evaluation ID not found")]
    NotOutstanding,
    /// The evaluation was delivered again since.
    #[error("Token does not match for Evaluation ID")]
    TokenMismatch,
}

/// Order of the ready queue: higher priority first, then older ones.
type ReadyKey = (std::cmp::Reverse<i64>, u64, EvalId);
/// Order behind a busy job: higher priority first, then the newest.
type PendingKey = (std::cmp::Reverse<i64>, std::cmp::Reverse<u64>, EvalId);

/// The queue of evaluations.
#[derive(Debug, Clone, Default)]
pub struct EvalBroker {
    enabled: bool,
    next_token: u64,
    /// Every evaluation in the broker, with its number of deliveries.
    known: BTreeMap<EvalId, (Arc<Evaluation>, u32)>,
    /// The one evaluation per job that is ready or outstanding.
    busy: BTreeMap<JobKey, EvalId>,
    pending: BTreeMap<JobKey, BTreeSet<PendingKey>>,
    /// Number of evaluations in `pending`.
    pending_count: usize,
    ready: BTreeMap<Queue, BTreeSet<ReadyKey>>,
    outstanding: BTreeMap<EvalId, Outstanding>,
    /// Evaluations of this broker whose deliveries panicked. An acknowledgement removes them.
    panicked: BTreeMap<EvalId, Panicked>,
    /// Evaluations to enqueue when the delivery with this token is acknowledged.
    requeue: BTreeMap<Token, Arc<Evaluation>>,
    waiting: BTreeSet<(Time, EvalId)>,
    cancelable: Vec<Arc<Evaluation>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Queue {
    Of(JobType),
    Failed,
}

#[derive(Debug, Clone)]
struct Outstanding {
    token: Token,
    /// `None` while a plan of this delivery is in the plan queue, and while the evaluation is being given up.
    nack_at: Option<Time>,
}

/// Numbers of evaluations by their place in the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BrokerStats {
    /// Ready to be delivered.
    pub ready: usize,
    /// Delivered and not answered.
    pub unacked: usize,
    /// Waiting until another evaluation of their job is acknowledged.
    pub pending: usize,
    /// Waiting for a time: a delay, or the back-off after a negative answer.
    pub waiting: usize,
    /// Made needless by newer evaluations of their job, to be canceled.
    pub cancelable: usize,
}

impl EvalBroker {
    /// An empty, disabled broker.
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches the broker on or off. Switching off forgets everything; the tables still have the evaluations.
    pub fn set_enabled(&mut self, enabled: bool) {
        if self.enabled && !enabled {
            *self = Self { next_token: self.next_token, ..Self::default() };
        }
        self.enabled = enabled;
    }

    /// Whether the broker takes and delivers evaluations.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Takes a pending evaluation. An evaluation that the broker already has is ignored.
    pub fn enqueue(&mut self, eval: Arc<Evaluation>, now: Time) {
        if !self.enabled || self.known.contains_key(&eval.id) {
            return;
        }
        let id = eval.id;
        let due = if eval.wait > Dur::ZERO { Some(now.plus(eval.wait)) } else { eval.wait_until };
        self.known.insert(id, (eval, 0));
        match due {
            Some(at) if at > now => {
                self.waiting.insert((at, id));
            }
            _ => self.make_ready(id),
        }
    }

    /// Takes back an evaluation that a worker still holds: it is enqueued once the delivery with this token is
    /// acknowledged.
    pub fn enqueue_again(&mut self, eval: Arc<Evaluation>, token: Token, now: Time) {
        match self.outstanding.get(&eval.id) {
            Some(current) if current.token == token => {
                self.requeue.insert(token, eval);
            }
            Some(_) => {}
            None => self.enqueue(eval, now),
        }
    }

    /// Delivers the first evaluation of these types: highest priority, then oldest. The worker has 60 seconds to
    /// answer.
    pub fn dequeue(&mut self, types: &[JobType], now: Time) -> Option<Delivery> {
        let best = types
            .iter()
            .filter_map(|kind| {
                let queue = Queue::Of(kind.clone());
                let first = self.ready.get(&queue)?.first()?;
                Some((*first, queue))
            })
            .min()?;
        self.deliver(best.1, &best.0, Some(now.plus(NACK_TIMEOUT)))
    }

    /// Delivers the next evaluation that was delivered too often. The caller writes the evaluation as failed and then
    /// acknowledges the delivery, which has no timeout.
    pub fn dequeue_failed(&mut self) -> Option<Delivery> {
        let first = *self.ready.get(&Queue::Failed)?.first()?;
        self.deliver(Queue::Failed, &first, None)
    }

    fn deliver(&mut self, queue: Queue, key: &ReadyKey, nack_at: Option<Time>) -> Option<Delivery> {
        self.ready.get_mut(&queue)?.remove(key);
        let (eval, count) = self.known.get_mut(&key.2)?;
        let earlier = *count;
        *count += 1;
        self.next_token += 1;
        let token = Token(self.next_token);
        self.outstanding.insert(key.2, Outstanding { token, nack_at });
        Some(Delivery { eval: Arc::clone(eval), token, earlier, panicked: self.panicked.get(&key.2).cloned() })
    }

    /// Ends a delivery. The next pending evaluation of the job becomes ready; the others of the job become cancelable.
    pub fn ack(&mut self, id: EvalId, token: Token, now: Time) -> Result<(), BrokerError> {
        self.check(id, token)?;
        self.outstanding.remove(&id);
        let Some((eval, _)) = self.known.remove(&id) else { return Err(BrokerError::NotOutstanding) };
        self.panicked.remove(&id);
        let job = job_key(&eval);
        self.busy.remove(&job);
        if let Some(mut behind) = self.pending.remove(&job) {
            self.pending_count -= behind.len();
            let next = behind.pop_first();
            for (_, _, useless) in behind {
                if let Some((eval, _)) = self.known.remove(&useless) {
                    self.cancelable.push(eval);
                }
            }
            if let Some((_, _, next)) = next {
                self.make_ready(next);
            }
        }
        if let Some(again) = self.requeue.remove(&token) {
            self.enqueue(again, now);
        }
        Ok(())
    }

    /// Gives a delivery back. The evaluation is delivered again after a delay, or fails after [`DELIVERIES_MAX`]
    /// deliveries.
    pub fn nack(&mut self, id: EvalId, token: Token, now: Time) -> Result<(), BrokerError> {
        self.check(id, token)?;
        self.requeue.remove(&token);
        self.outstanding.remove(&id);
        let Some((eval, count)) = self.known.get(&id) else { return Err(BrokerError::NotOutstanding) };
        if *count >= DELIVERIES_MAX {
            let key = ready_key(eval);
            self.ready.entry(Queue::Failed).or_default().insert(key);
            return Ok(());
        }
        let delay = match count {
            0 => Dur::ZERO,
            1 => FIRST_NACK_DELAY,
            more => Dur(LATER_NACK_DELAY.nanos() * i64::from(more - 1)),
        };
        self.waiting.insert((now.plus(delay), id));
        Ok(())
    }

    /// As [`Self::nack`], after a panic. When the evaluation fails for good, its status description carries the panic's
    /// message.
    pub fn nack_panicked(&mut self, id: EvalId, token: Token, message: String, now: Time) -> Result<(), BrokerError> {
        self.check(id, token)?;
        let times = self.panicked.get(&id).map_or(0, |before| before.times) + 1;
        self.panicked.insert(id, Panicked { times, message });
        self.nack(id, token, now)
    }

    /// As [`Self::nack`], for a worker whose server is out of reach. Nothing happens while a plan of the delivery is in the
    /// plan queue: a second delivery would be scheduled beside the plan. Returns whether the delivery was taken back.
    pub fn nack_lost(&mut self, id: EvalId, token: Token, now: Time) -> bool {
        let is_free = self.outstanding.get(&id).is_some_and(|o| o.token == token && o.nack_at.is_some());
        is_free && self.nack(id, token, now).is_ok()
    }

    /// Restarts the timeout of a delivery. Fails when the worker does not hold the delivery any more.
    pub fn reset_nack(&mut self, id: EvalId, token: Token, now: Time) -> Result<(), BrokerError> {
        self.check(id, token)?;
        self.set_nack(id, Some(now.plus(NACK_TIMEOUT)));
        Ok(())
    }

    /// Stops the timeout of a delivery while its plan is in the plan queue.
    pub fn pause_nack(&mut self, id: EvalId, token: Token) -> Result<(), BrokerError> {
        self.check(id, token)?;
        self.set_nack(id, None);
        Ok(())
    }

    fn set_nack(&mut self, id: EvalId, at: Option<Time>) {
        if let Some(outstanding) = self.outstanding.get_mut(&id) {
            outstanding.nack_at = at;
        }
    }

    fn check(&self, id: EvalId, token: Token) -> Result<(), BrokerError> {
        let outstanding = self.outstanding.get(&id).ok_or(BrokerError::NotOutstanding)?;
        if outstanding.token == token { Ok(()) } else { Err(BrokerError::TokenMismatch) }
    }

    /// The next time at which [`Self::on_time`] has work; `None`: no timeout or wait is running.
    pub fn next_deadline(&self) -> Option<Time> {
        let nack = self.outstanding.values().filter_map(|o| o.nack_at).min();
        let wait = self.waiting.first().map(|(at, _)| *at);
        nack.into_iter().chain(wait).min()
    }

    /// Makes ready the evaluations whose wait has ended, and takes back deliveries whose timeout has passed.
    pub fn on_time(&mut self, now: Time) {
        while let Some(&(at, id)) = self.waiting.first() {
            if at > now {
                break;
            }
            self.waiting.remove(&(at, id));
            self.make_ready(id);
        }
        let lost: Vec<_> = self
            .outstanding
            .iter()
            .filter(|(_, o)| o.nack_at.is_some_and(|at| at <= now))
            .map(|(id, o)| (*id, o.token))
            .collect();
        for (id, token) in lost {
            // The tokens were read just above and nothing ran in between, so the broker does not refuse them.
            let _ = self.nack(id, token, now);
        }
    }

    /// Takes at most `max` evaluations that newer ones made needless.
    pub fn take_cancelable(&mut self, max: usize) -> Vec<Arc<Evaluation>> {
        let rest = self.cancelable.split_off(max.min(self.cancelable.len()));
        std::mem::replace(&mut self.cancelable, rest)
    }

    /// Whether an evaluation of one of these types is ready.
    pub fn has_ready(&self, types: &[JobType]) -> bool {
        types.iter().any(|kind| self.ready.get(&Queue::Of(kind.clone())).is_some_and(|queue| !queue.is_empty()))
    }

    /// Whether an evaluation of any type is ready.
    pub fn has_any_ready(&self) -> bool {
        self.ready.iter().any(|(queue, evals)| *queue != Queue::Failed && !evals.is_empty())
    }

    /// Whether an evaluation that was delivered too often is ready for [`Self::dequeue_failed`].
    pub fn has_failed(&self) -> bool {
        self.ready.get(&Queue::Failed).is_some_and(|queue| !queue.is_empty())
    }

    /// Numbers of evaluations by their place in the broker.
    pub fn stats(&self) -> BrokerStats {
        BrokerStats {
            ready: self.ready.values().map(BTreeSet::len).sum(),
            unacked: self.outstanding.len(),
            pending: self.pending_count,
            waiting: self.waiting.len(),
            cancelable: self.cancelable.len(),
        }
    }

    /// Numbers of ready and outstanding evaluations under the reference's scheduler names. `_failed` counts those
    /// delivered too often.
    pub fn stats_by_type(&self) -> Vec<(&'static str, usize, usize)> {
        let ready = |queue: Queue| self.ready.get(&queue).map_or(0, BTreeSet::len);
        let unacked = |kind: &JobType| {
            let out = self.outstanding.keys().filter_map(|id| self.known.get(id));
            out.filter(|(eval, _)| eval.kind == *kind).count()
        };
        let kinds = [
            (JobType::Service, "service"),
            (JobType::Batch, "batch"),
            (JobType::System, "system"),
            (JobType::SysBatch, "sysbatch"),
        ];
        let mut stats: Vec<_> = kinds.map(|(kind, name)| (name, ready(Queue::Of(kind.clone())), unacked(&kind))).into();
        stats.push(("_failed", ready(Queue::Failed), 0));
        stats
    }

    fn make_ready(&mut self, id: EvalId) {
        let Some((eval, _)) = self.known.get(&id) else { return };
        let job = job_key(eval);
        match self.busy.get(&job) {
            Some(other) if *other != id => {
                let key = (std::cmp::Reverse(eval.priority), std::cmp::Reverse(eval.modify_index), id);
                self.pending_count += usize::from(self.pending.entry(job).or_default().insert(key));
            }
            _ => {
                let (queue, key) = (Queue::Of(eval.kind.clone()), ready_key(eval));
                self.busy.insert(job, id);
                self.ready.entry(queue).or_default().insert(key);
            }
        }
    }
}

fn job_key(eval: &Evaluation) -> JobKey {
    JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() }
}

fn ready_key(eval: &Evaluation) -> ReadyKey {
    (std::cmp::Reverse(eval.priority), eval.create_index, eval.id)
}

/// Wait of the follow-up of an evaluation that is given up: 1 to 6 minutes, spread by `chance` so that not all
/// follow-ups run at once.
pub fn give_up_wait(chance: u8) -> Dur {
    Dur(Dur::from_mins(1).nanos() + i64::from(chance) * Dur::from_mins(5).nanos() / 256)
}

/// The two rows that give up an evaluation that was delivered too often: the evaluation as failed, and its follow-up
/// after `wait`. The follow-up has the time at which it is due, so that another leader does not begin the wait anew.
pub fn give_up(
    eval: &Evaluation,
    follow_up: EvalId,
    wait: Dur,
    panicked: Option<&Panicked>,
    now: Time,
) -> [Evaluation; 2] {
    let failed = Evaluation {
        status: EvalStatus::Failed,
        status_description: limit_reached(panicked).into(),
        next_eval: Some(follow_up),
        modify_time: now,
        ..eval.clone()
    };
    let next = Evaluation {
        id: follow_up,
        namespace: eval.namespace.clone(),
        priority: eval.priority,
        kind: eval.kind.clone(),
        triggered_by: EvalTrigger::FailedFollowUp,
        job_id: eval.job_id.clone(),
        job_modify_index: eval.job_modify_index,
        status: EvalStatus::Pending,
        wait_until: Some(now.plus(wait)),
        previous_eval: Some(eval.id),
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    };
    [failed, next]
}

fn limit_reached(panicked: Option<&Panicked>) -> String {
    let limit = format!("evaluation reached delivery limit ({DELIVERIES_MAX})");
    let Some(Panicked { times, message }) = panicked else { return limit };
    let times = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
    format!(
        "{limit}: the scheduler panicked {times} on it, the last time with {message:?}; this is a defect of Songline, please report it"
    )
}

#[cfg(test)]
mod tests;
