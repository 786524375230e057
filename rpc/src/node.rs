//! Calls of the servers to a node agent, also on behalf of an HTTP request that a server forwards.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use songline_model::{AllocId, Str, Time};
use tokio::sync::mpsc;

use crate::message::CheckResult;
use crate::{AskMonitor, AskProfile, ExecCommand, ExecSession, Profile, RpcError};

/// Calls that a node agent answers. Unknown allocations are `Coded { 404, "Unknown allocation \"X\"" }`.
pub trait NodeAgent: Send + Sync + 'static {
    /// `FileSystem.List`: the entries of a directory of an allocation; `path` is relative to the allocation's
    /// directory.
    fn fs_list(&self, alloc: AllocId, path: &str) -> impl Future<Output = Result<Vec<AllocFileInfo>, RpcError>> + Send;

    /// `FileSystem.Stat`: one file or directory.
    fn fs_stat(&self, alloc: AllocId, path: &str) -> impl Future<Output = Result<AllocFileInfo, RpcError>> + Send;

    /// `FileSystem.Stream`, also for `cat` and `readat`: the bytes of a file from an offset on, in frames. Ends at the
    /// end of the file unless `follow`, or after `limit` bytes if that is above 0.
    fn fs_read(
        &self,
        read: ReadFile,
    ) -> impl Future<Output = Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError>> + Send;

    /// `FileSystem.Logs`: stdout or stderr of a task across its rotated files, in frames.
    fn fs_logs(
        &self,
        logs: ReadLogs,
    ) -> impl Future<Output = Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError>> + Send;

    /// `Allocations.Restart`: one task, or every running one (`task` empty); `all` also restarts tasks that have ended.
    fn alloc_restart(&self, alloc: AllocId, task: &str, all: bool)
    -> impl Future<Output = Result<(), RpcError>> + Send;

    /// `Allocations.Signal`: one task, or all of them (`task` empty).
    fn alloc_signal(
        &self,
        alloc: AllocId,
        task: &str,
        signal: &str,
    ) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// `Allocations.GarbageCollect`: removes the files of a terminal allocation.
    fn alloc_gc(&self, alloc: AllocId) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// `ClientAllocations.GarbageCollectAll`: removes the files of all terminal allocations.
    fn gc_all(&self) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// `ClientAllocations.Stats`, as the JSON of `AllocResourceUsage`.
    fn alloc_stats(&self, alloc: AllocId, task: &str) -> impl Future<Output = Result<Bytes, RpcError>> + Send;

    /// `Allocations.Checks`: the newest results of an allocation's checks.
    fn alloc_checks(&self, alloc: AllocId)
    -> impl Future<Output = Result<BTreeMap<Str, CheckResult>, RpcError>> + Send;

    /// `NodeMeta.Read`: the node's metadata, with its sources.
    fn node_meta(&self) -> impl Future<Output = Result<NodeMeta, RpcError>> + Send;

    /// `NodeMeta.Apply`: sets keys, or removes them (`None`). Returns once the change is durable on the node; the node
    /// registers again soon after.
    fn node_meta_apply(
        &self,
        change: BTreeMap<Str, Option<Str>>,
    ) -> impl Future<Output = Result<NodeMeta, RpcError>> + Send;

    /// `Allocations.Exec`: runs a command in a running task. Returns once the task is known to exist; errors of
    /// starting the command come through the session.
    fn alloc_exec(&self, command: ExecCommand) -> impl Future<Output = Result<ExecSession, RpcError>> + Send;

    /// The data of an allocation as a tar, for its successor on another node.
    fn alloc_snapshot(
        &self,
        alloc: AllocId,
    ) -> impl Future<Output = Result<mpsc::Receiver<std::io::Result<Bytes>>, RpcError>> + Send;

    /// `ClientStats.Stats`, as the JSON of host statistics.
    fn host_stats(&self) -> impl Future<Output = Result<Bytes, RpcError>> + Send;

    /// `Agent.Host`, as the JSON of `HostData`.
    fn agent_host(&self) -> impl Future<Output = Result<Bytes, RpcError>> + Send;

    /// `Agent.Profile`: a profile of the agent's time or memory.
    fn agent_profile(&self, ask: AskProfile) -> impl Future<Output = Result<Profile, RpcError>> + Send;

    /// `Agent.Monitor`: the agent's log lines from now on, in frames.
    fn agent_monitor(
        &self,
        ask: AskMonitor,
    ) -> impl Future<Output = Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError>> + Send;
}

/// Metadata of a node: `NodeMetaResponse` on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeMeta {
    /// Effective metadata of the node.
    pub meta: BTreeMap<Str, Str>,
    /// Metadata set at run time; `None` hides a static key.
    pub dynamic: BTreeMap<Str, Option<Str>>,
    /// Metadata from the node's configuration.
    #[serde(rename = "Static")]
    pub fixed: BTreeMap<Str, Str>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocFileInfo {
    /// Name without directories.
    pub name: Str,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Size in bytes.
    pub size: i64,
    /// Mode, as `-rw-r--r--`.
    pub file_mode: Str,
    /// Time of the last change.
    pub mod_time: Time,
    /// Content type; set only by stat on files.
    #[serde(skip_serializing_if = "Str::is_empty", default)]
    pub content_type: Str,
}

/// Request for a part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadFile {
    /// The allocation.
    pub alloc: AllocId,
    /// Path relative to the allocation's directory.
    pub path: Str,
    /// Distance from `origin`, in bytes.
    pub offset: i64,
    /// Start point of `offset`.
    pub origin: Origin,
    /// Most bytes to send; 0 means unlimited.
    pub limit: u64,
    /// Whether to wait for more data at the end of the file.
    pub follow: bool,
}

/// Request for a part of a task's log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadLogs {
    /// The allocation.
    pub alloc: AllocId,
    /// The task.
    pub task: Str,
    /// `stdout` or `stderr`.
    pub kind: Str,
    /// Distance from `origin`, in bytes.
    pub offset: i64,
    /// Start point of `offset`.
    pub origin: Origin,
    /// Whether to wait for more data.
    pub follow: bool,
}

/// Start point of an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// Forward from the beginning.
    #[default]
    Start,
    /// Backward from the end.
    End,
}

/// A piece of a file. An empty frame is a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamFrame {
    /// Offset of the piece in the file, in bytes.
    pub offset: i64,
    /// Bytes of the piece.
    pub data: Bytes,
    /// Relative path of the file.
    pub file: Str,
    /// `truncated`, `deleted`, or empty.
    pub file_event: Str,
}
