//! `Status`: whether a server is there and who leads. Raft's own traffic is not here.

use std::collections::BTreeMap;

use songline_model::{Blob, NodeId, Str, Time};

use super::message;

message! {
    /// Asks whether a server is there.
    read StatusPing ("Status.Ping" -> Empty) {}
}
message! {
    /// Nothing.
    plain Empty {}
}
message! {
    /// Asks where the leader is; the empty text when there is none.
    read StatusLeader ("Status.Leader" -> Str) {}
}
message! {
    /// Asks where all servers are.
    read StatusPeers ("Status.Peers" -> Option<Vec<Str>>) {}
}
message! {
    /// Asks what the gossip knows of all servers.
    read StatusMembers ("Status.Members" -> StatusMembersAnswer) {}
}
message! {
    /// All servers, and who answers.
    plain StatusMembersAnswer {
        members: Option<Vec<ServerMember>>,
        server_name: Str,
        server_region: Str,
        #[serde(rename = "ServerDC")]
        server_dc: Str,
    }
}
message! {
    /// A server as the gossip has it.
    plain ServerMember {
        name: Str,
        /// 4 or 16 bytes.
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
    /// Whether it is.
    answer StatusHasNodeConnAnswer {
        connected: bool,
        /// Since when.
        established: Option<Time>,
    }
}
message! {
    /// Asks how far a server's log is.
    read StatusRaftStats ("Status.RaftStats" -> StatusRaftStatsAnswer) {}
}
message! {
    /// How far it is.
    plain StatusRaftStatsAnswer {
        /// A span as Go prints it; of the leader `0`.
        last_contact: Str,
        last_term: u64,
        last_index: u64,
    }
}
