//! Blocking queries: a read waits until its index exceeds the given one, the whole state is replaced, its time is up,
//! or the server shuts down.

use std::time::Duration;

use songline_events::watch::{WatchKey, Watcher};
use songline_projections::State;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::params::ReadParams;
use crate::server::{Agent, Reads};

/// Result of a query, and its index.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// Index for the next blocking query.
    pub index: u64,
    /// Result of the query.
    pub value: T,
}

/// Runs `query` on the newest view, and again after changes of `keys` while its index does not exceed the given one. A
/// restore replaces the state and may set the index back, so after it the result counts whatever its index.
/// The view is as current as the request demands: that was ensured before any handler ran.
pub async fn run<S, T, Q>(call: &Call<S>, params: &ReadParams, keys: &[WatchKey], query: Q) -> Result<At<T>, ApiError>
where
    S: Reads,
    Q: Fn(&State) -> Result<At<T>, ApiError>,
{
    if let Some(past) = call.past_view() {
        return query(&past);
    }
    let server = &*call.server;
    if params.min_index == 0 {
        return query(&server.view());
    }
    // Registered before the first view is taken: a change after the view leaves a permit, so no wake-up is lost.
    let watcher = server.watches().register(keys);
    if let Some(found) = news(server, &watcher, params.min_index, &query)? {
        return Ok(found);
    }
    let deadline = tokio::time::sleep(with_jitter(server, params.wait));
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            () = watcher.changed() => call.recheck()?,
            () = &mut deadline => {
                call.recheck()?;
                return query(&server.view());
            }
            () = server.shutdown().cancelled() => return query(&server.view()),
        }
        if let Some(found) = news(server, &watcher, params.min_index, &query)? {
            return Ok(found);
        }
    }
}

/// Result on the newest view. `None`: the query goes on waiting, and keeps no rows, which others may replace or delete.
fn news<S, T, Q>(server: &S, watcher: &Watcher<'_>, min_index: u64, query: &Q) -> Result<Option<At<T>>, ApiError>
where
    S: Reads,
    Q: Fn(&State) -> Result<At<T>, ApiError>,
{
    // Asked before the view is taken: the new state is published before its watchers are told of it.
    let is_state_replaced = watcher.is_state_replaced();
    let found = query(&server.view())?;
    Ok((is_state_replaced || found.index > min_index).then_some(found))
}

/// Adds up to a sixteenth, so that many clients do not return at the same moment.
fn with_jitter(server: &impl Agent, wait: Duration) -> Duration {
    let extra_ms = u64::try_from(wait.as_millis() / 16).unwrap_or(0);
    wait + Duration::from_millis(server.chance(0..extra_ms))
}
