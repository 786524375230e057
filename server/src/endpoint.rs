//! Requests of node agents, answered in process. The network transport calls the same functions.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use songline_api::{Agent as _, Proposal, ProposeError};
use songline_commands::{Actor, AddNodeEvents, Cause, Command, Kind, UpdateEvals, UpdateNodeDrain};
use songline_events::watch::{WatchKey, Watcher};
use songline_model::{
    AllocId, Allocation, CsiVolumeClaim, CsiVolumeKey, DrainStrategy, Dur, FlatMap, NamespaceName, Node, NodeEvent,
    NodeId, NodeStatus, ServiceRegistration, Str, migrate_token,
};
use songline_projections::{State, Table};
use songline_rpc::{
    AllocReport, BlockingQuery, ClaimedVolume, ClientAllocs, NoVaultToken, NodeAuth, NodeUpdateResponse, RpcError,
    Servers, WrappedTokens,
};
use songline_scheduler::leader::{nodes, reports};
use tokio::time::Instant;

use super::leadership::LeadershipTerm;
use super::{Core, csi, services, vault};

impl Servers for Core {
    async fn node_register(&self, node: Node) -> Result<NodeUpdateResponse, RpcError> {
        let _call = self.node_call("Node.Register", node.id, &node.secret_id);
        self.must_lead()?;
        let id = node.id;
        // Node pools are made in the authoritative region alone: elsewhere the node waits until its pool is replicated.
        let makes_pool = self.facts.info.is_authoritative();
        let (command, needs_evals) =
            nodes::registration(&self.view(), node, makes_pool, self.now()).map_err(RpcError::remote)?;
        let index = self.propose_as(Actor::Node(id), None, command).await?;
        // An entry of its own, because it is made from the row as applied. A leader that is lost in between leaves the
        // evaluations to the next one, which looks for overlooked nodes (`effects::look_if_overlooked`).
        if needs_evals {
            self.propose_node_evals(id, Cause::new(index, Kind::NodeRegister)).await?;
        }
        self.answer(id, index)
    }

    async fn node_update_status(&self, from: &NodeAuth, status: NodeStatus) -> Result<NodeUpdateResponse, RpcError> {
        let _call = self.node_call("Node.UpdateStatus", from.id, &from.secret);
        self.must_lead()?;
        let (_, node) = self.authenticate(from)?;
        let index = self.change_node_status(&node, status).await?;
        self.answer(from.id, index)
    }

    async fn node_get_client_allocs(&self, from: &NodeAuth, query: BlockingQuery) -> Result<ClientAllocs, RpcError> {
        let _call = self.node_call("Node.GetClientAllocs", from.id, &from.secret);
        let deadline = self.deadline_of(&query);
        let mut allocs_before = None;
        // Registered before the view is taken: a change between the two wakes the query.
        let watch = self.watches().register(&[WatchKey::NodeOrders(from.id)]);
        loop {
            // Asked before the view is taken: the new state is published before its watchers are told of it.
            let is_state_replaced = watch.is_state_replaced();
            let view = self.view();
            if view.node(from.id).is_some_and(|node| node.secret_id != from.secret) {
                return Err(RpcError::remote("node secret ID does not match"));
            }
            let mut answer = client_allocs(&view, from.id);
            // Garbage collection raises no row's index, and the rows of another state may have lower ones. Fewer rows
            // than before, or rows of another state, therefore count as news, at the table's index.
            let fewer = allocs_before.is_some_and(|before| answer.allocs.len() < before);
            let is_news = fewer || is_state_replaced;
            if is_news {
                answer.index = answer.index.max(view.table_index(Table::Allocs));
            }
            if query.min_index == 0 || is_news || answer.index > query.min_index || Instant::now() >= deadline {
                return Ok(answer);
            }
            allocs_before = Some(answer.allocs.len());
            // Each node waits here most of the time. A waiting call that kept its view would keep all rows of that
            // view.
            drop((view, answer));
            self.woken(&watch, deadline).await?;
        }
    }

