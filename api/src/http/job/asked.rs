//! Shared parts of requests about a job: the namespace and the job that they name, and the evaluation that they ask
//! for.

use std::future::Future;

use axum::body::Body;
use axum::response::Response;
use parking_lot::Mutex;
use serde::Deserialize;
use songline_lang::acl::NamespaceCapability;
use songline_lang::go_json::{self, Names};
use songline_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, Job, JobKey, Str};

use super::regions;
use crate::error::ApiError;
use crate::http::ask_region::query_value;
use crate::http::call::Call;
use crate::http::params::{ReadParams, namespace};
use crate::server::{Agent, Regions};

/// Go's type names for bodies with a job, as error texts show them.
pub(super) const API: Names<'static> = Names {
    package: "api",
    root: None,
    fields: &[("ScalingPolicy.Min", "int64"), ("ScalingPolicy.Max", "int64"), ("SpreadTarget.Percent", "uint8")],
};

/// Key of the job that a read is about. `*` is no namespace here, so no job has such a key.
pub(super) fn key<S>(call: &Call<S>, params: &ReadParams) -> JobKey {
    JobKey::new(params.namespace.as_str(), call.id())
}

/// Fields of a write's body that the query may hold, too.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct WriteRequest {
    region: Str,
    namespace: Str,
}

/// Runs a write whose body may name its region and its namespace. The query takes precedence. Refuses a caller that has
/// none of `capabilities` in the namespace in which the handler acts.
pub(super) async fn where_body_says<S: Regions, F>(
    mut call: Call<S>,
    capabilities: &'static [NamespaceCapability],
    handler: impl FnOnce(Call<S>) -> F,
) -> Result<Response, ApiError>
where
    F: Future<Output = Result<Response, ApiError>>,
{
    let body = call.bytes().await?;
    // The handler refuses a malformed body. Until then the request is about the namespace of the query.
    let named: WriteRequest = go_json::from_slice(&body).unwrap_or_default();
    let own = &call.server.info().region;
    if call.query().text("region").is_empty() && !named.region.is_empty() && named.region.as_str() != own.as_str() {
        // The other region checks the caller.
        return regions::pass(&call, &named.region, body).await;
    }
    if call.query().text("namespace").is_empty() && !named.namespace.is_empty() {
        // The first value of a parameter counts. The handler reads the namespace from the query alone, so it cannot
        // act in another namespace than the checked one.
        call.query = format!("namespace={}&{}", query_value(&named.namespace), call.query);
    }
    call.require_in(&namespace(call.query()), capabilities)?;
    call.body = Mutex::new(Body::from(body));
    handler(call).await
}

/// Refuses an evaluation priority other than 0 or 1 to 100.
pub(super) fn check_priority(priority: i64) -> Result<(), ApiError> {
    if (0..=100).contains(&priority) {
        return Ok(());
    }
    Err(ApiError::bad_request("Eval priority must be between 1 and 100 inclusively"))
}

/// A new evaluation of a job.
pub(super) fn eval<S: Agent>(call: &Call<S>, job: &Job, priority: i64, triggered_by: EvalTrigger) -> Evaluation {
    let now = call.server.now();
    Evaluation {
        id: EvalId::from(call.fresh_uuid()),
        namespace: job.namespace.clone(),
        priority,
        kind: job.kind.clone(),
        triggered_by,
        job_id: job.id.clone(),
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    }
}
