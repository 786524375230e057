//! What servers ask of node agents, with one answer: `Allocations`, `ClientStats`, `FileSystem`, `NodeMeta`, `Agent`. Streams are in
//! `stream`.

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
        /// Empty: every running one.
        task_name: Str,
        /// Also those that have ended.
        all_tasks: bool,
    }
}
message! {
    /// Sends a signal to tasks.
    read AllocationsSignal ("Allocations.Signal" -> Written) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        /// Empty: all of them.
        task: Str,
        signal: Str,
    }
}
message! {
    /// Removes what is left of an allocation.
    read AllocationsGarbageCollect ("Allocations.GarbageCollect" -> Written) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
    }
}
message! {
    /// Removes what is left of all that have ended.
    read AllocationsGarbageCollectAll ("Allocations.GarbageCollectAll" -> Written) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// Asks what an allocation uses.
    read AllocationsStats ("Allocations.Stats" -> AllocationsStatsAnswer) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        /// Empty: all of them.
        task: Str,
    }
}
message! {
    /// What it uses, as the node measured it.
    answer AllocationsStatsAnswer {
        stats: RawValue,
    }
}
message! {
    /// Asks what checks of an allocation's services said.
    read AllocationsChecks ("Allocations.Checks" -> AllocationsChecksAnswer) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
    }
}
message! {
    /// The newest results, by the ids of the checks.
    answer AllocationsChecksAnswer {
        results: Option<BTreeMap<Str, CheckResult>>,
    }
}
message! {
    /// What a check said.
    plain CheckResult {
        #[serde(rename = "ID")]
        id: Str,
        mode: Str,
        status: Str,
        output: Str,
        /// Unix seconds.
        timestamp: i64,
        /// Of HTTP.
        status_code: i64,
        group: Str,
        task: Str,
        service: Str,
        check: Str,
    }
}
message! {
    /// Asks what a node uses.
    read ClientStats ("ClientStats.Stats" -> ClientStatsAnswer) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// What it uses, as it measured it.
    answer ClientStatsAnswer {
        host_stats: RawValue,
    }
}
message! {
    /// Asks what is in a directory.
    read FileSystemList ("FileSystem.List" -> FileSystemListAnswer) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        path: Str,
    }
}
message! {
    /// Its entries.
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
    /// What it is.
    answer FileSystemStatAnswer {
        info: Option<WireFileInfo>,
    }
}
message! {
    /// An entry of a directory as the wire has it: every field is there.
    plain WireFileInfo {
        name: Str,
        is_dir: bool,
        /// Bytes.
        size: i64,
        /// As `-rw-r--r--`.
        file_mode: Str,
        mod_time: songline_model::Time,
        content_type: Str,
    }
}
message! {
    /// Sets what a node has as meta.
    read NodeMetaApply ("NodeMeta.Apply" -> crate::NodeMeta) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        /// `None` takes a key away.
        meta: Option<BTreeMap<Str, Option<Str>>>,
    }
}
message! {
    /// Asks for it.
    read NodeMetaRead ("NodeMeta.Read" -> crate::NodeMeta) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// Asks how an agent spends its time or memory.
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
    /// What it says.
    plain AgentProfileAnswer {
        #[serde(rename = "AgentID")]
        agent_id: Str,
        payload: Option<Blob>,
        #[serde(rename = "HTTPHeaders")]
        http_headers: Option<BTreeMap<Str, Str>>,
    }
}
message! {
    /// Asks what an agent's machine is.
    read AgentHost ("Agent.Host" -> AgentHostAnswer) {
        #[serde(rename = "ServerID")]
        server_id: Str,
        #[serde(rename = "NodeID")]
        node_id: Str,
    }
}
message! {
    /// What it is.
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
