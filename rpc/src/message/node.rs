//! `Node`: what nodes say of themselves and what they are told.

use std::collections::BTreeMap;

use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, AllocNetworkStatus, DrainStrategy, Dur, EvalId, Node, NodeEvent, NodeId, Secret,
    Str, TaskState,
};

use super::message;

message! {
    /// A node tells all about itself.
    write NodeRegister ("Node.Register" -> NodeUpdate) {
        /// Absent in a request that says nothing.
        node: Option<Node>,
        node_event: Option<NodeEvent>,
        /// Whether a pool that is not there is made.
        create_node_pool: bool,
    }
}
message! {
    /// The heartbeat.
    write NodeUpdateStatus ("Node.UpdateStatus" -> NodeUpdate) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        /// `ready`; other words are refused by whoever answers.
        status: Str,
        node_event: Option<NodeEvent>,
        /// Unix seconds; zero from nodes.
        updated_at: i64,
    }
}
message! {
    /// Answer to registration and heartbeat.
    answer NodeUpdate {
        /// The next heartbeat has to come within this time; 0 when the node is down.
        #[serde(rename = "HeartbeatTTL")]
        heartbeat_ttl: Dur,
        #[serde(rename = "EvalIDs")]
        eval_ids: Option<Vec<EvalId>>,
        eval_create_index: u64,
        node_modify_index: u64,
        features: u64,
        /// `host:port`; empty when there is none.
        #[serde(rename = "LeaderRPCAddr")]
        leader_rpc_addr: Str,
        /// How many nodes there are.
        num_nodes: i32,
        /// Replaces what the node knows; never empty.
        servers: Option<Vec<NodeServerInfo>>,
        /// Taken over when not empty.
        scheduling_eligibility: Str,
    }
}
message! {
    /// Where a server listens.
    plain NodeServerInfo {
        /// `host:port`.
        #[serde(rename = "RPCAdvertiseAddr")]
        rpc_advertise_addr: Str,
        /// 0.
        #[serde(rename = "RPCMajorVersion")]
        rpc_major_version: i32,
        /// 0.
        #[serde(rename = "RPCMinorVersion")]
        rpc_minor_version: i32,
        datacenter: Str,
    }
}
message! {
    /// Asks which allocations a node should have.
    read NodeGetClientAllocs ("Node.GetClientAllocs" -> NodeClientAllocs) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// They, with their `AllocModifyIndex`.
    answer NodeClientAllocs {
        allocs: Option<BTreeMap<AllocId, u64>>,
        /// For those that take over data from another node.
        migrate_tokens: Option<BTreeMap<AllocId, Str>>,
    }
}
message! {
    /// How allocations fare.
    write NodeUpdateAlloc ("Node.UpdateAlloc" -> Written) {
        /// Only what an [`AllocReport`] has counts.
        alloc: Option<Vec<AllocReport>>,
        /// Made by servers; nodes send none.
        #[serde(skip_serializing_if = "Option::is_none")]
        evals: Option<Vec<songline_model::Evaluation>>,
    }
}
message! {
    /// What a node says of one of its allocations: an allocation with few fields. Empty ones are left out.
    plain AllocReport {
        #[serde(rename = "ID")]
        id: AllocId,
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        client_status: AllocClientStatus,
        #[serde(skip_serializing_if = "Str::is_empty")]
        client_description: Str,
        #[serde(skip_serializing_if = "Option::is_none")]
        task_states: Option<BTreeMap<Str, TaskState>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        deployment_status: Option<AllocDeploymentStatus>,
        #[serde(skip_serializing_if = "Option::is_none")]
        network_status: Option<AllocNetworkStatus>,
    }
}
message! {
    /// Answer to a write that says nothing else.
    written Written {}
}
message! {
    /// What happened on nodes.
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
    /// Drains a node, or ends that.
    write NodeUpdateDrain ("Node.UpdateDrain" -> NodeUpdateDrainAnswer) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        /// How; absent ends it.
        drain_strategy: Option<DrainStrategy>,
        /// Whether a node whose drain ends may get allocations again.
        mark_eligible: bool,
        node_event: Option<NodeEvent>,
        meta: Option<BTreeMap<Str, Str>>,
        /// Unix seconds; zero from nodes.
        updated_at: i64,
    }
}
message! {
    /// What came of that.
    written NodeUpdateDrainAnswer {
        node_modify_index: u64,
        #[serde(rename = "EvalIDs")]
        eval_ids: Option<Vec<EvalId>>,
        eval_create_index: u64,
    }
}
