//! Writes and reads of a node's own HTTP interface that the node forwards, and a node's drain of itself. HTTP
//! authorizes all of them but that drain.

use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use songline_api::Counted;
use songline_api::caller::Identity;
use songline_commands::{Actor, Cause, Kind};
use songline_lang::acl::{Access, NamespaceCapability};
use songline_model::{DEFAULT_NAMESPACE, Job};
use songline_rpc::RpcError;
use songline_rpc::message::{
    Call, CsiVolumeClaimRequest, CsiVolumeUnpublish, JobEvaluations, JobEvaluationsAnswer, JobGetJob, JobGetJobAnswer,
    JobList, JobListAnswer, JobRegister, JobRegisterAnswer, NodeUpdateDrain, NodeUpdateDrainAnswer, RequestMeta,
    ServiceDelete, VariableDecrypted, VariablesApply, VariablesApplyAnswer, Written,
};
use songline_rpc::msgpack::{RawValue, from_slice};
use songline_rpc::net::Refusal;

use super::super::services;
use super::dispatch::NodeRpc;
use super::forwarded::job_body;
use super::reads::{encode, escape, read};

/// Methods that write.
pub(super) const WRITES: [&str; 5] =
    ["Node.UpdateDrain", "Job.Register", "Variables.Apply", CsiVolumeClaimRequest::METHOD, CsiVolumeUnpublish::METHOD];

/// Longest HTTP answer to a write, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// HTTP's answer to a write.
struct Done {
    status: StatusCode,
    body: Bytes,
}

/// Body of a job registration over HTTP.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Registration {
    job: serde_json::Value,
    enforce_index: bool,
    job_modify_index: u64,
    preserve_counts: bool,
    policy_override: bool,
    eval_priority: i64,
}

impl NodeRpc {
    /// Answers reads of jobs.
    pub(super) async fn of_jobs(&self, method: &str, body: &[u8], meta: &RequestMeta) -> Result<Bytes, Refusal> {
        match method {
            "Job.GetJob" => {
                let ask: JobGetJob = from_slice(body)?;
                let found = self.ask(&format!("/v1/job/{}", escape(&ask.job_id)), &[], meta).await?;
                let row = found.body.and_then(|_| self.core.view().job(namespace(meta), &ask.job_id).cloned());
                let job = row.map(|row| Job::clone(&row));
                encode(&JobGetJobAnswer { job, index: found.index, known_leader: true, ..JobGetJobAnswer::default() })
            }
            "Job.Evaluations" => {
                let ask: JobEvaluations = from_slice(body)?;
                let found = self.ask(&format!("/v1/job/{}/evaluations", escape(&ask.job_id)), &[], meta).await?;
                let evaluations = Some(read(&found)?);
                encode(&JobEvaluationsAnswer {
                    evaluations,
                    index: found.index,
                    known_leader: true,
                    ..JobEvaluationsAnswer::default()
                })
            }
            _ => {
                let ask: JobList = from_slice(body)?;
                let with_meta = ask.fields.is_some_and(|fields| fields.get("Meta").is_some_and(|wanted| *wanted));
                let per_page = ask.per_page.to_string();
                let query = [
                    ("prefix", &*ask.prefix),
                    ("filter", &*ask.filter),
                    ("per_page", &*per_page),
                    ("next_token", &*ask.next_token),
                    ("meta", if with_meta { "true" } else { "" }),
                ];
                let found = self.ask("/v1/jobs", &query, meta).await?;
                let stubs: Value = read(&found)?;
                let jobs = RawValue::of(&stubs).map_err(|error| RpcError::remote(error.to_string()))?;
                let next_token = found.next.as_str().into();
                encode(&JobListAnswer {
                    jobs,
                    index: found.index,
                    known_leader: true,
                    next_token,
                    ..JobListAnswer::default()
                })
            }
        }
    }

    /// Carries out a write. The write continues if the caller stops waiting for the answer.
    pub(super) async fn write(&self, method: &str, body: &[u8], meta: &RequestMeta) -> Result<Bytes, Refusal> {
        match method {
            "Node.UpdateDrain" => self.drain(from_slice(body)?).await,
            "Job.Register" => self.register_job(from_slice(body)?, meta).await,
            CsiVolumeClaimRequest::METHOD => self.claim(from_slice(body)?, meta).await,
            CsiVolumeUnpublish::METHOD => self.unpublish(from_slice(body)?, meta).await,
            _ => self.apply_variable(from_slice(body)?, meta).await,
        }
    }

    /// Drains a node on its own request: it is about to stop.
    async fn drain(&self, ask: NodeUpdateDrain) -> Result<Bytes, Refusal> {
        let denied = || RpcError::remote("Permission denied");
        let known = self.callers.authenticate(&*self.core, ask.auth_token.reveal()).map_err(|_| denied())?;
        let itself = matches!(known.identity(), Identity::Node(node) if *node == ask.node_id);
        if !itself && !known.acl().node(Access::Write) {
            return Err(denied().into());
        }
        if ask.node_event.is_some() {
            return Err(RpcError::remote("node event must not be set").into());
        }
        let became_eligible = ask.mark_eligible && ask.drain_strategy.is_none();
        let actor = if itself { Actor::Node(ask.node_id) } else { known.actor() };
        let command = self.core.drain_command(ask.node_id, ask.drain_strategy, ask.mark_eligible, ask.meta, &actor)?;
        let index = self.core.propose_as(actor, None, command).await?;
        if became_eligible {
            self.core.propose_node_evals(ask.node_id, Cause::new(index, Kind::NodeUpdateDrain)).await?;
        }
        encode(&NodeUpdateDrainAnswer { node_modify_index: index, index, ..NodeUpdateDrainAnswer::default() })
    }

