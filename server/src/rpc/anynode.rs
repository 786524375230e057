//! A node in this process or on the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use songline_model::{AllocId, NodeId, Secret, Str};
use songline_rpc::message::CheckResult;
use songline_rpc::{
    AllocFileInfo, AskMonitor, AskProfile, ExecCommand, ExecSession, NodeAgent, NodeMeta, Profile, ReadFile, ReadLogs,
    RpcError, StreamFrame,
};
use tokio::sync::mpsc;

use super::super::Core;
use super::local::LocalNode;
use super::remote::{RemoteNode, remote_node};

/// A node that is called in process or over the network.
pub enum AnyNode {
    /// In this process.
    Local(Arc<dyn LocalNode>),
    /// On the network.
    Remote(RemoteNode),
}

impl Core {
    /// The node, if it may be reachable. `token` is the user's token, which remote nodes check.
    pub(crate) fn any_node(&self, id: NodeId, token: Secret) -> Option<Arc<AnyNode>> {
        if let Some(local) = self.connections.local_nodes().get(&id) {
            return Some(Arc::new(AnyNode::Local(Arc::clone(local))));
        }
        // Another server may have a session with the node; the call itself finds out.
        let reachable =
            self.connections.sessions.newest(id).is_some() || self.log().members().borrow().addresses.len() > 1;
        let known = reachable && self.view().node(id).is_some();
        known.then(|| Arc::new(AnyNode::Remote(remote_node(self, id, token))))
    }
}

/// Makes the same call on either kind of node.
macro_rules! either {
    ($node:expr, $with:ident => $call:expr) => {
        match $node {
            AnyNode::Local($with) => $call.await,
            AnyNode::Remote($with) => $call.await,
        }
    };
}

impl NodeAgent for AnyNode {
    async fn fs_list(&self, alloc: AllocId, path: &str) -> Result<Vec<AllocFileInfo>, RpcError> {
        either!(self, node => node.fs_list(alloc, path))
    }

    async fn fs_stat(&self, alloc: AllocId, path: &str) -> Result<AllocFileInfo, RpcError> {
        either!(self, node => node.fs_stat(alloc, path))
    }

    async fn fs_read(&self, read: ReadFile) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        either!(self, node => node.fs_read(read))
    }

    async fn fs_logs(&self, logs: ReadLogs) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        either!(self, node => node.fs_logs(logs))
    }

    async fn alloc_restart(&self, alloc: AllocId, task: &str, all: bool) -> Result<(), RpcError> {
        either!(self, node => node.alloc_restart(alloc, task, all))
    }

    async fn alloc_signal(&self, alloc: AllocId, task: &str, signal: &str) -> Result<(), RpcError> {
        either!(self, node => node.alloc_signal(alloc, task, signal))
    }

    async fn alloc_gc(&self, alloc: AllocId) -> Result<(), RpcError> {
        either!(self, node => node.alloc_gc(alloc))
    }

    async fn gc_all(&self) -> Result<(), RpcError> {
        either!(self, node => node.gc_all())
    }

    async fn alloc_stats(&self, alloc: AllocId, task: &str) -> Result<Bytes, RpcError> {
        either!(self, node => node.alloc_stats(alloc, task))
    }

    async fn alloc_checks(&self, alloc: AllocId) -> Result<BTreeMap<Str, CheckResult>, RpcError> {
        either!(self, node => node.alloc_checks(alloc))
    }

    async fn node_meta(&self) -> Result<NodeMeta, RpcError> {
        either!(self, node => node.node_meta())
    }

    async fn node_meta_apply(&self, change: BTreeMap<Str, Option<Str>>) -> Result<NodeMeta, RpcError> {
        either!(self, node => node.node_meta_apply(change))
    }

    async fn alloc_exec(&self, command: ExecCommand) -> Result<ExecSession, RpcError> {
        either!(self, node => node.alloc_exec(command))
    }

    async fn alloc_snapshot(&self, alloc: AllocId) -> Result<mpsc::Receiver<std::io::Result<Bytes>>, RpcError> {
        either!(self, node => node.alloc_snapshot(alloc))
    }

    async fn host_stats(&self) -> Result<Bytes, RpcError> {
        either!(self, node => node.host_stats())
    }

    async fn agent_host(&self) -> Result<Bytes, RpcError> {
        either!(self, node => node.agent_host())
    }

    async fn agent_profile(&self, ask: AskProfile) -> Result<Profile, RpcError> {
        either!(self, node => node.agent_profile(ask))
    }

    async fn agent_monitor(&self, ask: AskMonitor) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        either!(self, node => node.agent_monitor(ask))
    }
}
