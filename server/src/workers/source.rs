//! The source of a worker's evaluations, and the receiver of its results: this server's own queues while it leads
//! ([`Own`]), else the leader over the servers' channel ([`super::remote`]).
//!
//! Every call names the delivery that it belongs to. The broker of the leadership term of that delivery decides
//! whether the worker still has it: an answer of an older delivery or of an earlier term changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, Cause, Kind, UpdateEvals};
use songline_model::{EvalId, Evaluation, JobType, Plan, PlanResult, Time};
use songline_scheduler::broker::{Delivery, Token};

use super::Failure;
use crate::Core;
use crate::leadership::LeadershipTerm;
use crate::panics::Panicked;

/// An evaluation that a worker has, and the delivery that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Delivered {
    pub(crate) eval: Arc<Evaluation>,
    /// Raft term of the leader that delivered.
    pub(crate) raft_term: u64,
    pub(crate) token: Token,
    /// Index that the worker's view must have.
    pub(crate) needed: u64,
    /// Clock by which the worker decides.
    pub(crate) clock: DecisionClock,
}

/// Wall clock of the leader.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DecisionClock {
    /// This server leads.
    Own,
    /// The leader's time, and this server's steady clock when it was told.
    Told { time: Time, at: Duration },
}

impl DecisionClock {
    /// The leader's wall-clock time.
    pub(crate) fn now(self, core: &Core) -> Time {
        match self {
            Self::Own => core.now(),
            Self::Told { time, at } => time.plus(core.world().steady().saturating_sub(at).into()),
        }
    }
}

/// The source of evaluations of one leader.
pub(crate) trait Source: Send + Sync {
    /// The next evaluation of these types. `None`: none came within a bounded wait. An error: the leader gave no answer.
    fn dequeue(&self, types: &[JobType]) -> impl Future<Output = Result<Option<Delivered>, String>> + Send;

    /// Writes new and changed evaluations.
    fn write(&self, of: &Delivered, evals: Vec<Evaluation>) -> impl Future<Output = Result<(), String>> + Send;

    /// Submits a plan and returns its accepted part, once that is durable and applied. The delivery's timeout does not
    /// run meanwhile.
    fn submit(&self, of: &Delivered, plan: Plan) -> impl Future<Output = Result<PlanResult, Failure>> + Send;

    /// Gives the evaluation to the blocked ones; nothing is written.
    fn reblock(&self, of: &Delivered, eval: Arc<Evaluation>) -> impl Future<Output = Result<(), String>> + Send;

    /// Ends the delivery, or gives it back. An error: the evaluation had been taken back meanwhile.
    fn answer(&self, of: &Delivered, outcome: Answer) -> impl Future<Output = Result<(), String>> + Send;

    /// Whether the leader that delivered leads no more.
    fn is_over(&self) -> bool;
}

/// Outcome of the work on an evaluation, for the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The work is done.
    Done,
    /// The work failed and is to be tried again.
    Failed,
    /// The work panicked, with this message.
    Panicked(String),
}

impl Answer {
    pub(crate) fn of(outcome: &Result<(), Failure>) -> Self {
        match outcome {
            Ok(()) => Self::Done,
            Err(Failure::Told(_) | Failure::Late(_)) => Self::Failed,
            Err(Failure::Panicked(Panicked(message))) => Self::Panicked(message.clone()),
        }
    }
}

/// The queues of this server in one of its leadership terms.
pub(crate) struct Own {
    core: Arc<Core>,
    term: Arc<LeadershipTerm>,
    /// Longest wait for an evaluation.
    wait: Duration,
}

impl Own {
    pub(crate) fn new(core: &Arc<Core>, term: Arc<LeadershipTerm>, wait: Duration) -> Self {
        Self { core: Arc::clone(core), term, wait }
    }

    /// An evaluation that is ready now. A delivery of a later term is given back: nothing of this term is accepted then.
    fn take(&self, types: &[JobType]) -> Option<Delivered> {
        let core = &self.core;
        let asked = Instant::now();
        let delivery = core.queues().broker.dequeue(types, core.pace());
        let Delivery { eval, token, .. } = delivery?;
        core.metrics.at.eval_dequeue.since(asked);
        if self.term.is_over() {
            // A refusal means that the end of the term has emptied the broker.
            let _ = core.queues().broker.nack(eval.id, token, core.pace());
            return None;
        }
        // Every entry that was written for this job before has to be in the worker's view.
        let of_job = core.view().evals_of_job(&eval.namespace, &eval.job_id).map(|eval| eval.modify_index).max();
        let needed = of_job.unwrap_or(0).max(eval.modify_index);
        Some(Delivered { eval, raft_term: self.term.raft_term(), token, needed, clock: DecisionClock::Own })
    }

