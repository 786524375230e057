//! The event stream over the node RPC: the frames of HTTP's stream, each wrapped. The HTTP stream decides which
//! events a caller may see.

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use bytes::BytesMut;
use futures_util::StreamExt;
use songline_api::{Counted, OnlyNew};
use songline_events::hub::CLOSED;
use songline_model::{Blob, DEFAULT_NAMESPACE};
use songline_rpc::RpcError;
use songline_rpc::message::{EventJson, EventStream, EventStreamWrapper, StreamCall as _, StreamError};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::net::{Caller, Channel};

use super::dispatch::NodeRpc;
use super::reads::escape;

/// Longest text of a refusal that is returned, in bytes.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

impl NodeRpc {
    /// Answers an event stream until either side ends it.
    pub(super) async fn events(&self, mut channel: Channel, caller: &Caller) {
        if let Err(error) = self.event_frames(&mut channel, caller).await {
            let message = EventStreamWrapper { error: Some(StreamError::from(&error)), event: None };
            // The caller may have disconnected.
            let _ = say(&mut channel, &message).await;
        }
    }

    async fn event_frames(&self, channel: &mut Channel, caller: &Caller) -> Result<(), RpcError> {
        let lost = |error: std::io::Error| RpcError::Lost(error.to_string());
        let request = channel.next().await.map_err(lost)?.ok_or_else(|| RpcError::Lost("nothing was asked".into()))?;
        let ask: EventStream = from_slice(&request).map_err(|error| RpcError::remote(error.on_wire(0)))?;
        self.check_region(&ask.region)?;
        self.count_stream(EventStream::METHOD, &ask.auth_token, caller).await;
        let failed = |error: &dyn std::fmt::Display| RpcError::remote(error.to_string());
        let response = self.api.answer(request_of(&ask).map_err(|error| failed(&error))?).await;
        let status = response.status();
        if status != StatusCode::OK {
            let body =
                axum::body::to_bytes(response.into_body(), REFUSAL_BYTES_MAX).await.map_err(|error| failed(&error))?;
            return Err(RpcError::Coded { code: status.as_u16(), text: String::from_utf8_lossy(&body).into_owned() });
        }
        let mut frames = response.into_body().into_data_stream();
        let mut line = BytesMut::new();
        loop {
            let piece = tokio::select! {
                piece = frames.next() => piece,
                // Clients send nothing on an event stream, so any message ends it.
                _ = channel.next() => return Ok(()),
            };
            let Some(piece) = piece else { return Err(reason(&line)) };
            line.extend_from_slice(&piece.map_err(|error| failed(&error))?);
            // A frame is one line.
            while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                let frame = line.split_to(end + 1);
                let data = Some(Blob(frame[..end].to_vec()));
                let message = EventStreamWrapper { error: None, event: Some(EventJson { data }) };
                if say(channel, &message).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// The error that ends the stream: HTTP ends a plain stream with a text without a line feed.
fn reason(rest: &[u8]) -> RpcError {
    let text = if rest.is_empty() { CLOSED.to_owned() } else { String::from_utf8_lossy(rest).into_owned() };
    RpcError::Coded { code: StatusCode::INTERNAL_SERVER_ERROR.as_u16(), text }
}

/// The request over HTTP. A negative index, which asks for new events only, is no index there: HTTP answers one with an
/// error before the frames.
fn request_of(ask: &EventStream) -> Result<Request, axum::http::Error> {
    let request = Request::builder().uri(uri(ask)).header("x-nomad-token", ask.auth_token.reveal()).extension(Counted);
    let request = if ask.index < 0 { request.extension(OnlyNew) } else { request };
    request.body(Body::empty())
}

fn uri(ask: &EventStream) -> String {
    let namespace = if ask.namespace.is_empty() { DEFAULT_NAMESPACE } else { ask.namespace.as_str() };
    let mut uri = format!("/v1/event/stream?namespace={}&index={}", escape(namespace), ask.index.max(0));
    for (topic, keys) in ask.topics.iter().flatten() {
        let keys = keys.as_deref().filter(|keys| !keys.is_empty());
        match keys {
            None => uri.push_str(&format!("&topic={}", escape(topic))),
            Some(keys) => {
                keys.iter().for_each(|key| uri.push_str(&format!("&topic={}:{}", escape(topic), escape(key))))
            }
        }
    }
    uri
}

async fn say(channel: &mut Channel, message: &EventStreamWrapper) -> std::io::Result<()> {
    channel.send(&to_vec(message).map_err(std::io::Error::other)?).await
}

#[cfg(test)]
mod tests;
