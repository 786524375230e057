//! Calls of servers to this node over the sessions that the node has opened: methods and streams by name, in the
//! reference's forms.
//!
//! Servers authorize the user before they call. With ACLs enabled the node authorizes again (see [`Guard`]), as nodes
//! of the reference do.

mod frames;
mod guard;
mod session;

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use serde::Serialize;
use songline_model::Blob;
use songline_rpc::message::{
    AgentHost, AgentHostAnswer, AgentMonitor, AgentProfile, AgentProfileAnswer, AllocationsChecks,
    AllocationsChecksAnswer, AllocationsExec, AllocationsGarbageCollect, AllocationsGarbageCollectAll,
    AllocationsRestart, AllocationsSignal, AllocationsStats, AllocationsStatsAnswer, Call, ClientStats,
    ClientStatsAnswer, FileSystemList, FileSystemListAnswer, FileSystemLogs, FileSystemStat, FileSystemStatAnswer,
    FileSystemStream, NodeMetaApply, NodeMetaRead, StreamCall, Written,
};
use songline_rpc::msgpack::{self, RawValue};
use songline_rpc::net::{Caller, Channel, Dispatch, OnSession, Refusal, serve_session};
use songline_rpc::{AskMonitor, AskProfile, NodeAgent, RpcError};

pub use guard::{Asked, Guard, Right};

/// A node that runs CSI plugins.
pub trait CsiNode: Send + Sync {
    /// Answers a request to a plugin, given the name of a method `CSI.*` and the request's body.
    fn csi(&self, method: &str, body: &[u8]) -> impl Future<Output = Result<Bytes, Refusal>> + Send;
}

/// The node's side of its sessions. Created before the node, because the node's first call opens the first session.
pub struct NodeCalls<N: NodeAgent> {
    node: OnceLock<Weak<N>>,
    guard: OnceLock<Arc<dyn Guard>>,
}

impl<N: NodeAgent> Default for NodeCalls<N> {
    fn default() -> Self {
        Self { node: OnceLock::new(), guard: OnceLock::new() }
    }
}

impl<N: NodeAgent + CsiNode> NodeCalls<N> {
    /// Sets the node that answers calls. Only the first one set stays.
    pub fn set(&self, node: &Arc<N>) {
        self.node.get_or_init(|| Arc::downgrade(node));
    }

    /// Sets the guard that authorizes callers. Only the first one set stays; without a guard every caller is
    /// authorized.
    pub fn guard(&self, guard: Arc<dyn Guard>) {
        self.guard.get_or_init(|| guard);
    }

    async fn let_in(&self, method: &str, body: &[u8]) -> Result<(), Refusal> {
        match (self.guard.get(), guard::right_for(method)) {
            (Some(guard), Some(right)) => Ok(guard.may(right, msgpack::from_slice(body)?).await?),
            // An unknown method is reported as such to every caller.
            (None, _) | (Some(_), None) => Ok(()),
        }
    }

    /// Serves every session that a pool opens.
    pub fn on_session(self: &Arc<Self>) -> OnSession {
        let calls = Arc::clone(self);
        Arc::new(move |address, session| {
            let calls = Arc::clone(&calls);
            // Used in logs only. An address that is a name has no IP address here.
            let from = address.parse().unwrap_or_else(|_| std::net::SocketAddr::from(([0, 0, 0, 0], 0)));
            tokio::spawn(serve_session(session, true, Caller::plain(from), calls));
        })
    }

    fn node(&self) -> Result<Arc<N>, RpcError> {
        self.node.get().and_then(Weak::upgrade).ok_or_else(|| RpcError::Lost("the node is not there".to_owned()))
    }