    async fn alloc_get_allocs(&self, from: &NodeAuth, ids: Vec<AllocId>) -> Result<Vec<Arc<Allocation>>, RpcError> {
        let _call = self.node_call("Alloc.GetAllocs", from.id, &from.secret);
        let (view, _) = self.authenticate(from)?;
        Ok(ids
            .into_iter()
            .filter_map(|id| view.alloc(id))
            .filter(|alloc| alloc.node_id == Some(from.id))
            .cloned()
            .collect())
    }

    async fn alloc_get_newer_allocs(
        &self,
        from: &NodeAuth,
        ids: Vec<AllocId>,
        query: BlockingQuery,
    ) -> Result<(Vec<Arc<Allocation>>, u64), RpcError> {
        let _call = self.node_call("Alloc.GetAllocs", from.id, &from.secret);
        self.newer_allocs(from, &ids, &query).await
    }

    async fn alloc_get_alloc(
        &self,
        from: &NodeAuth,
        id: AllocId,
        query: BlockingQuery,
    ) -> Result<(Option<Arc<Allocation>>, u64), RpcError> {
        let _call = self.node_call("Alloc.GetAlloc", from.id, &from.secret);
        let deadline = self.deadline_of(&query);
        let watch = self.watches().register(&[WatchKey::Alloc(id)]);
        loop {
            let is_state_replaced = watch.is_state_replaced();
            let (view, _) = self.authenticate(from)?;
            let alloc = view.alloc(id).cloned();
            let index = alloc.as_ref().map_or(view.table_index(Table::Allocs), |row| row.modify_index);
            if alloc.is_none() || index > query.min_index || is_state_replaced || Instant::now() >= deadline {
                return Ok((alloc, index.max(1)));
            }
            drop((view, alloc));
            self.woken(&watch, deadline).await?;
        }
    }

    async fn node_get_node(&self, from: &NodeAuth, id: NodeId) -> Result<Option<Node>, RpcError> {
        let _call = self.node_call("Node.GetNode", from.id, &from.secret);
        let (view, _) = self.authenticate(from)?;
        Ok(view.node(id).map(|row| Node { secret_id: Default::default(), ..Node::clone(row) }))
    }

    async fn node_update_alloc(&self, from: &NodeAuth, allocs: Vec<AllocReport>) -> Result<u64, RpcError> {
        let _call = self.node_call("Node.UpdateAlloc", from.id, &from.secret);
        if allocs.is_empty() {
            return Err(RpcError::remote("must update at least one allocation"));
        }
        self.must_lead()?;
        if self.view().node(from.id).is_none() {
            return Err(RpcError::remote(format!("node {} not found", from.id)));
        }
        let (_, node) = self.authenticate(from)?;
        if let Some(refusal) = reports::refusal(&node) {
            return Err(RpcError::remote(refusal));
        }
        self.leader.updates.submit(from.id, allocs).await
    }

    async fn service_registration_upsert(
        &self,
        from: &NodeAuth,
        services: Vec<ServiceRegistration>,
    ) -> Result<u64, RpcError> {
        let _call = self.node_call("ServiceRegistration.Upsert", from.id, &from.secret);
        self.must_lead()?;
        let (view, _) = self.authenticate(from)?;
        services::upsert(self, from, &view, services).await
    }

    async fn service_registration_delete_by_id(
        &self,
        from: &NodeAuth,
        namespace: NamespaceName,
        id: Str,
    ) -> Result<u64, RpcError> {
        let _call = self.node_call("ServiceRegistration.DeleteByID", from.id, &from.secret);
        self.must_lead()?;
        self.authenticate(from)?;
        services::delete(self, from, namespace, id).await
    }

