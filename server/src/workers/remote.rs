//! A leader in another server as the source of evaluations: the calls of its `Eval` and `Plan` methods over the servers'
//! channel. The leader's part is in `rpc/evals.rs`.
//!
//! A call ends when another server leads or this one shuts down. The delivery is then lost on this side: the leader
//! takes it back when the session ends or the delivery's timeout passes.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use songline_api::Leader;
use songline_model::{Blob, Evaluation, JobType, Plan, PlanResult, Str, Time};
use songline_rpc::message::{
    Call, EvalAck, EvalDequeue, EvalNack, EvalReblock, EvalUpdate, PlanSubmit, SCHEDULER_VERSION,
};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_scheduler::broker::Token;

use super::Failure;
use super::source::{Answer, DecisionClock, Delivered, Source};
use crate::Core;
use crate::panics::Panicked;

/// Longest wait of a worker at the leader. Longer saves calls of idle servers; a worker that is to stop waits as long.
pub(crate) const POLL_WAIT: Duration = Duration::from_secs(5);
/// Time that an answer may take beyond the leader's own wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Timeout of a write or a plan: longer than the leader needs under any load, shorter than a worker may be idle.
const WORK_WITHIN: Duration = Duration::from_secs(60);

/// A leader that another server is.
pub(crate) struct Remote {
    core: Arc<Core>,
    address: Arc<str>,
}

impl Remote {
    pub(crate) fn new(core: &Arc<Core>, address: Arc<str>) -> Self {
        Self { core: Arc::clone(core), address }
    }

    /// Calls the leader, as long as it leads.
    async fn call<T: Call>(&self, ask: &T, within: Duration) -> Result<T::Answer, String> {
        let leader = self.leader();
        tokio::select! {
            biased;
            answer = self.last_call(ask, within) => answer,
            () = self.core.leader_other_than(&leader) => Err("another server leads now".to_owned()),
        }
    }

    /// Calls the server also when another one leads by now.
    async fn last_call<T: Call>(&self, ask: &T, within: Duration) -> Result<T::Answer, String> {
        let body = to_vec(ask).map_err(|error| error.to_string())?;
        let answer = tokio::select! {
            biased;
            answer = self.core.connections.pool.call(&self.address, T::METHOD, &body) => answer,
            () = self.core.shutdown.cancelled() => return Err("this server shuts down".to_owned()),
            () = tokio::time::sleep(within) => return Err(format!("no answer in {} s", within.as_secs())),
        };
        from_slice(&answer.map_err(|error| error.to_string())?).map_err(|error| error.on_wire(0))
    }

    fn leader(&self) -> Leader {
        Leader::At(Arc::clone(&self.address))
    }

    fn region(&self) -> Str {
        self.core.facts.info.region.as_str().into()
    }
}

impl Source for Remote {
    async fn dequeue(&self, types: &[JobType]) -> Result<Option<Delivered>, String> {
        let ask = EvalDequeue {
            schedulers: Some(types.iter().map(|kind| kind.as_str().into()).collect()),
            scheduler_version: SCHEDULER_VERSION,
            timeout: POLL_WAIT.into(),
            region: self.region(),
            ..EvalDequeue::default()
        };
        let answer = self.call(&ask, POLL_WAIT + ANSWER_WITHIN).await?;
        if answer.eval.0.is_empty() {
            return Ok(None);
        }
        let at = self.core.world().steady();
        let eval: Arc<Evaluation> = Arc::new(decode(&answer.eval)?);
        let (raft_term, token) = parse_name(&answer.token)?;
        let clock = DecisionClock::Told { time: Time::from_nanos(answer.time), at };
        Ok(Some(Delivered { eval, raft_term, token, needed: answer.wait_index, clock }))
    }

    async fn write(&self, of: &Delivered, evals: Vec<Evaluation>) -> Result<(), String> {
        let ask = EvalUpdate {
            eval_id: of.eval.id,
            eval_token: name_of(of),
            evals: encode(&evals)?,
            cause_index: of.eval.modify_index,
            region: self.region(),
            ..EvalUpdate::default()
        };
        self.call(&ask, WORK_WITHIN).await.map(drop)
    }

    async fn submit(&self, of: &Delivered, plan: Plan) -> Result<PlanResult, Failure> {
        let ask = PlanSubmit {
            eval_id: of.eval.id,
            eval_token: name_of(of),
            plan: encode(&plan)?,
            region: self.region(),
            ..PlanSubmit::default()
        };
        let answer = self.call(&ask, WORK_WITHIN).await?;
        match answer.panicked {
            Some(message) => Err(Failure::Panicked(Panicked(message.to_string()))),
            None => Ok(decode(&answer.result)?),
        }
    }

    async fn reblock(&self, of: &Delivered, eval: Arc<Evaluation>) -> Result<(), String> {
        let ask = EvalReblock {
            eval_id: of.eval.id,
            eval_token: name_of(of),
            eval: encode(&*eval)?,
            region: self.region(),
            ..EvalReblock::default()
        };
        self.call(&ask, WORK_WITHIN).await.map(drop)
    }

    async fn answer(&self, of: &Delivered, answer: Answer) -> Result<(), String> {
        let (eval_id, token, region) = (of.eval.id, name_of(of), self.region());
        let panicked = match answer {
            Answer::Done => {
                let ask = EvalAck { eval_id, token, region, ..EvalAck::default() };
                return self.last_call(&ask, ANSWER_WITHIN).await.map(drop);
            }
            Answer::Failed => None,
            Answer::Panicked(message) => Some(message.into()),
        };
        let ask = EvalNack { eval_id, token, panicked, region, ..EvalNack::default() };
        self.last_call(&ask, ANSWER_WITHIN).await.map(drop)
    }

    fn is_over(&self) -> bool {
        self.core.leader() != self.leader()
    }
}

/// Name of a delivery among all servers: a raft term has one leader, and a leader's tokens do not repeat.
pub(crate) fn name_of(of: &Delivered) -> Str {
    format!("{}-{}", of.raft_term, of.token.number()).into()
}

/// Raft term and token of a delivery's name.
pub(crate) fn parse_name(name: &str) -> Result<(u64, Token), String> {
    let parsed = name.split_once('-').and_then(|(term, token)| Some((term.parse().ok()?, token.parse().ok()?)));
    parsed.map(|(term, token)| (term, Token::of(token))).ok_or_else(|| format!("not the token of a delivery: {name:?}"))
}

/// A row or a plan in the log's msgpack.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Blob, String> {
    rmp_serde::to_vec_named(value).map(Blob).map_err(|error| error.to_string())
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &Blob) -> Result<T, String> {
    rmp_serde::from_slice(&bytes.0).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_delivery_is_its_term_and_token() {
        let (eval, clock) = (Arc::default(), DecisionClock::Own);
        let delivered = Delivered { eval, raft_term: 7, token: Token::of(12), needed: 0, clock };
        assert_eq!(parse_name(&name_of(&delivered)), Ok((7, Token::of(12))));
        for wrong in ["", "7", "7-", "-1", "7-1-1", "x-1"] {
            assert_eq!(parse_name(wrong), Err(format!("not the token of a delivery: {wrong:?}")));
        }
    }
}
