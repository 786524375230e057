//! The leader's answers to scheduler workers of other servers. Rows and plans are checked where the leader's own workers
//! give theirs (`workers/source.rs`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use songline_model::{Blob, EvalId, Evaluation, JobType, Plan};
use songline_rpc::RpcError;
use songline_rpc::message::{
    Call, Empty, EvalAck, EvalDequeue, EvalDequeueAnswer, EvalNack, EvalReblock, EvalUpdate, PlanSubmit,
    PlanSubmitAnswer, SCHEDULER_VERSION,
};
use songline_rpc::msgpack::from_slice;
use songline_rpc::net::{Caller, Refusal};
use songline_scheduler::broker::{BrokerError, Token};

use super::super::Core;
use super::super::panics::Panicked;
use super::super::workers::Failure;
use super::super::workers::leases::has_ended;
use super::super::workers::pool::type_named;
use super::super::workers::remote::{POLL_WAIT, decode, encode, name_of, parse_name};
use super::super::workers::source::{Answer, Own, Source};
use super::dispatch::NodeRpc;
use super::reads;

impl NodeRpc {
    /// Answers a worker of another server.
    pub(super) async fn of_worker(&self, method: &str, body: &[u8], caller: &Caller) -> Result<Bytes, Refusal> {
        if !caller.is_server {
            return Err(RpcError::remote("Permission denied").into());
        }
        match method {
            EvalDequeue::METHOD => self.dequeue(&from_slice(body)?, caller).await,
            EvalAck::METHOD => {
                let EvalAck { eval_id, token, .. } = from_slice(body)?;
                self.answered(eval_id, &token, Answer::Done)
            }
            EvalNack::METHOD => {
                let EvalNack { eval_id, token, panicked, .. } = from_slice(body)?;
                let answer = panicked.map_or(Answer::Failed, |message| Answer::Panicked(message.to_string()));
                self.answered(eval_id, &token, answer)
            }
            EvalUpdate::METHOD => {
                let EvalUpdate { eval_id, eval_token, evals, cause_index, .. } = from_slice(body)?;
                let (own, token) = self.delivery(&eval_token)?;
                let evals: Vec<Evaluation> = decode(&evals).map_err(RpcError::remote)?;
                own.write_of(eval_id, token, cause_index, evals).await.map_err(RpcError::remote)?;
                done()
            }
            EvalReblock::METHOD => {
                let EvalReblock { eval_token, eval, .. } = from_slice(body)?;
                let (own, token) = self.delivery(&eval_token)?;
                own.reblock_of(token, Arc::new(decode(&eval).map_err(RpcError::remote)?)).map_err(RpcError::remote)?;
                done()
            }
            _ => self.submit(from_slice(body)?, caller).await,
        }
    }

    /// Waits for an evaluation. A caller that goes meanwhile gets none.
    async fn dequeue(&self, ask: &EvalDequeue, caller: &Caller) -> Result<Bytes, Refusal> {
        let names = ask.schedulers.as_deref().unwrap_or_default();
        if names.is_empty() {
            return Err(RpcError::remote("dequeue requires at least one scheduler type").into());
        }
        let version = ask.scheduler_version;
        if version != SCHEDULER_VERSION {
            let text = format!(
                "dequeue disallowed: calling scheduler version is {version}; leader version is {SCHEDULER_VERSION}"
            );
            return Err(RpcError::Remote(text).into());
        }
        let types: Vec<JobType> = names.iter().filter_map(|name| type_named(name)).collect();
        let term = self.core.term().ok_or(RpcError::NoLeader)?;
        let own = Own::new(&self.core, Arc::clone(&term), wait_of(ask));
        let delivered = tokio::select! {
            biased;
            () = caller.gone() => return Err(RpcError::Lost("the caller has gone".into()).into()),
            delivered = own.dequeue(&types) => delivered.map_err(RpcError::remote)?,
        };
        let Some(delivered) = delivered else {
            return if term.is_over() {
                Err(RpcError::NoLeader.into())
            } else {
                reads::encode(&EvalDequeueAnswer::default())
            };
        };
        if let Some(session) = &caller.session {
            self.core.lease(session, delivered.eval.id, delivered.token);
        }
        // A worker of this server would see everything that is applied here by now.
        let wait_index = self.core.view().applied_index().max(delivered.needed);
        let (token, time) = (name_of(&delivered), self.core.now().nanos());
        let eval = encode(&*delivered.eval).map_err(RpcError::remote)?;
        reads::encode(&EvalDequeueAnswer { eval, token, wait_index, time })
    }

    /// Submits a plan in a task of its own: the delivery's timeout runs again afterwards, whether or not the caller
    /// still waits.
    async fn submit(&self, ask: PlanSubmit, caller: &Caller) -> Result<Bytes, Refusal> {
        let PlanSubmit { eval_id, eval_token, plan, .. } = ask;
        let (own, token) = self.delivery(&eval_token)?;
        let plan: Plan = decode(&plan).map_err(RpcError::remote)?;
        if plan.eval_id != eval_id {
            return Err(RpcError::remote("the plan is of another evaluation").into());
        }
        let (core, session) = (Arc::clone(&self.core), caller.session.clone());
        let submitted = tokio::spawn(async move {
            let answer = own.submit_of(eval_id, token, plan).await;
            if has_ended(session.as_ref()) {
                take_back(&core, eval_id, token);
            }
            answer
        });
        let answer = submitted.await.map_err(|error| RpcError::remote(error.to_string()))?;
        let answer = match answer {
            Ok(result) => {
                PlanSubmitAnswer { result: encode(&result.in_short()).map_err(RpcError::remote)?, panicked: None }
            }
            Err(Failure::Panicked(Panicked(message))) => {
                PlanSubmitAnswer { result: Blob::default(), panicked: Some(message.into()) }
            }
            Err(error @ (Failure::Told(_) | Failure::Late(_))) => {
                return Err(RpcError::remote(error.to_string()).into());
            }
        };
        reads::encode(&answer)
    }

    fn answered(&self, id: EvalId, name: &str, answer: Answer) -> Result<Bytes, Refusal> {
        let (own, token) = self.delivery(name)?;
        self.core.leader.leases.remove(id, token);
        own.answer_of(id, token, answer).map_err(RpcError::remote)?;
        done()
    }

    /// The queues that made a delivery, and its token. Refuses deliveries of other terms.
    fn delivery(&self, name: &str) -> Result<(Own, Token), RpcError> {
        let (raft_term, token) = parse_name(name).map_err(RpcError::remote)?;
        let term = self.core.term().ok_or(RpcError::NoLeader)?;
        if term.raft_term() != raft_term {
            return Err(RpcError::remote(BrokerError::TokenMismatch.to_string()));
        }
        Ok((Own::new(&self.core, term, Duration::ZERO), token))
    }
}

/// Takes a delivery back whose worker is out of reach.
fn take_back(core: &Core, id: EvalId, token: Token) {
    if core.queues().broker.nack_lost(id, token, core.pace()) {
        core.leader.deadlines.notify_one();
    }
}

fn wait_of(ask: &EvalDequeue) -> Duration {
    ask.timeout.to_std().min(POLL_WAIT)
}

fn done() -> Result<Bytes, Refusal> {
    reads::encode(&Empty::default())
}
