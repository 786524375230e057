//! Scheduler workers of the server that receives the request: their activity, number and evaluation types.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use songline_lang::acl::Access;
use songline_lang::go_json;

use crate::caller::{AuthError, denied};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::gate::NOT_A_SECRET_ID;
use crate::http::mux::{Methods, Mux};
use crate::server::{CORE_SCHEDULER, SCHEDULERS, Schedules};

pub(super) fn routes<S: Schedules>(mux: &mut Mux<S>) {
    let (read, write) = (Capability::AgentLate(Access::Read), Capability::AgentLate(Access::Write));
    mux.add(Methods::Get, "/v1/agent/schedulers", "", read, |call| Box::pin(show(call)));
    mux.add(Methods::Get, "/v1/agent/schedulers/config", "", read, |call| Box::pin(config(call)));
    mux.add(Methods::Write, "/v1/agent/schedulers/config", "", write, |call| Box::pin(set(call)));
}

/// Answer of `agent/schedulers`: the workers of this server.
#[derive(Serialize)]
struct WorkersInfo<'a> {
    server_id: &'a str,
    schedulers: Vec<WorkerInfo<'a>>,
}

#[derive(Serialize)]
struct WorkerInfo<'a> {
    id: String,
    enabled_schedulers: &'a [&'static str],
    started: String,
    status: &'static str,
    workload_status: &'static str,
}

/// Answer of `agent/schedulers/config`: number of workers, and the evaluation types that they take.
#[derive(Serialize)]
struct ConfigResponse<'a> {
    server_id: &'a str,
    num_schedulers: usize,
    enabled_schedulers: &'a [&'static str],
}

/// Body of a change of the workers. An answer may be sent back unchanged, so its server id is
/// accepted and ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "AgentSchedulerWorkerConfigRequest")]
struct ConfigRequest {
    num_schedulers: i64,
    enabled_schedulers: Vec<String>,
}

/// Checks access to agents. These routes have their own errors for tokens that are unknown or no UUIDs.
fn require<S>(call: &Call<S>, access: Access) -> Result<(), ApiError> {
    match call.authenticated() {
        Ok(caller) if caller.is_workload() => Err(ApiError::internal(NOT_A_SECRET_ID)),
        Ok(caller) if caller.acl().agent(access) => Ok(()),
        Ok(caller) if caller.is_node() => Err(ApiError::internal("ACL token not found")),
        Ok(_) => Err(denied()),
        Err(AuthError::Unknown) => Err(ApiError::internal("ACL token not found")),
        Err(AuthError::BadIdentity(_)) => Err(ApiError::internal(NOT_A_SECRET_ID)),
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}

async fn show<S: Schedules>(call: Call<S>) -> Result<Response, ApiError> {
    require(&call, Access::Read)?;
    let pool = call.server.scheduler_pool();
    // A surplus worker that finishes its evaluation is no longer one of the pool.
    let schedulers = pool.workers.iter().filter(|worker| !worker.stopping).map(|worker| WorkerInfo {
        id: worker.id.to_string(),
        enabled_schedulers: &pool.enabled,
        started: worker.started.to_string(),
        status: "Started",
        workload_status: worker.doing,
    });
    call.plain(&WorkersInfo { server_id: &call.server.info().name, schedulers: schedulers.collect() })
}

fn answer<S: Schedules>(call: &Call<S>) -> Result<Response, ApiError> {
    let pool = call.server.scheduler_pool();
    let (server_id, enabled_schedulers) = (call.server.info().name.as_str(), pool.enabled.as_slice());
    call.plain(&ConfigResponse { server_id, num_schedulers: pool.count, enabled_schedulers })
}

async fn config<S: Schedules>(call: Call<S>) -> Result<Response, ApiError> {
    require(&call, Access::Read)?;
    answer(&call)
}

async fn set<S: Schedules>(mut call: Call<S>) -> Result<Response, ApiError> {
    require(&call, Access::Write)?;
    let names = go_json::Names { package: "agent", ..go_json::Names::default() };
    let request: ConfigRequest = call
        .json_named(names)
        .await
        .map_err(|error| ApiError::bad_request(format!("Invalid request: {}", error.text)))?;
    let invalid = || ApiError::bad_request("Invalid request");
    let count = usize::try_from(request.num_schedulers).map_err(|_| invalid())?;
    let known = |name: &String| SCHEDULERS.iter().copied().find(|known| known == name);
    // Their order and repetitions say nothing, but are shown as they were given.
    let enabled =
        request.enabled_schedulers.iter().map(|name| known(name).ok_or_else(invalid)).collect::<Result<Vec<_>, _>>()?;
    // The type for the servers' own chores is required: without it, nothing would ever be garbage collected.
    if !enabled.contains(&CORE_SCHEDULER) {
        return Err(invalid());
    }
    call.server.set_scheduler_pool(count, enabled);
    answer(&call)
}
