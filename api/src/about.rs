//! Answers about this process's agent over the node RPC: its machine, its profiles, its log. The caller's rights are
//! checked before; HTTP has forms of its own for the same facts.

use std::pin::pin;

use bytes::Bytes;
use futures_util::StreamExt;
use songline_rpc::{AskMonitor, AskProfile, Profile, RpcError, StreamFrame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;
use crate::http::{host, monitor, pprof};
use crate::monitor::{Monitor, level_named};

/// Number of frames that wait for a slow reader. Log lines beyond that are dropped.
const FRAMES_MAX: usize = 16;

/// Facts of the machine, as the JSON of `HostData`.
pub async fn host() -> Result<Bytes, RpcError> {
    let data = host::data().await.map_err(coded)?;
    serde_json::to_vec(&data).map(Bytes::from).map_err(|error| RpcError::remote(error.to_string()))
}

/// A profile by its name in the HTTP path.
pub async fn profile(ask: &AskProfile) -> Result<Profile, RpcError> {
    let content = pprof::profile(ask).await.map_err(coded)?;
    let headers = content.headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    Ok(Profile { headers, payload: content.payload.into() })
}

/// Log lines from now on, until the receiver is dropped or `closing` is cancelled.
pub fn log(
    ask: &AskMonitor,
    closing: CancellationToken,
) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
    let level = match ask.level.as_str() {
        "" => tracing::Level::INFO,
        name => level_named(name)
            .ok_or_else(|| RpcError::Coded { code: 400, text: format!("Unknown log level: {name}") })?,
    };
    let lines = Monitor::of_this_process().listen(level);
    let frames = monitor::framed(lines, monitor::shown(ask.json, ask.location), closing);
    let (to, receiver) = mpsc::channel(FRAMES_MAX);
    tokio::spawn(async move {
        let mut frames = pin!(frames);
        while let Some(frame) = frames.next().await {
            if to.send(Ok(frame)).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

fn coded(error: ApiError) -> RpcError {
    RpcError::Coded { code: error.code.as_u16(), text: error.text.into_owned() }
}
