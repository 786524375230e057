//! Requests of servers to node agents with one answer: `Allocations`, `ClientStats`, `FileSystem`, `NodeMeta`, `Agent`.
//! Streams are in `stream`.

use std::collections::BTreeMap;

use songline_model::{AllocId, Blob, NodeId, Secret, Str};

use super::{Written, message};
use crate::AllocFileInfo;
use crate::msgpack::RawValue;

message! {
    /// Restarts tasks.
    read AllocationsRestart ("Allocations.Restart" -> Written) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        /// Name of the task; empty means every running one.
        task_name: Str,
        /// Whether tasks that have ended are restarted too.
        all_tasks: bool,
    }
}
message! {
    /// Sends a signal to tasks.
    read AllocationsSignal ("Allocations.Signal" -> Written) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        /// Name of the task; empty means all.
        task: Str,
        signal: Str,
    }
}
message! {
    /// Removes the files of a terminal allocation.
    read AllocationsGarbageCollect ("Allocations.GarbageCollect" -> Written) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
    }
}
message! {
    /// Removes the files of all terminal allocations.
    read AllocationsGarbageCollectAll ("Allocations.GarbageCollectAll" -> Written) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// Asks for the resource usage of an allocation.
    read AllocationsStats ("Allocations.Stats" -> AllocationsStatsAnswer) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        /// Name of the task; empty means all.
        task: Str,
    }
}
message! {
    /// The usage, as the node measured it.
    answer AllocationsStatsAnswer {
        stats: RawValue,
    }
}
message! {
    /// Asks for the results of the checks of an allocation's services.
    read AllocationsChecks ("Allocations.Checks" -> AllocationsChecksAnswer) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
    }
}
message! {
    /// The newest results, by check id.
    answer AllocationsChecksAnswer {
        results: Option<BTreeMap<Str, CheckResult>>,
    }
}
message! {
    /// Result of a check.
    plain CheckResult {
        #[serde(rename = "ID")]
        id: Str,
        mode: Str,
        status: Str,
        output: Str,
        /// Time of the result, in Unix seconds.
        timestamp: i64,
        /// Status code of an HTTP check.
        status_code: i64,
        group: Str,
        task: Str,
        service: Str,
        check: Str,
    }
}
message! {
    /// Asks for the resource usage of a node.
    read ClientStats ("ClientStats.Stats" -> ClientStatsAnswer) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// The usage, as the node measured it.
    answer ClientStatsAnswer {
        host_stats: RawValue,
    }
}
message! {
    /// Asks for the entries of a directory.
    read FileSystemList ("FileSystem.List" -> FileSystemListAnswer) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        path: Str,
    }
}
message! {
    /// The entries of the directory.
    answer FileSystemListAnswer {
        files: Option<Vec<WireFileInfo>>,
    }
}
message! {
    /// Asks for one file or directory.
    read FileSystemStat ("FileSystem.Stat" -> FileSystemStatAnswer) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        path: Str,
    }
}
message! {
    /// The file or directory.
    answer FileSystemStatAnswer {
        info: Option<WireFileInfo>,
    }
}
message! {
    /// An entry of a directory as on the wire: all fields are present.
    plain WireFileInfo {
        name: Str,
        is_dir: bool,
        /// Size in bytes.
        size: i64,
        /// Mode, as `-rw-r--r--`.
        file_mode: Str,
        mod_time: songline_model::Time,
        content_type: Str,
    }
}
message! {
    /// Changes a node's dynamic metadata.
    read NodeMetaApply ("NodeMeta.Apply" -> crate::NodeMeta) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        /// New values by key; `None` removes a key.
        meta: Option<BTreeMap<Str, Option<Str>>>,
    }
}
message! {
    /// Asks for a node's metadata.
    read NodeMetaRead ("NodeMeta.Read" -> crate::NodeMeta) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// Asks for a profile of an agent.
    read AgentProfile ("Agent.Profile" -> AgentProfileAnswer) {
        req_type: Str,
        profile: Str,
        seconds: i64,
        debug: i64,
        #[serde(rename = "GC")]
        gc: i64,
        #[serde(rename = "NodeID")]
        node_id: Str,
        #[serde(rename = "ServerID")]
        server_id: Str,
    }
}
message! {
    /// The profile.
    plain AgentProfileAnswer {
        #[serde(rename = "AgentID")]
        agent_id: Str,
        payload: Option<Blob>,
        #[serde(rename = "HTTPHeaders")]
        http_headers: Option<BTreeMap<Str, Str>>,
    }
}
message! {
    /// Asks for data about an agent's machine.
    read AgentHost ("Agent.Host" -> AgentHostAnswer) {
        #[serde(rename = "ServerID")]
        server_id: Str,
        #[serde(rename = "NodeID")]
        node_id: Str,
    }
}
message! {
    /// Data about the machine.
    plain AgentHostAnswer {
        #[serde(rename = "AgentID")]
        agent_id: Str,
        host_data: RawValue,
    }
}

impl From<AllocFileInfo> for WireFileInfo {
    fn from(info: AllocFileInfo) -> Self {
        let AllocFileInfo { name, is_dir, size, file_mode, mod_time, content_type } = info;
        Self { name, is_dir, size, file_mode, mod_time, content_type }
    }
}

impl From<WireFileInfo> for AllocFileInfo {
    fn from(info: WireFileInfo) -> Self {
        let WireFileInfo { name, is_dir, size, file_mode, mod_time, content_type } = info;
        Self { name, is_dir, size, file_mode, mod_time, content_type }
    }
}
