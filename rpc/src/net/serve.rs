//! Serves connections and sessions.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::channel::Channel;
use super::header::{RequestHeader, ResponseHeader, StreamAnswer, StreamOpening, bytes_of, read};
use super::hold::Hold;
use super::values::Values;
use super::{ANSWER_BYTES_MAX, Caller, Dispatch, HEADER_BYTES_MAX, REQUEST_BYTES_MAX, Refusal};
use crate::port::{Conn, FirstByte};
use crate::yamux::{Session, SessionLimits, Stream};

/// Body of an answer with an error: an empty map.
const NOTHING: &[u8] = &[0x80];

/// Serves the node RPC over a connection that began with `first`, until the connection ends.
pub async fn serve<D: Dispatch>(first: FirstByte, conn: Conn, caller: Caller, dispatch: Arc<D>) {
    match first {
        FirstByte::Rpc => calls(conn, &caller, dispatch.as_ref()).await,
        FirstByte::Streaming => streaming(conn, &caller, dispatch.as_ref()).await,
        FirstByte::Multiplex | FirstByte::MultiplexV2 | FirstByte::RpcOfServers => {
            let session = Session::accepted(conn, SessionLimits::default());
            let typed = first != FirstByte::Multiplex;
            serve_session(session, typed, caller, dispatch).await;
        }
        FirstByte::RaftOfReference
        | FirstByte::Tls
        | FirstByte::Peers
        | FirstByte::Http
        | FirstByte::HttpOfNodes
        | FirstByte::Regions => {}
    }
}

/// Serves the streams that the other side opens, until the session ends. If `typed`, each stream begins with its own
/// first byte.
pub async fn serve_session<D: Dispatch>(session: Session, typed: bool, caller: Caller, dispatch: Arc<D>) {
    let caller = Caller { session: Some(session.clone()), ..caller };
    // Streams hold the session. Without this guard a session would live on after its server, for as long as the other
    // side keeps streams open.
    let session = EndsSession(session);
    while let Ok(stream) = session.0.accept().await {
        let (caller, dispatch) = (caller.clone(), Arc::clone(&dispatch));
        tokio::spawn(async move {
            if typed {
                by_type(stream, &caller, dispatch.as_ref()).await;
            } else {
                calls(Box::new(stream), &caller, dispatch.as_ref()).await;
            }
        });
    }
}

/// Ends a session when the future that serves it is dropped.
struct EndsSession(Session);

impl Drop for EndsSession {
    fn drop(&mut self) {
        self.0.close();
    }
}

async fn by_type<D: Dispatch>(mut stream: Stream, caller: &Caller, dispatch: &D) {
    let Ok(byte) = stream.read_u8().await else { return };
    match FirstByte::of(byte) {
        Some(FirstByte::Rpc) => calls(Box::new(stream), caller, dispatch).await,
        Some(FirstByte::Streaming) => streaming(Box::new(stream), caller, dispatch).await,
        _ => {
            tracing::warn!(from = %caller.from, byte, "a stream that is not spoken here ends its session");
            stream.session().close();
        }
    }
}

/// Answers calls one by one. Any error of the connection ends it.
async fn calls<D: Dispatch>(conn: Conn, caller: &Caller, dispatch: &D) {
    if let Err(error) = answer_calls(conn, caller, dispatch).await {
        tracing::debug!(from = %caller.from, %error, "a connection of calls ended");
    }
}

async fn answer_calls<D: Dispatch>(conn: Conn, caller: &Caller, dispatch: &D) -> io::Result<()> {
    let (requests, mut answers) = tokio::io::split(conn);
    let mut requests = Values::within(requests, Hold::of(caller));
    // Servers trust each other, and a plan for thousands of nodes is longer than anything that nodes send.
    let bytes_max = if caller.is_server { ANSWER_BYTES_MAX } else { REQUEST_BYTES_MAX };
    loop {
        let Some(header) = requests.next(HEADER_BYTES_MAX).await? else { break };
        let RequestHeader { seq, service_method } = read(&header)?;
        let before = requests.taken();
        let body = requests.next(bytes_max).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let answered = answer(&service_method, body, before, caller, dispatch).await;
        let (error, body, last) = match answered {
            Ok(body) => (String::new(), body, false),
            Err((error, last)) => (error, Bytes::from_static(NOTHING), last),
        };
        let mut answer = bytes_of(&ResponseHeader { error, seq, service_method });
        answer.extend_from_slice(&body);
        answers.write_all(&answer).await?;
        answers.flush().await?;
        if last {
            break;
        }
    }
    answers.shutdown().await
}

/// Body of the answer; or the error text, with whether the connection is closed after it.
async fn answer<D: Dispatch>(
    method: &str,
    body: Bytes,
    before: usize,
    caller: &Caller,
    dispatch: &D,
) -> Result<Bytes, (String, bool)> {
    if !method.contains('.') {
        return Err((format!("rpc: service/method request ill-formed: {method}"), true));
    }
    dispatch.call(method, body, caller).await.map_err(|refusal| match refusal {
        Refusal::NoService => (format!("rpc: can't find service {method}"), true),
        Refusal::NoMethod => (format!("rpc: can't find method {method}"), true),
        Refusal::Body(error) => (error.on_wire(before), true),
        Refusal::Failed(error) => (error.wire_text(), false),
    })
}

async fn streaming<D: Dispatch>(conn: Conn, caller: &Caller, dispatch: &D) {
    let mut channel = Channel::within(conn, Hold::of(caller));
    let opening = match channel.next().await {
        Ok(Some(opening)) if opening.len() <= HEADER_BYTES_MAX => opening,
        Ok(_) | Err(_) => return,
    };
    let Ok(StreamOpening { method }) = read(&opening) else { return };
    let known = dispatch.streams(&method);
    let error = if known { String::new() } else { format!("Unknown rpc method: \"{method}\"") };
    if channel.send(&bytes_of(&StreamAnswer { error })).await.is_ok() && known {
        dispatch.stream(&method, channel, caller).await;
    }
}