    async fn csi_volume_claim(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<ClaimedVolume, RpcError> {
        let _call = self.node_call("CSIVolume.Claim", from.id, &from.secret);
        self.must_lead()?;
        self.has_alloc(from, claim.allocation_id)?;
        self.claim(&Actor::Node(from.id), &volume, claim).await?.try_into()
    }

    async fn csi_volume_unpublish(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<u64, RpcError> {
        let _call = self.node_call("CSIVolume.Unpublish", from.id, &from.secret);
        self.must_lead()?;
        self.has_alloc(from, claim.allocation_id)?;
        self.unpublish(&Actor::Node(from.id), &volume, &claim).await
    }

    async fn node_update_drain(
        &self,
        from: &NodeAuth,
        strategy: DrainStrategy,
        meta: BTreeMap<Str, Str>,
    ) -> Result<u64, RpcError> {
        let _call = self.node_call("Node.UpdateDrain", from.id, &from.secret);
        self.must_lead()?;
        self.authenticate(from)?;
        let actor = Actor::Node(from.id);
        let command = self.drain_command(from.id, Some(strategy), false, Some(meta), &actor)?;
        self.propose_as(actor, None, command).await
    }

    async fn node_derive_vault_token(
        &self,
        from: &NodeAuth,
        alloc: AllocId,
        tasks: Vec<Str>,
    ) -> Result<Result<WrappedTokens, NoVaultToken>, RpcError> {
        let _call = self.node_call("Node.DeriveVaultToken", from.id, &from.secret);
        self.must_lead()?;
        let (view, _) = self.authenticate(from)?;
        Ok(vault::derive(self.facts.config.vault.as_deref(), &view, from.id, alloc, &tasks).await)
    }

    async fn node_emit_events(&self, from: &NodeAuth, events: Vec<NodeEvent>) -> Result<u64, RpcError> {
        let _call = self.node_call("Node.EmitEvents", from.id, &from.secret);
        if events.is_empty() {
            return Err(RpcError::remote("no node events given"));
        }
        self.must_lead()?;
        self.authenticate(from)?;
        self.propose_as(Actor::Node(from.id), None, AddNodeEvents { events: [(from.id, events)].into() }).await
    }
}

impl Core {
    /// Waits for a change of the watched keys or for the deadline.
    async fn woken(&self, watch: &Watcher<'_>, deadline: Instant) -> Result<(), RpcError> {
        tokio::select! {
            biased;
            () = watch.changed() => Ok(()),
            () = tokio::time::sleep_until(deadline) => Ok(()),
            () = self.shutdown_token().cancelled() => Err(RpcError::Lost("server is shutting down".into())),
        }
    }

    /// The allocations of the node among `ids`, and their newest index, once it is above the query's. A server that is
    /// behind waits until it has caught up; an allocation that was deleted is not waited for. At the deadline the
    /// answer is what there is.
    async fn newer_allocs(
        &self,
        from: &NodeAuth,
        ids: &[AllocId],
        query: &BlockingQuery,
    ) -> Result<(Vec<Arc<Allocation>>, u64), RpcError> {
        if query.min_index == 0 {
            let (view, _) = self.authenticate(from)?;
            return Ok(pulled(&view, from.id, ids));
        }
        let deadline = self.deadline_of(query);
        let keys: Vec<WatchKey> = ids.iter().map(|id| WatchKey::Alloc(*id)).collect();
        let watch = self.watches().register(&keys);
        loop {
            let is_state_replaced = watch.is_state_replaced();
            let (view, _) = self.authenticate(from)?;
            let (allocs, index) = pulled(&view, from.id, ids);
            if index > query.min_index || is_state_replaced || Instant::now() >= deadline {
                return Ok((allocs, index));
            }
            drop((view, allocs));
            self.woken(&watch, deadline).await?;
        }
    }

    /// Time at which a blocking query is answered even without news: at most 300 s, and up to a sixteenth longer, so
    /// that many nodes do not return at the same moment.
    fn deadline_of(&self, query: &BlockingQuery) -> Instant {
        let wait = if query.max_wait.nanos() > 0 { query.max_wait.min(POLL_MAX) } else { POLL_MAX }.to_std();
        let extra_ms = u64::try_from(wait.as_millis() / 16).unwrap_or(0);
        Instant::now() + wait + Duration::from_millis(self.chance(0..extra_ms))
    }

    /// Fails unless this server leads: another server's tables may be behind.
    fn must_lead(&self) -> Result<(), RpcError> {
        self.term().map(|_| ()).ok_or(RpcError::NoLeader)
    }

    /// Writes the status that a node asks for, if it differs from the current one, and the evaluations that follow
    /// from it. Returns the entry's index, 0 when nothing was written.
    async fn change_node_status(&self, node: &Node, wanted: NodeStatus) -> Result<u64, RpcError> {
        let Some(command) = nodes::status_update(&self.view(), node, wanted, None, self.now()) else { return Ok(0) };
        let status = command.status;
        let index = self.propose_as(Actor::Node(node.id), None, command).await?;
        // `apply` decides about the status: another entry may have come between.
        let status = self.view().node(node.id).map_or(status, |after| after.status);
        if songline_projections::node_transition_needs_evals(node.status, status) {
            self.propose_node_evals(node.id, Cause::new(index, Kind::NodeUpdateStatus)).await?;
        }
        Ok(index)
    }

    /// The command that starts a node's drain now, changes it, or ends it (`None`).
    pub(crate) fn drain_command(
        &self,
        id: NodeId,
        strategy: Option<DrainStrategy>,
        mark_eligible: bool,
        meta: Option<BTreeMap<Str, Str>>,
        actor: &Actor,
    ) -> Result<UpdateNodeDrain, RpcError> {
        let (view, now) = (self.view(), self.now());
        let node = view.node(id).ok_or_else(|| RpcError::remote("node not found"))?;
        let strategy = strategy.map(|mut strategy| {
            // The deadline is computed from the server's clock, not from the node's.
            strategy.force_deadline = (strategy.deadline.nanos() > 0).then(|| now.plus(strategy.deadline));
            strategy.started_at = node.drain_strategy.as_ref().and_then(|running| running.started_at).or(Some(now));
            strategy
        });
        let message = match (&node.drain_strategy, &strategy) {
            (None, Some(_)) => Some("Node drain strategy set"),
            (Some(_), Some(_)) => Some("Node drain strategy updated"),
            (Some(_), None) => Some("Node drain disabled"),
            (None, None) => None,
        };
        let event = message.map(|message| NodeEvent {
            message: message.into(),
            subsystem: "Drain".into(),
            timestamp: Some(now),
            ..NodeEvent::default()
        });
        Ok(UpdateNodeDrain {
            node_id: id,
            drain_strategy: strategy,
            mark_eligible,
            event,
            updated_at: now.into(),
            meta,
            updated_by: actor.drained_by(),
        })
    }

    pub(crate) async fn propose_node_evals(&self, node: NodeId, cause: Cause) -> Result<(), RpcError> {
        let view = self.view();
        let Some(row) = view.node(node) else { return Ok(()) };
        let fresh = || self.fresh_eval();
        let evals = songline_projections::node_evals(&view, row, cause.index, self.now(), fresh);
        if !evals.is_empty() {
            self.propose_as(Actor::Node(node), Some(cause), UpdateEvals { evals }).await?;
        }
        Ok(())
    }

    pub(crate) async fn propose_as(
        &self,
        actor: Actor,
        cause: Option<Cause>,
        command: impl Into<Command>,
    ) -> Result<u64, RpcError> {
        let proposal = Proposal { actor, cause, idempotency: None, command: command.into() };
        self.write(proposal).await.map(|written| written.index).map_err(refused)
    }

    /// Like `propose_as`, for decisions of the leader itself: written only within its leadership term.
    pub(crate) async fn propose_under(
        &self,
        term: &LeadershipTerm,
        actor: Actor,
        cause: Option<Cause>,
        command: impl Into<Command>,
    ) -> Result<u64, RpcError> {
        let proposal = Proposal { actor, cause, idempotency: None, command: command.into() };
        self.write_under(term, proposal).await.map(|(written, _)| written.index).map_err(refused)
    }

    /// The calling node's row. The node's secret authenticates it.
    fn authenticate(&self, from: &NodeAuth) -> Result<(Arc<State>, Arc<Node>), RpcError> {
        let view = self.view();
        let node = view.node(from.id).cloned().ok_or_else(|| RpcError::remote("node not found"))?;
        if node.secret_id != from.secret {
            return Err(RpcError::remote("node secret ID does not match"));
        }
        Ok((view, node))
    }

    /// Fails unless the allocation is of the calling node, or of none.
    fn has_alloc(&self, from: &NodeAuth, alloc: AllocId) -> Result<(), RpcError> {
        let (view, _) = self.authenticate(from)?;
        if csi::may_claim(&view, from.id, alloc) { Ok(()) } else { Err(RpcError::remote("Permission denied")) }
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
            servers: self.server_addresses().into_iter().map(Into::into).collect(),
        })
    }
}

