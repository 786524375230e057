//! Blocking queries: a read waits until its index exceeds the given one, its time is up, or the server shuts down.

use std::time::Duration;

use songline_events::watch::WatchKey;
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

/// Runs `query` on the newest view, and again after changes of `keys` while its index does not exceed the given one.
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
    let found = query(&server.view())?;
    if params.min_index == 0 || found.index > params.min_index {
        return Ok(found);
    }
    let watcher = server.watches().register(keys);
    let deadline = tokio::time::sleep(with_jitter(server, params.wait));
    tokio::pin!(deadline);
    loop {
        // The watcher was registered before: a change after this view leaves a permit, so no wake-up is lost.
        let found = query(&server.view())?;
        if found.index > params.min_index {
            return Ok(found);
        }
        // A waiting query keeps no rows: others may replace or delete them meanwhile.
        drop(found);
        tokio::select! {
            () = watcher.changed() => call.recheck()?,
            () = &mut deadline => {
                call.recheck()?;
                return query(&server.view());
            }
            () = server.shutdown().cancelled() => return query(&server.view()),
        }
    }
}

/// Adds up to a sixteenth, so that many clients do not return at the same moment.
fn with_jitter(server: &impl Agent, wait: Duration) -> Duration {
    let extra_ms = u64::try_from(wait.as_millis() / 16).unwrap_or(0);
    wait + Duration::from_millis(server.chance(0..extra_ms))
}
