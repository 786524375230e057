//! A node agent in this process, behind a trait object: the server calls it and does not know its type.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use songline_model::{AllocId, Str};
use songline_rpc::message::CheckResult;
use songline_rpc::net::{Caller, Channel, Dispatch, Refusal};
use songline_rpc::{
    AllocFileInfo, AskMonitor, AskProfile, ExecCommand, ExecSession, NodeAgent, NodeMeta, Profile, ReadFile, ReadLogs,
    RpcError, StreamFrame,
};
use tokio::sync::mpsc;

/// Frames of a file or a log.
type Frames = mpsc::Receiver<Result<StreamFrame, RpcError>>;
/// Result of a call of a node, later.
type Answer<'a, T> = BoxFuture<'a, Result<T, RpcError>>;

/// The calls of [`NodeAgent`] with boxed futures, and the calls in the forms of the node RPC.
pub trait LocalNode: Send + Sync {
    /// [`NodeAgent::fs_list`].
    fn fs_list<'a>(&'a self, alloc: AllocId, path: &'a str) -> Answer<'a, Vec<AllocFileInfo>>;
    /// [`NodeAgent::fs_stat`].
    fn fs_stat<'a>(&'a self, alloc: AllocId, path: &'a str) -> Answer<'a, AllocFileInfo>;
    /// [`NodeAgent::fs_read`].
    fn fs_read(&self, read: ReadFile) -> Answer<'_, Frames>;
    /// [`NodeAgent::fs_logs`].
    fn fs_logs(&self, logs: ReadLogs) -> Answer<'_, Frames>;
    /// [`NodeAgent::alloc_restart`].
    fn alloc_restart<'a>(&'a self, alloc: AllocId, task: &'a str, all: bool) -> Answer<'a, ()>;
    /// [`NodeAgent::alloc_signal`].
    fn alloc_signal<'a>(&'a self, alloc: AllocId, task: &'a str, signal: &'a str) -> Answer<'a, ()>;
    /// [`NodeAgent::alloc_gc`].
    fn alloc_gc(&self, alloc: AllocId) -> Answer<'_, ()>;
    /// [`NodeAgent::gc_all`].
    fn gc_all(&self) -> Answer<'_, ()>;
    /// [`NodeAgent::alloc_stats`].
    fn alloc_stats<'a>(&'a self, alloc: AllocId, task: &'a str) -> Answer<'a, Bytes>;
    /// [`NodeAgent::alloc_checks`].
    fn alloc_checks(&self, alloc: AllocId) -> Answer<'_, BTreeMap<Str, CheckResult>>;
    /// [`NodeAgent::node_meta`].
    fn node_meta(&self) -> Answer<'_, NodeMeta>;
    /// [`NodeAgent::node_meta_apply`].
    fn node_meta_apply(&self, change: BTreeMap<Str, Option<Str>>) -> Answer<'_, NodeMeta>;
    /// [`NodeAgent::alloc_exec`].
    fn alloc_exec(&self, command: ExecCommand) -> Answer<'_, ExecSession>;
    /// [`NodeAgent::alloc_snapshot`].
    fn alloc_snapshot(&self, alloc: AllocId) -> Answer<'_, mpsc::Receiver<std::io::Result<Bytes>>>;
    /// [`NodeAgent::host_stats`].
    fn host_stats(&self) -> Answer<'_, Bytes>;
    /// [`NodeAgent::agent_host`].
    fn agent_host(&self) -> Answer<'_, Bytes>;
    /// [`NodeAgent::agent_profile`].
    fn agent_profile(&self, ask: AskProfile) -> Answer<'_, Profile>;
    /// [`NodeAgent::agent_monitor`].
    fn agent_monitor(&self, ask: AskMonitor) -> Answer<'_, Frames>;

    /// Answers a call by its method's name and bytes, as over a session.
    fn call<'a>(&'a self, method: &'a str, body: Bytes, caller: &'a Caller) -> BoxFuture<'a, Result<Bytes, Refusal>>;
    /// Like `call`, for a streaming call.
    fn stream<'a>(&'a self, method: &'a str, channel: Channel, caller: &'a Caller) -> BoxFuture<'a, ()>;
}

