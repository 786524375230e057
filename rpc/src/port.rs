//! The single port of servers: types of connections by their first byte, dialling and accepting. The protocols over the
//! connections are elsewhere.

mod counts;
mod dial;
mod link;
mod listen;
mod noise;
#[cfg(test)]
mod tests;
mod tls;
mod trust;

pub use dial::Dialer;
pub use link::{Conn, Connecting, Duplex, Listener, Network, Tcp};
pub use listen::{Accept, PortLimits, serve};
pub use tls::{Tls, TlsError, TlsSettings};
pub use trust::{Refused, ServerKey, ServerTrust, Unproven, is_of_this_machine};

/// First byte of a connection to the port. Those below 0x10 are the reference's (`spec` of its node RPC), the others
/// ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FirstByte {
    /// Pairs of request and response on this connection.
    Rpc = 0x01,
    /// The reference's raft transport, which is not supported.
    RaftOfReference = 0x02,
    /// A yamux session whose streams carry plain calls, without a first byte of their own.
    Multiplex = 0x03,
    /// A TLS handshake, then another first byte.
    Tls = 0x04,
    /// One streaming call.
    Streaming = 0x05,
    /// A yamux session whose streams begin with `Rpc` or `Streaming`.
    MultiplexV2 = 0x06,
    /// Consensus and joining, between servers.
    Peers = 0x10,
    /// HTTP/1.1 forwarded by another server.
    Http = 0x11,
    /// HTTP/1.1 forwarded by the agent of a node. Proves nothing about the sender.
    HttpOfNodes = 0x12,
    /// Like `MultiplexV2`, between servers.
    RpcOfServers = 0x13,
    /// Greetings and replication between servers of different regions.
    Regions = 0x14,
}

impl FirstByte {
    const ALL: [Self; 11] = [
        Self::Rpc,
        Self::RaftOfReference,
        Self::Multiplex,
        Self::Tls,
        Self::Streaming,
        Self::MultiplexV2,
        Self::Peers,
        Self::Http,
        Self::HttpOfNodes,
        Self::RpcOfServers,
        Self::Regions,
    ];

    /// Whether only servers open connections with this byte. Both ends then prove that they are servers: see
    /// [`ServerTrust`].
    pub fn is_of_servers(self) -> bool {
        match self {
            Self::Peers | Self::Http | Self::RpcOfServers | Self::Regions => true,
            Self::Rpc
            | Self::RaftOfReference
            | Self::Multiplex
            | Self::Tls
            | Self::Streaming
            | Self::MultiplexV2
            | Self::HttpOfNodes => false,
        }
    }

    /// Type of a connection by its first byte. `None`: the byte is unknown, and the connection is closed without an
    /// answer.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| *known as u8 == byte)
    }
}