/// Converts a failed proposal to the error of a call.
pub(super) fn refused(error: ProposeError) -> RpcError {
    match error {
        ProposeError::NoLeader => RpcError::NoLeader,
        ProposeError::Rejected(_) | ProposeError::OutcomeUnknown(_) | ProposeError::Unavailable(_) => {
            RpcError::remote(error.to_string())
        }
    }
}

/// The allocations of the node with the indexes at which the servers last changed them, and the newest of these
/// indexes. Reports of the node itself do not count: it knows them, and would fetch the list after each of them. An
/// unknown node has no allocations; without any, the index is that of the table.
fn client_allocs(view: &State, node: NodeId) -> ClientAllocs {
    // The list is made for every placement on the node, so it is made without the rows wherever that is possible.
    let mut migrate_tokens = BTreeMap::new();
    let listed = view.list_of_node(node).map(|(id, listed)| {
        if listed.has_previous
            && let Some(token) = token_of_move(view, &listed.row)
        {
            migrate_tokens.insert(id, token);
        }
        (id, listed.alloc_modify_index)
    });
    let allocs: FlatMap<_, _> = listed.collect();
    let newest = allocs.values().max().copied();
    let index = newest.unwrap_or_else(|| view.table_index(Table::Allocs)).max(1);
    ClientAllocs { allocs, index, migrate_tokens }
}

