//! The server's port: dispatches connections by their first byte to the modules that speak the protocols.

mod anynode;
mod csi;
mod dispatch;
mod evals;
mod events;
mod forwarded;
mod local;
mod methods;
mod more;
mod rates;
mod reads;
mod remote;
mod route;
mod routes;
mod sessions;
#[cfg(test)]
pub(crate) mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use songline_rpc::net::{self, Caller};
use songline_rpc::port::{self, Accept, Conn, Dialer, FirstByte, Listener, PortLimits, ServerTrust};

use super::{Core, cluster, forward};
pub(crate) use anynode::AnyNode;
use dispatch::NodeRpc;
pub(crate) use local::{Local, LocalNode};
use rates::Measured;
pub(super) use sessions::Sessions;

/// A server's listeners, its advertised address, and its connections to others.
pub struct Ports {
    /// Bound listeners; all of them speak the same protocols.
    pub listeners: Vec<Box<dyn Listener>>,
    /// Timeouts and bounds of connections.
    pub limits: PortLimits,
    /// Address that others dial, `host:port`.
    pub advertised: String,
    /// Dials other servers.
    pub dialer: Dialer,
    /// Proof that other servers have to give.
    pub trust: ServerTrust,
    /// Whether methods for nodes and servers require a certificate with a node's or server's name.
    pub verify_names: bool,
}

/// Accepts connections on all listeners until the server shuts down.
pub(super) fn start(core: &Arc<Core>, listeners: Vec<Box<dyn Listener>>, limits: &PortLimits) {
    let door = Arc::new(Door { core: Arc::clone(core), node_rpc: Arc::new(Measured(Arc::new(NodeRpc::new(core)))) });
    for listener in listeners {
        tokio::spawn(port::serve(listener, limits.clone(), Arc::clone(&door), core.shutdown_token().clone()));
    }
}

struct Door {
    core: Arc<Core>,
    node_rpc: Arc<Measured>,
}

impl Accept for Door {
    async fn accept(self: Arc<Self>, first: FirstByte, conn: Conn, from: SocketAddr) {
        self.answer(first, conn, Caller::plain(from)).await;
    }

    async fn accept_named(self: Arc<Self>, first: FirstByte, conn: Conn, from: SocketAddr, names: Arc<[String]>) {
        self.answer(first, conn, Caller { names: Some(names), ..Caller::plain(from) }).await;
    }
}

impl Door {
    async fn answer(&self, first: FirstByte, conn: Conn, caller: Caller) {
        let from = caller.from;
        self.core.metrics.at.rpc_accept_conn.add_one();
        match first {
            FirstByte::Peers => cluster::accept(&self.core, conn, from).await,
            FirstByte::Regions => cluster::accept_region(&self.core, conn, from).await,
            FirstByte::Http => forward::accept(Arc::clone(&self.core), conn, from).await,
            FirstByte::HttpOfNodes => forward::accept_of_node(Arc::clone(&self.core), conn, from).await,
            FirstByte::RpcOfServers => {
                net::serve(first, conn, Caller { is_server: true, ..caller }, Arc::clone(&self.node_rpc)).await;
            }
            FirstByte::Rpc | FirstByte::Multiplex | FirstByte::Streaming | FirstByte::MultiplexV2 => {
                net::serve(first, conn, caller, Arc::clone(&self.node_rpc)).await;
            }
            FirstByte::Tls | FirstByte::RaftOfReference => unreachable!("the port keeps these to itself"),
        }
    }
}
