//! Routes to a node: in this process, over its session with this server, or through the server that has a session.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use songline_model::{NodeId, Secret, Str, Time};
use songline_rpc::RpcError;
use songline_rpc::message::{Call, StatusHasNodeConn};
use songline_rpc::msgpack::{Tree, from_slice, to_vec};
use songline_rpc::net::{Caller, Channel, Refusal, call_over, open_channel};
use songline_rpc::yamux::Session;

use super::super::Core;
use super::local::LocalNode;

/// Timeout of asking other servers for a session with a node.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// A route to a node.
pub(super) enum Path {
    /// The node is in this process.
    Here(Arc<dyn LocalNode>),
    /// The node has dialled this server.
    Session(Session),
    /// The node has dialled the server with this address.
    Server(String),
}

/// Start of a node's connection, as servers report it to each other. Without a time the node is in the server's
/// process.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Connection {
    connected: bool,
    established: Option<Time>,
}

impl Core {
    /// The best available route to the node.
    pub(super) async fn path_to(&self, node: NodeId, ask_others: bool) -> Result<Path, RpcError> {
        if let Some(local) = self.connections.local_nodes().get(&node) {
            return Ok(Path::Here(Arc::clone(local)));
        }
        if let Some((session, _)) = self.connections.sessions.newest(node) {
            return Ok(Path::Session(session));
        }
        let no_path = || RpcError::Coded { code: 404, text: "No path to node".into() };
        if !ask_others {
            return Err(no_path());
        }
        let asked = self.other_servers().into_iter().map(|address| async move {
            let since = tokio::time::timeout(ASK_WITHIN, self.is_connected_at(&address, node)).await.ok()??;
            Some((since, address))
        });
        let found = futures_util::future::join_all(asked).await;
        let newest = found.into_iter().flatten().max_by_key(|(since, _)| *since);
        newest.map(|(_, address)| Path::Server(address)).ok_or_else(no_path)
    }

    async fn is_connected_at(&self, address: &str, node: NodeId) -> Option<Time> {
        let ask = StatusHasNodeConn {
            node_id: node,
            region: self.facts.info.region.as_str().into(),
            ..StatusHasNodeConn::default()
        };
        let answer = self.connections.pool.call(address, StatusHasNodeConn::METHOD, &to_vec(&ask).ok()?).await.ok()?;
        let answer: Connection = from_slice(&answer).ok()?;
        answer.connected.then(|| answer.established.unwrap_or_default())
    }

    /// Calls a node on behalf of this server itself.
    pub(crate) async fn call_any_node(&self, node: NodeId, method: &str, body: Vec<u8>) -> Result<Bytes, RpcError> {
        let local = self.connections.local_nodes().get(&node).cloned();
        let Some(local) = local else { return self.call_node(node, method, &body).await };
        let caller = Caller { is_server: true, ..Caller::plain(([127, 0, 0, 1], 0).into()) };
        local.call(method, body.into(), &caller).await.map_err(|refusal| match refusal {
            Refusal::NoService | Refusal::NoMethod => RpcError::remote(format!("rpc: can't find method {method}")),
            Refusal::Body(error) => RpcError::remote(error.on_wire(0)),
            Refusal::Failed(error) => error,
        })
    }

    /// Calls a node that is not in this process.
    pub(super) async fn call_node(&self, node: NodeId, method: &str, body: &[u8]) -> Result<Bytes, RpcError> {
        match self.path_to(node, true).await? {
            Path::Here(_) => Err(RpcError::remote("a node of this process is not called over the network")),
            Path::Session(session) => call_over(&session, self.connections.pool.next_seq(), method, body).await,
            Path::Server(address) => self.connections.pool.call(&address, method, &self.as_server(body)?).await,
        }
    }

    /// Like `call_node`, for a streaming call.
    pub(super) async fn stream_of_node(&self, node: NodeId, method: &str, request: &[u8]) -> Result<Channel, RpcError> {
        match self.path_to(node, true).await? {
            Path::Here(_) => Err(RpcError::remote("a node of this process is not called over the network")),
            Path::Session(session) => open_channel(&session, method, request).await,
            Path::Server(address) => self.connections.pool.stream(&address, method, &self.as_server(request)?).await,
        }
    }

    /// A request as a server forwards it, with the user's token. The receiver sees from the server's connection that
    /// the user was authorized.
    fn as_server(&self, request: &[u8]) -> Result<Vec<u8>, RpcError> {
        let region = self.facts.info.region.clone();
        with_fields(request, [("Forwarded", Tree::Bool(true)), ("Region", Tree::text(&region))])
    }
}

/// A request with some of its fields set.
pub(super) fn with_fields<const N: usize>(request: &[u8], fields: [(&str, Tree); N]) -> Result<Vec<u8>, RpcError> {
    let mut entries = match Tree::read(request).map_err(|error| RpcError::remote(error.on_wire(0)))? {
        Tree::Map(entries) => entries,
        _ => Vec::new(),
    };
    for (name, value) in fields {
        entries.retain(|(key, _)| key.as_text() != Some(name));
        entries.push((Tree::text(name), value));
    }
    Ok(Tree::Map(entries).to_bytes())
}

/// The fields of a request that select its node.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct ForNode {
    #[serde(rename = "AllocID")]
    pub(super) alloc_id: Str,
    #[serde(rename = "NodeID")]
    pub(super) node_id: Str,
    /// Node that runs the controller of a CSI plugin.
    #[serde(rename = "ControllerNodeID")]
    pub(super) controller_node_id: Str,
    pub(super) region: Str,
    pub(super) auth_token: Secret,
    pub(super) forwarded: bool,
}

impl ForNode {
    /// Id of the node that the request is for.
    pub(super) fn node(&self) -> &Str {
        if self.node_id.is_empty() { &self.controller_node_id } else { &self.node_id }
    }
}