    /// Like [`Source::write`], with the index of the evaluation that caused the entry.
    pub(crate) async fn write_of(
        &self,
        id: EvalId,
        token: Token,
        cause: u64,
        evals: Vec<Evaluation>,
    ) -> Result<(), String> {
        let core = &self.core;
        core.queues().broker.reset_nack(id, token, core.pace()).map_err(|error| error.to_string())?;
        let proposal = Proposal {
            actor: Actor::Leader("scheduler".into()),
            cause: Some(Cause::new(cause, Kind::EvalUpdate)),
            idempotency: None,
            command: UpdateEvals { evals }.into(),
        };
        match core.write_under(&self.term, proposal).await {
            Ok(_) => Ok(()),
            Err(ProposeError::Rejected(refusal)) => Err(refusal.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Like [`Source::submit`].
    pub(crate) async fn submit_of(&self, id: EvalId, token: Token, plan: Plan) -> Result<PlanResult, Failure> {
        let core = &self.core;
        // The timeout rests while the plan waits: a full plan queue must not have the evaluation delivered again, which
        // would add a second plan to the queue.
        core.queues().broker.pause_nack(id, token).map_err(|error| error.to_string())?;
        let answer = core.submit_plan(&self.term, plan).await;
        core.queues().broker.reset_nack(id, token, core.pace()).map_err(|error| error.to_string())?;
        answer
    }

    /// Like [`Source::reblock`]. A worker that lost its delivery gives nothing.
    pub(crate) fn reblock_of(&self, token: Token, eval: Arc<Evaluation>) -> Result<(), String> {
        let core = &self.core;
        let mut queues = core.queues();
        queues.broker.reset_nack(eval.id, token, core.pace()).map_err(|error| error.to_string())?;
        queues.reblock(eval, token, core.pace());
        Ok(())
    }

    /// Like [`Source::answer`].
    pub(crate) fn answer_of(&self, id: EvalId, token: Token, answer: Answer) -> Result<(), String> {
        let core = &self.core;
        let (began, now) = (Instant::now(), core.pace());
        let answered = {
            let broker = &mut core.queues().broker;
            match answer {
                Answer::Done => broker.ack(id, token, now),
                Answer::Failed => broker.nack(id, token, now),
                Answer::Panicked(ref message) => broker.nack_panicked(id, token, message.clone(), now),
            }
        };
        let timer = if answer == Answer::Done { &core.metrics.at.eval_ack } else { &core.metrics.at.eval_nack };
        timer.since(began);
        core.wake_workers();
        // An answer may have set the deadline of another delivery.
        core.leader.deadlines.notify_one();
        answered.map_err(|error| error.to_string())
    }
}

impl Source for Own {
    async fn dequeue(&self, types: &[JobType]) -> Result<Option<Delivered>, String> {
        let core = &self.core;
        let until = tokio::time::Instant::now() + self.wait;
        loop {
            // Enabled before the queues are looked at: `notify_waiters` leaves no permit for a later waiter.
            let woken = core.leader.work.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if self.term.is_over() {
                return Ok(None);
            }
            if let Some(delivered) = self.take(types) {
                return Ok(Some(delivered));
            }
            tokio::select! {
                biased;
                () = woken => {}
                () = self.term.over() => {}
                () = tokio::time::sleep_until(until) => return Ok(None),
            }
        }
    }

    async fn write(&self, of: &Delivered, evals: Vec<Evaluation>) -> Result<(), String> {
        self.write_of(of.eval.id, of.token, of.eval.modify_index, evals).await
    }

    async fn submit(&self, of: &Delivered, plan: Plan) -> Result<PlanResult, Failure> {
        self.submit_of(of.eval.id, of.token, plan).await
    }

    async fn reblock(&self, of: &Delivered, eval: Arc<Evaluation>) -> Result<(), String> {
        self.reblock_of(of.token, eval)
    }

    async fn answer(&self, of: &Delivered, answer: Answer) -> Result<(), String> {
        self.answer_of(of.eval.id, of.token, answer)
    }

    fn is_over(&self) -> bool {
        self.term.is_over()
    }
}

impl Core {
    /// Wakes all workers that wait, here and on other servers, if an evaluation is ready. All of them, because a server
    /// may have workers for some types only.
    pub(crate) fn wake_workers(&self) {
        if self.queues().broker.has_any_ready() {
            self.leader.work.notify_waiters();
        }
    }
}