    async fn answer(&self, method: &str, body: &[u8]) -> Result<Bytes, Refusal> {
        let node = self.node()?;
        match method {
            AllocationsRestart::METHOD => {
                let ask: AllocationsRestart = msgpack::from_slice(body)?;
                node.alloc_restart(ask.alloc_id, &ask.task_name, ask.all_tasks).await?;
                bytes_of(&Written::default())
            }
            AllocationsSignal::METHOD => {
                let ask: AllocationsSignal = msgpack::from_slice(body)?;
                node.alloc_signal(ask.alloc_id, &ask.task, &ask.signal).await?;
                bytes_of(&Written::default())
            }
            AllocationsGarbageCollect::METHOD => {
                let ask: AllocationsGarbageCollect = msgpack::from_slice(body)?;
                node.alloc_gc(ask.alloc_id).await?;
                bytes_of(&Written::default())
            }
            AllocationsGarbageCollectAll::METHOD => {
                let _: AllocationsGarbageCollectAll = msgpack::from_slice(body)?;
                node.gc_all().await?;
                bytes_of(&Written::default())
            }
            AllocationsStats::METHOD => {
                let ask: AllocationsStats = msgpack::from_slice(body)?;
                let stats = node.alloc_stats(ask.alloc_id, &ask.task).await?;
                bytes_of(&AllocationsStatsAnswer { stats: tree(&stats)?, ..AllocationsStatsAnswer::default() })
            }
            AllocationsChecks::METHOD => {
                let ask: AllocationsChecks = msgpack::from_slice(body)?;
                let results = Some(node.alloc_checks(ask.alloc_id).await?);
                bytes_of(&AllocationsChecksAnswer { results, ..AllocationsChecksAnswer::default() })
            }
            ClientStats::METHOD => {
                let _: ClientStats = msgpack::from_slice(body)?;
                let stats = node.host_stats().await?;
                bytes_of(&ClientStatsAnswer { host_stats: tree(&stats)?, ..ClientStatsAnswer::default() })
            }
            FileSystemList::METHOD => {
                let ask: FileSystemList = msgpack::from_slice(body)?;
                let files = node.fs_list(ask.alloc_id, &ask.path).await?.into_iter().map(Into::into).collect();
                bytes_of(&FileSystemListAnswer { files: Some(files), ..FileSystemListAnswer::default() })
            }
            FileSystemStat::METHOD => {
                let ask: FileSystemStat = msgpack::from_slice(body)?;
                let info = node.fs_stat(ask.alloc_id, &ask.path).await?.into();
                bytes_of(&FileSystemStatAnswer { info: Some(info), ..FileSystemStatAnswer::default() })
            }
            NodeMetaApply::METHOD => {
                let ask: NodeMetaApply = msgpack::from_slice(body)?;
                bytes_of(&node.node_meta_apply(ask.meta.unwrap_or_default()).await?)
            }
            NodeMetaRead::METHOD => {
                let _: NodeMetaRead = msgpack::from_slice(body)?;
                bytes_of(&node.node_meta().await?)
            }
            AgentHost::METHOD => {
                let ask: AgentHost = msgpack::from_slice(body)?;
                let host_data = tree(&node.agent_host().await?)?;
                bytes_of(&AgentHostAnswer { agent_id: ask.node_id, host_data })
            }
            AgentProfile::METHOD => {
                let ask: AgentProfile = msgpack::from_slice(body)?;
                let unknown = || RpcError::Coded {
                    code: 404,
                    text: format!("Unknown profile type: {:?}", ask.req_type.as_str()),
                };
                let name = AskProfile::named(&ask.req_type, &ask.profile).ok_or_else(unknown)?;
                let found =
                    node.agent_profile(AskProfile { name, seconds: ask.seconds, debug: ask.debug, gc: ask.gc }).await?;
                let (payload, http_headers) = (Some(Blob(found.payload.to_vec())), Some(found.headers));
                bytes_of(&AgentProfileAnswer { agent_id: ask.node_id, payload, http_headers })
            }
            method if method.starts_with(CSI) => node.csi(method, body).await,
            other => Err(unknown(other)),
        }
    }
}

impl<N: NodeAgent + CsiNode> Dispatch for NodeCalls<N> {
    async fn call(&self, method: &str, body: Bytes, _caller: &Caller) -> Result<Bytes, Refusal> {
        self.let_in(method, &body).await?;
        self.answer(method, &body).await
    }

    fn streams(&self, method: &str) -> bool {
        matches!(
            method,
            FileSystemLogs::METHOD
                | FileSystemStream::METHOD
                | AllocationsExec::METHOD
                | AgentMonitor::METHOD
                | SNAPSHOT
        )
    }

    async fn stream(&self, method: &str, mut channel: Channel, _caller: &Caller) {
        let outcome = match self.node() {
            Ok(node) => self.begin(node, method, &mut channel).await,
            Err(error) => Err(error),
        };
        let done = match outcome {
            Ok(Begun::Frames { frames, plain }) => frames::send(channel, frames, plain).await,
            Ok(Begun::Session(session)) => session::run(channel, session).await,
            Ok(Begun::Pieces(pieces)) => frames::send_pieces(channel, pieces).await,
            Err(error) => frames::fail(&mut channel, &error).await,
        };
        if let Err(error) = done {
            tracing::debug!(method, %error, "a stream to a server ended early");
        }
    }
}