    /// Deletes a node's service registration, for a caller that is not a node.
    pub(super) async fn delete_service(&self, ask: ServiceDelete) -> Result<Bytes, Refusal> {
        let denied = || RpcError::remote("Permission denied");
        let known = self.callers.authenticate(&*self.core, ask.auth_token.reveal()).map_err(|_| denied())?;
        let namespace = if ask.namespace.is_empty() { DEFAULT_NAMESPACE.into() } else { ask.namespace };
        if !known.acl().namespace(&namespace, NamespaceCapability::SubmitJob) {
            return Err(denied().into());
        }
        let index = services::delete_as(&self.core, known.actor(), namespace, ask.id).await?;
        encode(&Written { index })
    }

    async fn register_job(&self, ask: JobRegister, meta: &RequestMeta) -> Result<Bytes, Refusal> {
        let job = ask.job.as_ref().ok_or_else(|| RpcError::remote("missing job for registration"))?;
        let body = Registration {
            job: job_body(job)?,
            enforce_index: ask.enforce_index,
            job_modify_index: ask.job_modify_index,
            preserve_counts: ask.preserve_counts,
            policy_override: ask.policy_override,
            eval_priority: ask.eval_priority,
        };
        let done = self.send(Method::PUT, "/v1/jobs", "", &body, meta).await?;
        if done.status != StatusCode::OK {
            return Err(done.refused().into());
        }
        encode(&done.read::<JobRegisterAnswer>()?)
    }

    async fn apply_variable(&self, ask: VariablesApply, meta: &RequestMeta) -> Result<Bytes, Refusal> {
        let var = ask.var.unwrap_or_default();
        let path = format!("/v1/var/{}", escape(&var.path));
        let cas = format!("&cas={}", var.modify_index);
        let (method, cas) = match ask.op.as_str() {
            "set" => (Method::PUT, ""),
            "cas" => (Method::PUT, cas.as_str()),
            "delete" => (Method::DELETE, ""),
            "delete-cas" => (Method::DELETE, cas.as_str()),
            other => return Err(RpcError::remote(format!("invalid variable operation {other:?}")).into()),
        };
        let deletes = method == Method::DELETE;
        // HTTP needs the items only. They are secrets, and shown nowhere else.
        let items: BTreeMap<&str, &str> =
            var.items.iter().flatten().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        let done = self.send(method, &path, cas, &json!({ "Items": items }), meta).await?;
        let mut answer = VariablesApplyAnswer {
            op: ask.op,
            input: Some(var),
            index: self.core.view().applied_index(),
            ..VariablesApplyAnswer::default()
        };
        match done.status {
            StatusCode::OK | StatusCode::NO_CONTENT => {
                answer.result = "ok".into();
                answer.output = (!deletes).then(|| done.read::<VariableDecrypted>()).transpose()?;
            }
            StatusCode::CONFLICT => {
                answer.result = "conflict".into();
                answer.conflict = Some(done.read()?);
            }
            _ => return Err(done.refused().into()),
        }
        encode(&answer)
    }

    /// Writes through HTTP, in the caller's name.
    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &str,
        body: &impl Serialize,
        meta: &RequestMeta,
    ) -> Result<Done, RpcError> {
        let failed = |error: &dyn std::fmt::Display| RpcError::remote(error.to_string());
        let body = serde_json::to_vec(body).map_err(|error| failed(&error))?;
        let uri = format!("{path}?namespace={}{query}", escape(namespace(meta)));
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("x-nomad-token", meta.auth_token.reveal())
            .extension(Counted);
        let response = self.api.answer(request.body(Body::from(body)).map_err(|error| failed(&error))?).await;
        let status = response.status();
        let body = to_bytes(response.into_body(), ANSWER_BYTES_MAX).await.map_err(|error| failed(&error))?;
        Ok(Done { status, body })
    }
}

impl Done {
    fn refused(&self) -> RpcError {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        match self.status {
            StatusCode::FORBIDDEN | StatusCode::INTERNAL_SERVER_ERROR => RpcError::remote(text),
            other => RpcError::Coded { code: other.as_u16(), text },
        }
    }

    fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, RpcError> {
        serde_json::from_slice(&self.body).map_err(|error| RpcError::remote(error.to_string()))
    }
}

/// Namespace of a request.
pub(super) fn namespace(meta: &RequestMeta) -> &str {
    if meta.namespace.is_empty() { DEFAULT_NAMESPACE } else { meta.namespace.as_str() }
}

#[cfg(test)]
mod tests;
