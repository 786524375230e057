//! A node agent at the other end of a session: [`NodeAgent`] as calls and streams of the node RPC. The caller has
//! chosen the session for the node and checked the user's permissions.

mod exec;
mod frames;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use songline_model::{AllocId, NodeId, Str};
use tokio::sync::mpsc;

use crate::message::{
    AgentHost, AgentMonitor, AgentProfile, AllocationsChecks, AllocationsExec, AllocationsGarbageCollect,
    AllocationsGarbageCollectAll, AllocationsRestart, AllocationsSignal, AllocationsStats, Call, Caller, CheckResult,
    ClientStats, FileSystemList, FileSystemLogs, FileSystemStat, FileSystemStream, NodeMetaApply, NodeMetaRead, Signed,
    StreamCall,
};
use crate::msgpack::{self, RawValue};
use crate::net::{Channel, call_over, open_channel};
use crate::yamux::Session;
use crate::{
    AllocFileInfo, AskMonitor, AskProfile, ExecCommand, ExecSession, NodeAgent, NodeMeta, Origin, Profile, ReadFile,
    ReadLogs, RpcError, StreamFrame,
};

/// Method for the data of an allocation as a tar, in pieces, an empty one last. The reference lacks it: its nodes fetch
/// such data from each other over HTTP.
pub const ALLOC_SNAPSHOT: &str = "Allocations.Snapshot";

/// Sends calls to a node.
pub trait Reach: Send + Sync + 'static {
    /// Sends a request and waits for the body of the answer.
    fn call(&self, method: &str, body: Vec<u8>) -> impl Future<Output = Result<Bytes, RpcError>> + Send;

    /// Opens a streaming call.
    fn open(&self, method: &str, request: Vec<u8>) -> impl Future<Output = Result<Channel, RpcError>> + Send;
}

/// The node's own session.
impl Reach for Session {
    async fn call(&self, method: &str, body: Vec<u8>) -> Result<Bytes, RpcError> {
        // One counter serves all sessions. An answer carries the number of its request, so answers cannot be mixed up.
        static SEQ: AtomicU64 = AtomicU64::new(1);
        call_over(self, SEQ.fetch_add(1, Ordering::Relaxed), method, &body).await
    }

    async fn open(&self, method: &str, request: Vec<u8>) -> Result<Channel, RpcError> {
        open_channel(self, method, &request).await
    }
}

impl<R: Reach> Reach for Arc<R> {
    async fn call(&self, method: &str, body: Vec<u8>) -> Result<Bytes, RpcError> {
        R::call(self, method, body).await
    }

    async fn open(&self, method: &str, request: Vec<u8>) -> Result<Channel, RpcError> {
        R::open(self, method, request).await
    }
}

/// A node agent reached over the wire.
#[derive(Debug, Clone)]
pub struct RemoteAgent<R> {
    reach: R,
    node: NodeId,
    caller: Caller,
}

impl<R: Reach> RemoteAgent<R> {
    /// An agent for calls of `caller`: nodes of the reference check the caller's permissions once more.
    pub fn new(reach: R, node: NodeId, caller: Caller) -> Self {
        Self { reach, node, caller }
    }

    async fn ask<C: Call + Signed + Send>(&self, request: C) -> Result<C::Answer, RpcError> {
        let answer = self.reach.call(C::METHOD, self.bytes(request)?).await?;
        msgpack::from_slice(&answer).map_err(|error| RpcError::remote(error.on_wire(0)))
    }

    async fn open<C: StreamCall + Signed + Send>(&self, request: C) -> Result<Channel, RpcError> {
        self.reach.open(C::METHOD, self.bytes(request)?).await
    }

    fn bytes<C: serde::Serialize + Signed>(&self, request: C) -> Result<Vec<u8>, RpcError> {
        msgpack::to_vec(&request.signed(&self.caller)).map_err(|error| RpcError::remote(error.to_string()))
    }
}

impl<R: Reach> NodeAgent for RemoteAgent<R> {
    async fn fs_list(&self, alloc: AllocId, path: &str) -> Result<Vec<AllocFileInfo>, RpcError> {
        let answer =
            self.ask(FileSystemList { alloc_id: alloc, path: path.into(), ..FileSystemList::default() }).await?;
        Ok(answer.files.unwrap_or_default().into_iter().map(Into::into).collect())
    }

    async fn fs_stat(&self, alloc: AllocId, path: &str) -> Result<AllocFileInfo, RpcError> {
        let answer =
            self.ask(FileSystemStat { alloc_id: alloc, path: path.into(), ..FileSystemStat::default() }).await?;
        answer.info.map(Into::into).ok_or_else(|| RpcError::remote("the node says nothing of the file"))
    }