/// The data of an allocation as a tar, in pieces. Our own method: nodes of the reference fetch the data from each
/// other over HTTP.
pub const SNAPSHOT: &str = "Allocations.Snapshot";

/// Beginning of the methods that are requests to CSI plugins.
const CSI: &str = "CSI.";

/// A stream that has begun.
enum Begun {
    Frames { frames: frames::Frames, plain: bool },
    Session(songline_rpc::ExecSession),
    Pieces(tokio::sync::mpsc::Receiver<std::io::Result<Bytes>>),
}

impl<N: NodeAgent + CsiNode> NodeCalls<N> {
    /// Reads the request of a streaming method and begins the stream on the node.
    async fn begin(&self, node: Arc<N>, method: &str, channel: &mut Channel) -> Result<Begun, RpcError> {
        let request = channel.next().await.map_err(|error| RpcError::Lost(error.to_string()))?;
        let request = request.ok_or_else(|| RpcError::Lost("nothing was asked".to_owned()))?;
        self.let_in(method, &request).await.map_err(|refused| match refused {
            Refusal::Failed(error) => error,
            Refusal::Body(error) => RpcError::Coded { code: 500, text: error.to_string() },
            Refusal::NoMethod | Refusal::NoService => RpcError::remote("there is no such method"),
        })?;
        begin(node, method, &request).await
    }
}

async fn begin<N: NodeAgent>(node: Arc<N>, method: &str, request: &[u8]) -> Result<Begun, RpcError> {
    let unread = |error: msgpack::DecodeError| RpcError::Coded { code: 500, text: error.to_string() };
    match method {
        FileSystemLogs::METHOD => {
            let ask: FileSystemLogs = msgpack::from_slice(request).map_err(unread)?;
            let plain = ask.plain_text;
            Ok(Begun::Frames { frames: node.fs_logs(frames::logs(ask)?).await?, plain })
        }
        FileSystemStream::METHOD => {
            let ask: FileSystemStream = msgpack::from_slice(request).map_err(unread)?;
            let plain = ask.plain_text;
            Ok(Begun::Frames { frames: node.fs_read(frames::file(ask)?).await?, plain })
        }
        AllocationsExec::METHOD => {
            let ask: AllocationsExec = msgpack::from_slice(request).map_err(unread)?;
            Ok(Begun::Session(node.alloc_exec(session::command(ask)?).await?))
        }
        AgentMonitor::METHOD => {
            let ask: AgentMonitor = msgpack::from_slice(request).map_err(unread)?;
            let wanted = AskMonitor { level: ask.log_level, json: ask.log_json, location: ask.log_include_location };
            Ok(Begun::Frames { frames: node.agent_monitor(wanted).await?, plain: ask.plain_text })
        }
        SNAPSHOT => {
            let ask: AllocationsGarbageCollect = msgpack::from_slice(request).map_err(unread)?;
            Ok(Begun::Pieces(node.alloc_snapshot(ask.alloc_id).await?))
        }
        other => Err(RpcError::Remote(format!("Unknown rpc method: \"{other}\""))),
    }
}

fn unknown(method: &str) -> Refusal {
    let services = ["Agent", "Allocations", "ClientStats", "FileSystem", "NodeMeta"];
    let service = method.split_once('.').map_or(method, |(service, _)| service);
    if services.contains(&service) { Refusal::NoMethod } else { Refusal::NoService }
}

fn bytes_of<T: Serialize>(answer: &T) -> Result<Bytes, Refusal> {
    encoded(answer).map_err(Refusal::Failed)
}

pub(crate) fn encoded<T: Serialize>(value: &T) -> Result<Bytes, RpcError> {
    msgpack::to_vec(value).map(Bytes::from).map_err(|error| RpcError::Remote(error.to_string()))
}

/// A JSON document as a msgpack value.
fn tree(json: &[u8]) -> Result<RawValue, RpcError> {
    let value: serde_json::Value = serde_json::from_slice(json).map_err(|error| RpcError::Remote(error.to_string()))?;
    RawValue::of(&value).map_err(|error| RpcError::Remote(error.to_string()))
}

#[cfg(test)]
mod tests;
