//! Authorization of servers' calls in users' names. Servers have authorized the user before. The node authorizes
//! again, so that an attacker with a server's connection alone cannot read every task's secrets.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use songline_model::{AllocId, NodeId, Secret, Str};
use songline_rpc::RpcError;
use songline_rpc::agent_wire::ALLOC_SNAPSHOT;
use songline_rpc::message::{
    AgentHost, AgentMonitor, AgentProfile, AllocationsChecks, AllocationsExec, AllocationsGarbageCollect,
    AllocationsGarbageCollectAll, AllocationsRestart, AllocationsSignal, AllocationsStats, Call, ClientStats,
    FileSystemList, FileSystemLogs, FileSystemStat, FileSystemStream, NodeMetaApply, NodeMetaRead, StreamCall,
};

/// A right that a caller needs. Rights with an allocation apply to its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// `alloc-lifecycle`.
    Lifecycle,
    /// `alloc-exec`, and `alloc-node-exec` for a task that is not isolated from the node.
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
    /// The token of the allocation's migration.
    Move,
}

/// Caller and subject of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Asked {
    /// The caller's credential: the secret of a token, an identity, or empty.
    pub auth_token: Secret,
    /// Allocation.
    #[serde(rename = "AllocID")]
    pub alloc_id: AllocId,
    /// Task.
    pub task: Str,
    /// Node.
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
}

/// Authorizes callers.
pub trait Guard: Send + Sync {
    /// Returns an error unless the caller has the right.
    fn may(&self, right: Right, asked: Asked) -> BoxFuture<'_, Result<(), RpcError>>;
}

/// Right that a method needs. `None` for an unknown method.
pub(super) fn right_for(method: &str) -> Option<Right> {
    Some(match method {
        AllocationsRestart::METHOD | AllocationsSignal::METHOD => Right::Lifecycle,
        AllocationsGarbageCollect::METHOD => Right::SubmitJob,
        AllocationsGarbageCollectAll::METHOD | NodeMetaApply::METHOD => Right::NodeWrite,
        AllocationsChecks::METHOD | AllocationsStats::METHOD => Right::ReadJob,
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
