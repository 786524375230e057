//! A node without a path to it.

use std::collections::BTreeMap;

use bytes::Bytes;
use songline_model::{AllocId, Str};
use songline_rpc::message::CheckResult;
use songline_rpc::{
    AllocFileInfo, AskMonitor, AskProfile, ExecCommand, ExecSession, NodeAgent, NodeMeta, Profile, ReadFile, ReadLogs,
    RpcError, StreamFrame,
};
use tokio::sync::mpsc;

/// Agent of a node that cannot be reached.
pub struct NoNode;

fn no_path<T>() -> Result<T, RpcError> {
    Err(RpcError::Coded { code: 404, text: "No path to node".to_owned() })
}

type Frames = mpsc::Receiver<Result<StreamFrame, RpcError>>;

impl NodeAgent for NoNode {
    async fn fs_list(&self, _: AllocId, _: &str) -> Result<Vec<AllocFileInfo>, RpcError> {
        no_path()
    }
    async fn fs_stat(&self, _: AllocId, _: &str) -> Result<AllocFileInfo, RpcError> {
        no_path()
    }
    async fn fs_read(&self, _: ReadFile) -> Result<Frames, RpcError> {
        no_path()
    }
    async fn fs_logs(&self, _: ReadLogs) -> Result<Frames, RpcError> {
        no_path()
    }
    async fn alloc_restart(&self, _: AllocId, _: &str, _: bool) -> Result<(), RpcError> {
        no_path()
    }
    async fn alloc_signal(&self, _: AllocId, _: &str, _: &str) -> Result<(), RpcError> {
        no_path()
    }
    async fn alloc_exec(&self, _: ExecCommand) -> Result<ExecSession, RpcError> {
        no_path()
    }
    async fn alloc_snapshot(&self, _: AllocId) -> Result<mpsc::Receiver<std::io::Result<Bytes>>, RpcError> {
        no_path()
    }
    async fn alloc_gc(&self, _: AllocId) -> Result<(), RpcError> {
        no_path()
    }
    async fn gc_all(&self) -> Result<(), RpcError> {
        no_path()
    }
    async fn agent_host(&self) -> Result<Bytes, RpcError> {
        no_path()
    }
    async fn agent_profile(&self, _: AskProfile) -> Result<Profile, RpcError> {
        no_path()
    }
    async fn agent_monitor(&self, _: AskMonitor) -> Result<Frames, RpcError> {
        no_path()
    }
    async fn node_meta(&self) -> Result<NodeMeta, RpcError> {
        no_path()
    }
    async fn node_meta_apply(&self, _: BTreeMap<Str, Option<Str>>) -> Result<NodeMeta, RpcError> {
        no_path()
    }
    async fn alloc_checks(&self, _: AllocId) -> Result<BTreeMap<Str, CheckResult>, RpcError> {
        no_path()
    }
    async fn alloc_stats(&self, _: AllocId, _: &str) -> Result<Bytes, RpcError> {
        no_path()
    }
    async fn host_stats(&self) -> Result<Bytes, RpcError> {
        no_path()
    }
}
