//! `at_index` and `at_time`: reads of a past state. Handlers need not know: they read the view of their call.
//!
//! A handler that has not read that view would answer about the present, so its answer is discarded.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use songline_events::past::{Past, PastError};
use songline_model::Time;
use songline_projections::State;

use crate::error::ApiError;
use crate::http::call::{Call, set_index};
use crate::http::mux::Handler;
use crate::http::params::ReadParams;
use crate::http::when::{PastView, When, asked};
use crate::server::Reads;

/// Longest wait for the object history, and for the event history after it, to catch up with the state.
const RECORD_WAIT: Duration = Duration::from_secs(10);
/// Response header with the index from which on the answer is complete.
const COMPLETE_FROM: HeaderName = HeaderName::from_static("x-songline-complete-from");
/// Routes about this agent, a node or the log, which are not reads of the state.
const NOT_OF_THE_STATE: [&str; 8] = [
    "/v1/agent/",
    "/v1/client/",
    "/v1/event/",
    "/v1/metrics",
    "/v1/operator/raft/",
    "/v1/operator/snapshot",
    "/v1/status/",
    "/v1/system/",
];

/// Runs the handler, on a past state if the query names one.
pub(super) async fn run<S: Reads>(handler: Handler<S>, mut call: Call<S>) -> Result<Response, ApiError> {
    let Some(when) = asked(call.query())? else { return handler(call).await };
    let is_read = call.method == Method::GET || call.path.starts_with("/v1/search");
    if !is_read || NOT_OF_THE_STATE.iter().any(|root| call.path.starts_with(root)) {
        return Err(not_a_read());
    }
    if call.query().get("index").is_some_and(|index| !index.is_empty() && index != "0") {
        return Err(ApiError::bad_request(
            "a past state does not change: index cannot be combined with at_index or at_time",
        ));
    }
    // Past states take work to make, so a capability that the handler checks late is checked before.
    call.demand()?;
    let state = find(&call, when).await?;
    let index = state.applied_index();
    let view = Arc::new(PastView::new(state));
    call.past = Some(Arc::clone(&view));
    let mut response = handler(call).await.map_err(|error| ApiError { index: error.index.map(|_| index), ..error })?;
    if !view.is_seen() {
        return Err(not_a_read());
    }
    set_index(&mut response, index);
    Ok(response)
}

fn not_a_read() -> ApiError {
    ApiError::bad_request("at_index and at_time are for reads of the state, and this request is none")
}

/// The server's past. Refuses the request when the server keeps none.
pub(super) fn past_of<S: Reads>(server: &S) -> Result<&dyn Past, ApiError> {
    server.past().ok_or_else(|| ApiError::not_built("history on this server"))
}

/// The server's past, with a view whose entries the object history names: the newest view that the caller wants, or the
/// past one that the request names.
pub(super) async fn recorded<'a, S: Reads>(
    call: &'a Call<S>,
    params: &ReadParams,
) -> Result<(&'a dyn Past, Arc<State>), ApiError> {
    let past = past_of(&*call.server)?;
    if !params.stale && call.past.is_none() {
        call.server.read_barrier().await?;
    }
    let view = call.view();
    await_record_of(past, view.applied_index()).await?;
    Ok((past, view))
}

/// As [`recorded`], and the event history has the rows of these entries: changes of objects are read from both.
pub(super) async fn recorded_with_rows<'a, S: Reads>(
    call: &'a Call<S>,
    params: &ReadParams,
) -> Result<(&'a dyn Past, Arc<State>), ApiError> {
    let (past, view) = recorded(call, params).await?;
    let index = view.applied_index();
    if past.events().reach(index, RECORD_WAIT).await { Ok((past, view)) } else { Err(not_recorded(index)) }
}

/// Index from which on the changes of objects are complete: the record names them, and the event history has their
/// rows.
pub(super) fn changes_complete_from(past: &dyn Past) -> u64 {
    past.object_history().oldest().max(past.events().oldest())
}

/// Sets the header with the index from which on an answer is complete. While the record is being refilled, answers
/// lack older entries.
pub(super) fn say_complete_from(mut response: Response, index: u64) -> Response {
    response.headers_mut().insert(COMPLETE_FROM, HeaderValue::from(index));
    response
}

/// Waits until the object history covers `index`.
async fn await_record_of(past: &dyn Past, index: u64) -> Result<(), ApiError> {
    if past.object_history().reach(index, RECORD_WAIT).await { Ok(()) } else { Err(not_recorded(index)) }
}

fn not_recorded(index: u64) -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("the record of what entries did has not come to index {index} yet"),
    )
}

async fn find<S: Reads>(call: &Call<S>, when: When) -> Result<Arc<State>, ApiError> {
    let server = &*call.server;
    let past = past_of(server)?;
    let index = match when {
        When::Index(index) => index,
        When::Time(at) => index_at(server, past, at).await?,
    };
    Ok(past.state_at(index).await?)
}

/// Index of the last entry that is not later than `at`.
async fn index_at<S: Reads>(server: &S, past: &dyn Past, at: Time) -> Result<u64, ApiError> {
    let newest = server.view().applied_index();
    await_record_of(past, newest).await?;
    let object_history = Arc::clone(past.object_history());
    let first_after = tokio::task::spawn_blocking(move || object_history.first_after(at)).await;
    let first_after = first_after.map_err(|error| PastError::Failed(error.to_string()))?;
    let first_after = first_after.map_err(|error| PastError::Failed(error.to_string()))?;
    let oldest = past.object_history().oldest();
    match first_after {
        Some(index) if index <= oldest && oldest > 1 => Err(ApiError::new(
            StatusCode::GONE,
            format!("{at} is before the oldest retained index {oldest}, which is known by its time"),
        )),
        Some(index) => Ok(index.saturating_sub(1)),
        None if at > server.now() => Err(ApiError::new(StatusCode::NOT_FOUND, format!("{at} has not come yet"))),
        None => Ok(newest),
    }
}