/// The allocations of the node among `ids`, and the newest index of all of `ids`. If one does not exist, the index is
/// that of the table: either this server is behind, and the index is lower than that of the list with the id, or the
/// allocation was deleted.
fn pulled(view: &State, node: NodeId, ids: &[AllocId]) -> (Vec<Arc<Allocation>>, u64) {
    let known: Vec<_> = ids.iter().filter_map(|id| view.alloc(*id)).collect();
    let newest = known.iter().map(|alloc| alloc.modify_index).max().filter(|_| known.len() == ids.len());
    let index = newest.unwrap_or_else(|| view.table_index(Table::Allocs)).max(1);
    (known.into_iter().filter(|alloc| alloc.node_id == Some(node)).cloned().collect(), index)
}

/// Token by which an allocation fetches its predecessor's data from another node; `None` when the data is not to be
/// migrated.
fn token_of_move(view: &State, alloc: &Allocation) -> Option<Str> {
    let before = view.alloc(alloc.previous_allocation?)?;
    let wanted = alloc.group()?.ephemeral_disk.as_ref().is_some_and(|disk| disk.sticky && disk.migrate);
    if !wanted || alloc.server_terminal() {
        return None;
    }
    let node = before.node_id.filter(|node| Some(*node) != alloc.node_id).and_then(|node| view.node(node))?;
    migrate_token::of(before.id, &node.secret_id)
}

/// Longest wait of a blocking query, and the wait of one without a bound of its own.
const POLL_MAX: Dur = Dur::from_secs(300);

/// Delay of a node's alloc update, in which other updates join its batch. A longer delay saves log entries but slows
/// deployments by as much. The batch has no size limit.
pub(crate) const ALLOC_UPDATE_BATCH_WAIT: Duration = Duration::from_millis(50);
