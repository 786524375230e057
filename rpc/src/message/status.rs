//! `Status`: liveness of a server, leader and peers. Raft's own messages are elsewhere.

use std::collections::BTreeMap;

use songline_model::{Blob, NodeId, Str, Time};

use super::message;

message! {
    /// Asks whether a server responds.
    read StatusPing ("Status.Ping" -> Empty) {}
}
message! {
    /// An empty message.
    plain Empty {}
}
message! {
    /// Asks for the leader's address; the answer is empty without a leader.
    read StatusLeader ("Status.Leader" -> Str) {}
}
message! {
    /// Asks for the addresses of all servers.
    read StatusPeers ("Status.Peers" -> Option<Vec<Str>>) {}
}
message! {
    /// Asks for the gossip's data about all servers.
    read StatusMembers ("Status.Members" -> StatusMembersAnswer) {}
}
message! {
    /// All servers, and the answering one.
    plain StatusMembersAnswer {
        members: Option<Vec<ServerMember>>,
        server_name: Str,
        server_region: Str,
        #[serde(rename = "ServerDC")]
        server_dc: Str,
    }
}
message! {
    /// A server as gossip describes it.
    plain ServerMember {
        name: Str,
        /// IP address, 4 or 16 bytes.
        addr: Option<Blob>,
        port: u16,
        tags: Option<BTreeMap<Str, Str>>,
        status: Str,
        protocol_min: u8,
        protocol_max: u8,
        protocol_cur: u8,
        delegate_min: u8,
        delegate_max: u8,
        delegate_cur: u8,
    }
}
message! {
    /// Asks whether a node is connected to this server.
    read StatusHasNodeConn ("Status.HasNodeConn" -> StatusHasNodeConnAnswer) {
        #[serde(rename = "NodeID")]
        node_id: NodeId,
    }
}
message! {
    /// Whether the node is connected.
    answer StatusHasNodeConnAnswer {
        connected: bool,
        /// Time at which the connection was made.
        established: Option<Time>,
    }
}
message! {
    /// Asks for the state of a server's raft log.
    read StatusRaftStats ("Status.RaftStats" -> StatusRaftStatsAnswer) {}
}
message! {
    /// State of a server's raft log.
    plain StatusRaftStatsAnswer {
        /// Time since the leader was heard, as Go prints durations; `0` on the leader.
        last_contact: Str,
        last_term: u64,
        last_index: u64,
    }
}
