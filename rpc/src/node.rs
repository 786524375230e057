//! Calls of the servers (or of an HTTP request that a server passes on) to a node agent.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use songline_model::{AllocId, Str, Time};
use tokio::sync::mpsc;

use crate::{AskMonitor, AskProfile, ExecCommand, ExecSession, Profile, RpcError};

/// What a node agent answers. Unknown allocations are `Coded { 404, "Unknown allocation \"X\"" }`.
pub trait NodeAgent: Send + Sync + 'static {
    /// `FileSystem.List`: the entries of a directory of an allocation; `path` is relative to the allocation's directory.
    fn fs_list(&self, alloc: AllocId, path: &str) -> impl Future<Output = Result<Vec<AllocFileInfo>, RpcError>> + Send;

    /// `FileSystem.Stat`: one file or directory.
    fn fs_stat(&self, alloc: AllocId, path: &str) -> impl Future<Output = Result<AllocFileInfo, RpcError>> + Send;

    /// `FileSystem.Stream` and `cat`, `readat`: the bytes of a file from an offset, in frames; ends at the end of the file unless
    /// `follow`, or after `limit` bytes when that is above 0.
    fn fs_read(&self, read: ReadFile) -> impl Future<Output = Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError>> + Send;

    /// `FileSystem.Logs`: stdout or stderr of a task over its rotated files, in frames.
    fn fs_logs(&self, logs: ReadLogs) -> impl Future<Output = Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError>> + Send;

    /// `Allocations.Restart`: one task, or every running one (`task` empty); `all` also restarts tasks that have ended.
    fn alloc_restart(&self, alloc: AllocId, task: &str, all: bool) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// `Allocations.Signal`: one task, or all of them (`task` empty).
    fn alloc_signal(&self, alloc: AllocId, task: &str, signal: &str) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// `Allocations.GarbageCollect`: removes what is left of a terminal allocation.
    fn alloc_gc(&self, alloc: AllocId) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// `ClientAllocations.GarbageCollectAll`.
    fn gc_all(&self) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// `ClientAllocations.Stats`, as the JSON of `AllocResourceUsage`.
    fn alloc_stats(&self, alloc: AllocId, task: &str) -> impl Future<Output = Result<Bytes, RpcError>> + Send;

    /// `NodeMeta.Read`: what the node has as meta, and where that is from.
    fn node_meta(&self) -> impl Future<Output = Result<NodeMeta, RpcError>> + Send;

    /// `NodeMeta.Apply`: sets keys, or (`None`) takes them away. Answers once that is durable on the node; it registers again soon after.
    fn node_meta_apply(&self, change: BTreeMap<Str, Option<Str>>) -> impl Future<Output = Result<NodeMeta, RpcError>> + Send;

    /// `Allocations.Exec`: runs a command in a running task. Answers once it is known that there is such a task; what starting the command
    /// failed of comes through the session.
    fn alloc_exec(&self, command: ExecCommand) -> impl Future<Output = Result<ExecSession, RpcError>> + Send;

    /// The data of an allocation as a tar, for its successor on another node.
    fn alloc_snapshot(&self, alloc: AllocId) -> impl Future<Output = Result<mpsc::Receiver<std::io::Result<Bytes>>, RpcError>> + Send;

    /// `ClientStats.Stats`, as the JSON of host statistics.
    fn host_stats(&self) -> impl Future<Output = Result<Bytes, RpcError>> + Send;

    /// `Agent.Host`, as the JSON of `HostData`.
    fn agent_host(&self) -> impl Future<Output = Result<Bytes, RpcError>> + Send;

    /// `Agent.Profile`: how the agent spends its time or memory.
    fn agent_profile(&self, ask: AskProfile) -> impl Future<Output = Result<Profile, RpcError>> + Send;

    /// `Agent.Monitor`: what the agent logs from now on, in frames.
    fn agent_monitor(
        &self,
        ask: AskMonitor,
    ) -> impl Future<Output = Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError>> + Send;
}

/// `NodeMetaResponse` of the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeMeta {
    /// What the node has.
    pub meta: BTreeMap<Str, Str>,
    /// What was set while it ran; `None` hides a static key.
    pub dynamic: BTreeMap<Str, Option<Str>>,
    /// What its configuration says.
    #[serde(rename = "Static")]
    pub fixed: BTreeMap<Str, Str>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocFileInfo {
    /// Its name without directories.
    pub name: Str,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Bytes.
    pub size: i64,
    /// As `-rw-r--r--`.
    pub file_mode: Str,
    /// Last change.
    pub mod_time: Time,
    /// Only from stat on files.
    #[serde(skip_serializing_if = "Str::is_empty", default)]
    pub content_type: Str,
}

/// Which part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadFile {
    /// Whose.
    pub alloc: AllocId,
    /// Relative to the allocation's directory.
    pub path: Str,
    /// Bytes from `origin`.
    pub offset: i64,
    /// `start` or `end`.
    pub origin: Origin,
    /// At most this many bytes; 0 is no limit.
    pub limit: u64,
    /// Whether to wait for more at the end.
    pub follow: bool,
}

/// Which part of a task's log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadLogs {
    /// Whose.
    pub alloc: AllocId,
    /// Of which task.
    pub task: Str,
    /// `stdout` or `stderr`.
    pub kind: Str,
    /// Bytes from `origin`.
    pub offset: i64,
    /// From which end.
    pub origin: Origin,
    /// Whether to wait for more.
    pub follow: bool,
}

/// From where an offset counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// Forward from the beginning.
    #[default]
    Start,
    /// Backward from the end.
    End,
}

/// A piece of a file. An empty one is a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamFrame {
    /// Bytes before this piece.
    pub offset: i64,
    /// The bytes.
    pub data: Bytes,
    /// Relative path of the file.
    pub file: Str,
    /// `truncated`, `deleted`, or empty.
    pub file_event: Str,
}
