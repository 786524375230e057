//! Who may what of that which servers ask in users' names. Servers have looked at it before; a node looks again, as somebody who only got hold of
//! a server's connection must not read every task's secrets.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use songline_model::{AllocId, NodeId, Secret, Str};
use songline_rpc::RpcError;
use songline_rpc::agent_wire::ALLOC_SNAPSHOT;
use songline_rpc::message::{
    AgentHost, AgentMonitor, AgentProfile, AllocationsExec, AllocationsGarbageCollect, AllocationsGarbageCollectAll, AllocationsRestart,
    AllocationsSignal, AllocationsStats, Call, ClientStats, FileSystemList, FileSystemLogs, FileSystemStat, FileSystemStream,
    NodeMetaApply, NodeMetaRead, StreamCall,
};

/// What a caller has to be allowed. Those with an allocation are about its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// `alloc-lifecycle`.
    Lifecycle,
    /// `alloc-exec`, and `alloc-node-exec` for a task that is not kept apart from the node.
    Exec,
    /// `read-fs`.
    ReadFs,
    /// `read-logs` or `read-fs`.
    ReadLogs,
    /// `read-job`.
    ReadJob,
    /// `submit-job`.
    SubmitJob,
    /// `node:read`.
    NodeRead,
    /// `node:write`.
    NodeWrite,
    /// `agent:read`.
    AgentRead,
    /// `agent:write`.
    AgentWrite,
    /// To have the token of the allocation's move.
    Move,
}

/// What is asked, by whom and of what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Asked {
    /// Who asks: the secret of a token, an identity, or nothing.
    pub auth_token: Secret,
    /// Of which allocation.
    #[serde(rename = "AllocID")]
    pub alloc_id: AllocId,
    /// Of which task.
    pub task: Str,
    /// Of which node.
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
}

/// Decides who may.
pub trait Guard: Send + Sync {
    /// Whether the caller may; if not, why.
    fn may(&self, right: Right, asked: Asked) -> BoxFuture<'_, Result<(), RpcError>>;
}

/// What a caller of a method has to be allowed. `None`: there is no such method.
pub(super) fn right_for(method: &str) -> Option<Right> {
    Some(match method {
        AllocationsRestart::METHOD | AllocationsSignal::METHOD => Right::Lifecycle,
        AllocationsGarbageCollect::METHOD => Right::SubmitJob,
        AllocationsGarbageCollectAll::METHOD | NodeMetaApply::METHOD => Right::NodeWrite,
        AllocationsStats::METHOD => Right::ReadJob,
        ClientStats::METHOD | NodeMetaRead::METHOD => Right::NodeRead,
        FileSystemList::METHOD | FileSystemStat::METHOD | FileSystemStream::METHOD => Right::ReadFs,
        FileSystemLogs::METHOD => Right::ReadLogs,
        AllocationsExec::METHOD => Right::Exec,
        ALLOC_SNAPSHOT => Right::Move,
        AgentHost::METHOD | AgentMonitor::METHOD => Right::AgentRead,
        AgentProfile::METHOD => Right::AgentWrite,
        _ => return None,
    })
}
