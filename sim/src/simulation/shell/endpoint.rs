//! Requests of node agents to a server, and their forwarding by a server that does not lead. The real ones are
//! `server/src/endpoint.rs` and
//! `server/src/rpc/dispatch.rs`.

use std::sync::Arc;
use std::time::Duration;

use songline_commands::{Actor, Cause, Kind};
use songline_model::{AllocId, Allocation, Node, NodeId, NodeStatus};
use songline_projections::{State, Table};
use songline_rpc::{AllocUpdate, BlockingQuery, ClientAllocs, NodeAuth, NodeUpdateResponse, RpcError};
use songline_scheduler::leader::{nodes, reports};

use super::Shell;

/// Longest wait of a call for a leader.
pub const HOLD: Duration = Duration::from_secs(5);

impl Shell {
    /// `Node.Register`.
    pub async fn node_register(&self, node: Node) -> Result<NodeUpdateResponse, RpcError> {
        self.must_lead()?;
        let id = node.id;
        let (command, needs_evals) = nodes::registration(&self.view(), node, self.now()).map_err(RpcError::remote)?;
        let (index, _) = self.write(None, Actor::Node(id), None, command).await?;
        if needs_evals {
            self.propose_node_evals(id, Cause::new(index, Kind::NodeRegister)).await?;
        }
        self.answer(id, index)
    }

    /// `Node.UpdateStatus`.
    pub async fn node_update_status(&self, from: &NodeAuth, status: NodeStatus) -> Result<NodeUpdateResponse, RpcError> {
        self.must_lead()?;
        let node = self.authenticate(from)?;
        let index = self.change_node_status(&node, status).await?;
        self.answer(from.id, index)
    }

    /// `Node.GetClientAllocs`.
    pub async fn node_get_client_allocs(&self, from: &NodeAuth, query: BlockingQuery) -> Result<ClientAllocs, RpcError> {
        let deadline = tokio::time::Instant::now() + query.max_wait.to_std();
        let mut allocs_before = None;
        loop {
            let news = self.seen.applied.notified();
            let view = self.view();
            let answer = client_allocs(&view, from)?;
            // Garbage collection raises no row's index. Fewer rows than before therefore count as news, at the
            // table's index.
            let fewer = allocs_before.is_some_and(|before| answer.allocs.len() < before);
            let is_new = fewer || answer.index > query.min_index;
            if query.min_index == 0 || is_new || tokio::time::Instant::now() >= deadline {
                let index = if fewer { view.table_index(Table::Allocs) } else { answer.index };
                return Ok(ClientAllocs { index: index.max(1), ..answer });
            }
            allocs_before = Some(answer.allocs.len());
            tokio::select! {
                biased;
                () = news => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// `Alloc.GetAllocs`.
    pub async fn alloc_get_allocs(&self, from: &NodeAuth, ids: Vec<AllocId>) -> Result<Vec<Arc<Allocation>>, RpcError> {
        self.authenticate(from)?;
        let view = self.view();
        Ok(ids.into_iter().filter_map(|id| view.alloc(id)).filter(|alloc| alloc.node_id == Some(from.id)).cloned().collect())
    }

    /// `Node.UpdateAlloc`.
    pub async fn node_update_alloc(&self, from: &NodeAuth, allocs: Vec<AllocUpdate>) -> Result<u64, RpcError> {
        self.must_lead()?;
        let node = self.authenticate(from)?;
        if let Some(refusal) = reports::refusal(&node) {
            return Err(RpcError::remote(refusal));
        }
        self.report(from.id, allocs).await
    }

    /// Fails unless this server leads.
    fn must_lead(&self) -> Result<(), RpcError> {
        self.reign().map(|_| ()).ok_or(RpcError::NoLeader)
    }

    fn authenticate(&self, from: &NodeAuth) -> Result<Arc<Node>, RpcError> {
        let node = self.view().node(from.id).cloned().ok_or_else(|| RpcError::remote("node not found"))?;
        if node.secret_id != from.secret {
            return Err(RpcError::remote("node secret ID does not match"));
        }
        Ok(node)
    }

    /// Answers a registration or heartbeat, and sets the deadline of the next one.
    fn answer(&self, id: NodeId, index: u64) -> Result<NodeUpdateResponse, RpcError> {
        let view = self.view();
        let node = view.node(id).ok_or_else(|| RpcError::remote("node not found"))?;
        let down = node.status == NodeStatus::Down;
        let heartbeat_ttl = if down { songline_model::Dur::ZERO } else { self.beat(id) };
        Ok(NodeUpdateResponse {
            heartbeat_ttl,
            index,
            eligibility: node.scheduling_eligibility,
            nodes: u32::try_from(view.table_len(Table::Nodes)).unwrap_or(u32::MAX),
            servers: self.addresses(),
        })
    }
}

/// Every alloc of the node and the index at which the servers last changed it. An unknown node has none.
fn client_allocs(view: &State, from: &NodeAuth) -> Result<ClientAllocs, RpcError> {
    if view.node(from.id).is_some_and(|node| node.secret_id != from.secret) {
        return Err(RpcError::remote("node secret ID does not match"));
    }
    let mut answer = ClientAllocs { index: 0, ..ClientAllocs::default() };
    for alloc in view.allocs_of_node(from.id) {
        answer.allocs.insert(alloc.id, alloc.alloc_modify_index);
        answer.index = answer.index.max(alloc.modify_index);
    }
    if answer.allocs.is_empty() {
        answer.index = view.table_index(Table::Allocs);
    }
    Ok(answer)
}