/// A node agent and the dispatcher of its calls by name.
pub(crate) struct Local<N, D> {
    /// The node agent.
    pub(crate) node: Arc<N>,
    /// Answers calls by name with the same node agent.
    pub(crate) calls: Arc<D>,
}

impl<N: NodeAgent, D: Dispatch> LocalNode for Local<N, D> {
    fn fs_list<'a>(&'a self, alloc: AllocId, path: &'a str) -> Answer<'a, Vec<AllocFileInfo>> {
        self.node.fs_list(alloc, path).boxed()
    }

    fn fs_stat<'a>(&'a self, alloc: AllocId, path: &'a str) -> Answer<'a, AllocFileInfo> {
        self.node.fs_stat(alloc, path).boxed()
    }

    fn fs_read(&self, read: ReadFile) -> Answer<'_, Frames> {
        self.node.fs_read(read).boxed()
    }

    fn fs_logs(&self, logs: ReadLogs) -> Answer<'_, Frames> {
        self.node.fs_logs(logs).boxed()
    }

    fn alloc_restart<'a>(&'a self, alloc: AllocId, task: &'a str, all: bool) -> Answer<'a, ()> {
        self.node.alloc_restart(alloc, task, all).boxed()
    }

    fn alloc_signal<'a>(&'a self, alloc: AllocId, task: &'a str, signal: &'a str) -> Answer<'a, ()> {
        self.node.alloc_signal(alloc, task, signal).boxed()
    }

    fn alloc_gc(&self, alloc: AllocId) -> Answer<'_, ()> {
        self.node.alloc_gc(alloc).boxed()
    }

    fn gc_all(&self) -> Answer<'_, ()> {
        self.node.gc_all().boxed()
    }

    fn alloc_stats<'a>(&'a self, alloc: AllocId, task: &'a str) -> Answer<'a, Bytes> {
        self.node.alloc_stats(alloc, task).boxed()
    }

    fn alloc_checks(&self, alloc: AllocId) -> Answer<'_, BTreeMap<Str, CheckResult>> {
        self.node.alloc_checks(alloc).boxed()
    }

    fn node_meta(&self) -> Answer<'_, NodeMeta> {
        self.node.node_meta().boxed()
    }

    fn node_meta_apply(&self, change: BTreeMap<Str, Option<Str>>) -> Answer<'_, NodeMeta> {
        self.node.node_meta_apply(change).boxed()
    }

    fn alloc_exec(&self, command: ExecCommand) -> Answer<'_, ExecSession> {
        self.node.alloc_exec(command).boxed()
    }

    fn alloc_snapshot(&self, alloc: AllocId) -> Answer<'_, mpsc::Receiver<std::io::Result<Bytes>>> {
        self.node.alloc_snapshot(alloc).boxed()
    }

    fn host_stats(&self) -> Answer<'_, Bytes> {
        self.node.host_stats().boxed()
    }

    fn agent_host(&self) -> Answer<'_, Bytes> {
        self.node.agent_host().boxed()
    }

    fn agent_profile(&self, ask: AskProfile) -> Answer<'_, Profile> {
        self.node.agent_profile(ask).boxed()
    }

    fn agent_monitor(&self, ask: AskMonitor) -> Answer<'_, Frames> {
        self.node.agent_monitor(ask).boxed()
    }

    fn call<'a>(&'a self, method: &'a str, body: Bytes, caller: &'a Caller) -> BoxFuture<'a, Result<Bytes, Refusal>> {
        self.calls.call(method, body, caller).boxed()
    }

    fn stream<'a>(&'a self, method: &'a str, channel: Channel, caller: &'a Caller) -> BoxFuture<'a, ()> {
        self.calls.stream(method, channel, caller).boxed()
    }
}
