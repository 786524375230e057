//! Connections of a server: to other servers, to nodes, and the nodes of its own process.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard};
use songline_log::NodeId as ServerId;
use songline_model::NodeId;
use songline_rpc::net::{Dispatch, Pool, PoolLimits};
use songline_rpc::port::{Dialer, ServerTrust};
use songline_rpc::{Count, Gauge, Gauges, NodeAgent};

use super::cluster::Cluster;
use super::forward::Forward;
use super::forwarding::Forwarder;
use super::rpc::{Local, LocalNode, Sessions};

/// Idle timeout of a session between servers.
const SERVER_SESSION_IDLE: Duration = Duration::from_mins(2);

/// Other servers and nodes, and the ways to them.
pub(crate) struct Connections {
    pub(super) cluster: Cluster,
    /// Proof that other servers have to give.
    pub(super) trust: ServerTrust,
    /// Dials other servers.
    pub(super) dialer: Dialer,
    /// Sessions with other servers.
    pub(super) pool: Pool,
    /// Forwards HTTP requests to other servers.
    pub(super) forward: Forward,
    /// Forwards HTTP requests to servers of other regions, which trust nothing about them but their tokens.
    pub(super) forward_to_region: Forward,
    /// Sessions with nodes.
    pub(super) sessions: Sessions,
    /// Whether methods for nodes and servers require a certificate with a node's or server's name.
    pub(super) verify_names: bool,
    local_nodes: RwLock<BTreeMap<NodeId, Arc<dyn LocalNode>>>,
    /// The node in this process that is reached over its session, like any other node.
    own_node: OnceLock<NodeId>,
    /// Gauges of the node in this process. Weak: the node holds the server.
    gauges: OnceLock<Weak<dyn Gauges>>,
}

impl Connections {
    /// Connections of the server with this id, which others dial at `advertised`.
    pub(super) fn new(
        id: ServerId,
        advertised: String,
        authoritative_region: &str,
        dialer: &Dialer,
        trust: ServerTrust,
        verify_names: bool,
    ) -> Self {
        let limits = PoolLimits { idle_session: SERVER_SESSION_IDLE, of_server: true, ..PoolLimits::default() };
        Self {
            cluster: Cluster::new(id, advertised, dialer.clone(), authoritative_region),
            trust,
            dialer: dialer.clone(),
            pool: Pool::new(dialer.clone(), limits, None),
            forward: Forward::new(Forwarder::of_server(dialer.clone())),
            forward_to_region: Forward::new(Forwarder::of_node(dialer.clone().of_any_region())),
            sessions: Sessions::default(),
            verify_names,
            local_nodes: RwLock::default(),
            own_node: OnceLock::new(),
            gauges: OnceLock::new(),
        }
    }

    pub(super) fn add_local_node(&self, id: NodeId, node: Arc<impl NodeAgent>, calls: Arc<impl Dispatch>) {
        self.local_nodes.write().insert(id, Arc::new(Local { node, calls }));
    }

    pub(super) fn local_nodes(&self) -> RwLockReadGuard<'_, BTreeMap<NodeId, Arc<dyn LocalNode>>> {
        self.local_nodes.read()
    }

    pub(super) fn remove_local_nodes(&self) {
        self.local_nodes.write().clear();
    }

    pub(super) fn show_gauges(&self, of: Weak<dyn Gauges>) {
        self.gauges.get_or_init(|| of);
    }

    /// Gauges of the node in this process, as they were last read.
    pub(super) fn gauges(&self) -> Arc<Vec<Gauge>> {
        self.gauges.get().and_then(Weak::upgrade).map(|node| node.gauges()).unwrap_or_default()
    }

    /// Counts of the node in this process.
    pub(super) fn counts(&self) -> Vec<Count> {
        self.gauges.get().and_then(Weak::upgrade).map(|node| node.counts()).unwrap_or_default()
    }

    pub(super) fn set_own_node(&self, id: NodeId) {
        self.own_node.get_or_init(|| id);
    }

    /// The node in this process, called directly or over its session.
    pub(super) fn own_node(&self) -> Option<NodeId> {
        self.local_nodes().keys().next().or(self.own_node.get()).copied()
    }
}
