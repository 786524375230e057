//! `Node`: registration, heartbeats and reports of nodes, and the answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, AllocNetworkStatus, DrainStrategy, Dur, EvalId, FlatMap, Node,
    NodeEvent, NodeId, Secret, Str, TaskState,
};

use super::message;

message! {
    /// Registers a node with its full description.
    write NodeRegister ("Node.Register" -> NodeUpdate) {
        /// The node; `None` in an empty request.
        node: Option<Node>,
        node_event: Option<NodeEvent>,
        /// Whether a missing node pool is created.
        create_node_pool: bool,
    }
}
message! {
    /// The heartbeat.
    write NodeUpdateStatus ("Node.UpdateStatus" -> NodeUpdate) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        /// Always `ready`; servers refuse other words.
        status: Str,
        node_event: Option<NodeEvent>,
        /// Unix seconds; zero from nodes.
        updated_at: i64,
    }
}
message! {
    /// Answer to registration and heartbeat.
    answer NodeUpdate {
        /// Time within which the next heartbeat has to come; 0 when the node is down.
        #[serde(rename = "HeartbeatTTL")]
        heartbeat_ttl: Dur,
        #[serde(rename = "EvalIDs")]
        eval_ids: Option<Vec<EvalId>>,
        eval_create_index: u64,
        node_modify_index: u64,
        features: u64,
        /// Address of the leader, `host:port`; empty without a leader.
        #[serde(rename = "LeaderRPCAddr")]
        leader_rpc_addr: Str,
        /// Number of nodes in the cluster.
        num_nodes: i32,
        /// All servers; replaces the node's list. Never empty.
        servers: Option<Vec<NodeServerInfo>>,
        /// The node adopts this value unless it is empty.
        scheduling_eligibility: Str,
    }
}
message! {
    /// Address of a server.
    plain NodeServerInfo {
        /// `host:port`.
        #[serde(rename = "RPCAdvertiseAddr")]
        rpc_advertise_addr: Str,
        /// Always 0.
        #[serde(rename = "RPCMajorVersion")]
        rpc_major_version: i32,
        /// Always 0.
        #[serde(rename = "RPCMinorVersion")]
        rpc_minor_version: i32,
        datacenter: Str,
    }
}
message! {
    /// Asks for the allocations that a node should run.
    read NodeGetClientAllocs ("Node.GetClientAllocs" -> NodeClientAllocs) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// The allocations, with their `AllocModifyIndex`.
    answer NodeClientAllocs {
        allocs: Option<FlatMap<AllocId, u64>>,
        /// Tokens of allocations that take over data from another node.
        migrate_tokens: Option<BTreeMap<AllocId, Str>>,
    }
}
message! {
    /// Reports the client status of allocations.
    write NodeUpdateAlloc ("Node.UpdateAlloc" -> Written) {
        /// Only the fields of an [`AllocReport`] count.
        alloc: Option<Vec<AllocReport>>,
        /// Evaluations, added by servers; nodes send none.
        #[serde(skip_serializing_if = "Option::is_none")]
        evals: Option<Vec<songline_model::Evaluation>>,
    }
}
message! {
    /// Report of a node about one of its allocations: an allocation with few fields. Empty ones are left out.
    plain AllocReport {
        /// Id of the allocation.
        #[serde(rename = "ID")]
        id: AllocId,
        /// The node that reports. Set when the report is sent; servers use the authenticated node.
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        /// Client status.
        client_status: AllocClientStatus,
        /// Description of the status for users.
        #[serde(skip_serializing_if = "Str::is_empty")]
        client_description: Str,
        /// State of each task, by task name; shared all the way to the command. `None` from a node that knows none.
        #[serde(skip_serializing_if = "Option::is_none")]
        task_states: Option<Arc<FlatMap<Str, TaskState>>>,
        /// Health for the deployment, once known.
        #[serde(skip_serializing_if = "Option::is_none")]
        deployment_status: Option<AllocDeploymentStatus>,
        /// Network address, once known.
        #[serde(skip_serializing_if = "Option::is_none")]
        network_status: Option<AllocNetworkStatus>,
    }
}
impl AllocReport {
    /// States of the tasks, in the order of their names.
    pub fn tasks(&self) -> impl Iterator<Item = (&Str, &TaskState)> {
        self.task_states.iter().flat_map(|states| states.iter())
    }

    /// State of a task.
    pub fn task(&self, name: &str) -> Option<&TaskState> {
        self.task_states.as_ref()?.get(name)
    }
}
message! {
    /// Answer to a write, with nothing but the index.
    written Written {}
}
message! {
    /// Reports events on nodes.
    write NodeEmitEvents ("Node.EmitEvents" -> Written) {
        node_events: Option<BTreeMap<NodeId, Option<Vec<NodeEvent>>>>,
    }
}
message! {
    /// Asks for a node.
    read NodeGetNode ("Node.GetNode" -> NodeGetNodeAnswer) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// The node, without its secret.
    answer NodeGetNodeAnswer {
        node: Option<Node>,
    }
}
message! {
    /// Asks for tokens of Vault for tasks of an allocation of the node.
    read NodeDeriveVaultToken ("Node.DeriveVaultToken" -> VaultTokens) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        /// Names of the tasks.
        tasks: Option<Vec<Str>>,
    }
}
message! {
    /// Wrapped tokens by task, from which the node takes the tokens; or an error.
    answer VaultTokens {
        tasks: Option<BTreeMap<Str, Secret>>,
        error: Option<RecoverableError>,
    }
}
message! {
    /// An error, and whether the same request may succeed later.
    plain RecoverableError {
        err: Str,
        recoverable: bool,
    }
}
message! {
    /// Drains a node, or ends its drain.
    write NodeUpdateDrain ("Node.UpdateDrain" -> NodeUpdateDrainAnswer) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        /// The drain; `None` ends it.
        drain_strategy: Option<DrainStrategy>,
        /// Whether a node whose drain ends becomes eligible again.
        mark_eligible: bool,
        node_event: Option<NodeEvent>,
        meta: Option<BTreeMap<Str, Str>>,
        /// Unix seconds; zero from nodes.
        updated_at: i64,
    }
}
message! {
    /// Result of the drain request.
    written NodeUpdateDrainAnswer {
        node_modify_index: u64,
        #[serde(rename = "EvalIDs")]
        eval_ids: Option<Vec<EvalId>>,
        eval_create_index: u64,
    }
}