    async fn fs_read(&self, read: ReadFile) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        let request = FileSystemStream {
            alloc_id: read.alloc,
            path: read.path,
            offset: read.offset,
            origin: origin(read.origin),
            // No file is longer than `i64::MAX`.
            limit: i64::try_from(read.limit).unwrap_or(i64::MAX),
            follow: read.follow,
            ..FileSystemStream::default()
        };
        frames::receive(self.open(request).await?).await
    }

    async fn fs_logs(&self, logs: ReadLogs) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        let request = FileSystemLogs {
            alloc_id: logs.alloc,
            task: logs.task,
            log_type: logs.kind,
            offset: logs.offset,
            origin: origin(logs.origin),
            follow: logs.follow,
            ..FileSystemLogs::default()
        };
        frames::receive(self.open(request).await?).await
    }

    async fn alloc_restart(&self, alloc: AllocId, task: &str, all: bool) -> Result<(), RpcError> {
        let request = AllocationsRestart {
            alloc_id: alloc,
            task_name: task.into(),
            all_tasks: all,
            ..AllocationsRestart::default()
        };
        self.ask(request).await.map(drop)
    }

    async fn alloc_signal(&self, alloc: AllocId, task: &str, signal: &str) -> Result<(), RpcError> {
        let request = AllocationsSignal {
            alloc_id: alloc,
            task: task.into(),
            signal: signal.into(),
            ..AllocationsSignal::default()
        };
        self.ask(request).await.map(drop)
    }

    async fn alloc_gc(&self, alloc: AllocId) -> Result<(), RpcError> {
        self.ask(AllocationsGarbageCollect { alloc_id: alloc, ..AllocationsGarbageCollect::default() }).await.map(drop)
    }

    async fn gc_all(&self) -> Result<(), RpcError> {
        let request = AllocationsGarbageCollectAll { node_id: self.node, ..AllocationsGarbageCollectAll::default() };
        self.ask(request).await.map(drop)
    }

    async fn alloc_stats(&self, alloc: AllocId, task: &str) -> Result<Bytes, RpcError> {
        let answer =
            self.ask(AllocationsStats { alloc_id: alloc, task: task.into(), ..AllocationsStats::default() }).await?;
        json(&answer.stats)
    }

    async fn alloc_checks(&self, alloc: AllocId) -> Result<BTreeMap<Str, CheckResult>, RpcError> {
        let answer = self.ask(AllocationsChecks { alloc_id: alloc, ..AllocationsChecks::default() }).await?;
        Ok(answer.results.unwrap_or_default())
    }

    async fn node_meta(&self) -> Result<NodeMeta, RpcError> {
        self.ask(NodeMetaRead { node_id: self.node, ..NodeMetaRead::default() }).await
    }

    async fn node_meta_apply(&self, change: BTreeMap<Str, Option<Str>>) -> Result<NodeMeta, RpcError> {
        self.ask(NodeMetaApply { node_id: self.node, meta: Some(change), ..NodeMetaApply::default() }).await
    }

    async fn alloc_exec(&self, command: ExecCommand) -> Result<ExecSession, RpcError> {
        let request = AllocationsExec {
            alloc_id: command.alloc,
            task: command.task,
            tty: command.tty,
            cmd: Some(command.command.into_iter().map(Str::from).collect()),
            ..AllocationsExec::default()
        };
        Ok(exec::begin(self.open(request).await?))
    }

    async fn alloc_snapshot(&self, alloc: AllocId) -> Result<mpsc::Receiver<io::Result<Bytes>>, RpcError> {
        let request = AllocationsGarbageCollect { alloc_id: alloc, ..AllocationsGarbageCollect::default() };
        frames::receive_pieces(self.reach.open(ALLOC_SNAPSHOT, self.bytes(request)?).await?).await
    }

    async fn host_stats(&self) -> Result<Bytes, RpcError> {
        let answer = self.ask(ClientStats { node_id: self.node, ..ClientStats::default() }).await?;
        json(&answer.host_stats)
    }

    async fn agent_host(&self) -> Result<Bytes, RpcError> {
        let answer = self.ask(AgentHost { node_id: self.node.to_string().into(), ..AgentHost::default() }).await?;
        json(&answer.host_data)
    }

    async fn agent_profile(&self, ask: AskProfile) -> Result<Profile, RpcError> {
        let (req_type, profile) = ask.on_wire();
        let request = AgentProfile {
            req_type,
            profile,
            seconds: ask.seconds,
            debug: ask.debug,
            gc: ask.gc,
            node_id: self.node.to_string().into(),
            ..AgentProfile::default()
        };
        let answer = self.ask(request).await?;
        let payload = answer.payload.map(|payload| Bytes::from(payload.0)).unwrap_or_default();
        Ok(Profile { headers: answer.http_headers.unwrap_or_default(), payload })
    }

    async fn agent_monitor(&self, ask: AskMonitor) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        let request = AgentMonitor {
            log_level: ask.level,
            log_json: ask.json,
            log_include_location: ask.location,
            node_id: self.node.to_string().into(),
            ..AgentMonitor::default()
        };
        frames::receive(self.open(request).await?).await
    }
}

fn origin(origin: Origin) -> Str {
    match origin {
        Origin::Start => Str::new_static("start"),
        Origin::End => Str::new_static("end"),
    }
}

/// Converts a MessagePack value to a JSON document.
fn json(value: &RawValue) -> Result<Bytes, RpcError> {
    let value: serde_json::Value = value.read().map_err(|error| RpcError::remote(error.on_wire(0)))?;
    serde_json::to_vec(&value).map(Bytes::from).map_err(|error| RpcError::remote(error.to_string()))
}
