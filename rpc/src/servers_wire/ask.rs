//! The asking side: a node's calls to servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use songline_model::{
    AllocId, Allocation, CsiVolumeClaim, CsiVolumeKey, DrainStrategy, NamespaceName, Node, NodeEvent, NodeId,
    NodeStatus, Secret, ServiceRegistration, Str,
};

use super::RpcClient;
use crate::message::{
    AllocGetAlloc, AllocGetAllocs, AllocReport, Call, Caller, CsiVolumeClaimRequest, CsiVolumeUnpublish,
    NodeDeriveVaultToken, NodeEmitEvents, NodeGetClientAllocs, NodeGetNode, NodeRegister, NodeUpdate, NodeUpdateAlloc,
    NodeUpdateDrain, NodeUpdateStatus, ServiceDelete, ServiceUpsert, Signed,
};
use crate::{
    BlockingQuery, ClaimedVolume, ClientAllocs, NoVaultToken, NodeAuth, NodeUpdateResponse, RpcError, Servers,
    WrappedTokens, msgpack,
};

/// Servers at the other end of a transport, as one node sees them.
#[derive(Debug)]
pub struct RemoteServers<C> {
    client: C,
    region: Str,
    /// Whether the servers know the node. An unknown node must not authenticate with its secret.
    registered: AtomicBool,
}

/// Makes one call: encodes the request and decodes the answer.
pub async fn call<C: RpcClient, R: Call + Sync>(client: &C, request: &R) -> Result<R::Answer, RpcError> {
    let body = msgpack::to_vec(request).map_err(|error| RpcError::remote(error.to_string()))?;
    let answer = client.call(R::METHOD, body).await?;
    msgpack::from_slice(&answer).map_err(|error| RpcError::remote(error.on_wire(0)))
}

impl<C: RpcClient> RemoteServers<C> {
    /// The servers of a region, reached through `client`.
    pub fn new(client: C, region: impl Into<Str>) -> Self {
        Self { client, region: region.into(), registered: AtomicBool::new(false) }
    }

    /// The carrier of the calls.
    pub fn client(&self) -> &C {
        &self.client
    }

    fn by(&self, secret: &Secret) -> Caller {
        Caller { region: self.region.clone(), namespace: NamespaceName::default(), auth_token: secret.clone() }
    }

    async fn ask<R: Call + Signed + Sync>(&self, from: &NodeAuth, request: R) -> Result<R::Answer, RpcError> {
        call(&self.client, &request.signed(&self.by(&from.secret))).await
    }
}

impl<C: RpcClient> Servers for RemoteServers<C> {
    async fn node_register(&self, node: Node) -> Result<NodeUpdateResponse, RpcError> {
        let secret = if self.registered.load(Ordering::Acquire) { node.secret_id.clone() } else { Secret::default() };
        let request = NodeRegister { node: Some(node), ..NodeRegister::default() }.signed(&self.by(&secret));
        let answer = call(&self.client, &request).await;
        match &answer {
            Ok(_) => self.registered.store(true, Ordering::Release),
            // Servers that have lost their state do not know the secret any more: register like a new node.
            Err(error) if error.to_string().contains("Permission denied") => {
                self.registered.store(false, Ordering::Release)
            }
            Err(_) => {}
        }
        answer.map(update)
    }

    async fn node_update_status(&self, from: &NodeAuth, status: NodeStatus) -> Result<NodeUpdateResponse, RpcError> {
        let request =
            NodeUpdateStatus { node_id: from.id, status: status.as_str().into(), ..NodeUpdateStatus::default() };
        self.ask(from, request).await.map(update)
    }

    async fn node_get_client_allocs(&self, from: &NodeAuth, query: BlockingQuery) -> Result<ClientAllocs, RpcError> {
        let request = NodeGetClientAllocs {
            node_id: from.id,
            secret_id: from.secret.clone(),
            min_query_index: query.min_index,
            max_query_time: query.max_wait,
            // Allocations missing in the first answer are killed, so it has to be the leader's.
            allow_stale: query.min_index > 0,
            ..NodeGetClientAllocs::default()
        };
        let answer = self.ask(from, request).await?;
        let migrate_tokens = answer.migrate_tokens.unwrap_or_default();
        Ok(ClientAllocs { allocs: answer.allocs.unwrap_or_default(), index: answer.index.max(1), migrate_tokens })
    }

    async fn alloc_get_allocs(&self, from: &NodeAuth, ids: Vec<AllocId>) -> Result<Vec<Arc<Allocation>>, RpcError> {
        let request = AllocGetAllocs { alloc_ids: Some(ids), ..AllocGetAllocs::default() };
        let answer = self.ask(from, request).await?;
        Ok(answer.allocs.unwrap_or_default().into_iter().map(|alloc| alloc.0).collect())
    }

    async fn alloc_get_alloc(
        &self,
        from: &NodeAuth,
        id: AllocId,
        query: BlockingQuery,
    ) -> Result<(Option<Arc<Allocation>>, u64), RpcError> {
        let request = AllocGetAlloc {
            alloc_id: id,
            min_query_index: query.min_index,
            max_query_time: query.max_wait,
            // The first answer could come from before the allocation was made.
            allow_stale: query.min_index > 0,
            ..AllocGetAlloc::default()
        };
        let answer = self.ask(from, request).await?;
        Ok((answer.alloc.map(|alloc| alloc.0), answer.index))
    }

    async fn node_get_node(&self, from: &NodeAuth, id: NodeId) -> Result<Option<Node>, RpcError> {
        let request = NodeGetNode { node_id: id, secret_id: from.secret.clone(), ..NodeGetNode::default() };
        Ok(self.ask(from, request).await?.node)
    }

    async fn node_update_alloc(&self, from: &NodeAuth, allocs: Vec<AllocReport>) -> Result<u64, RpcError> {
        let reports = allocs.into_iter().map(|report| AllocReport { node_id: from.id, ..report }).collect();
        let request = NodeUpdateAlloc { alloc: Some(reports), ..NodeUpdateAlloc::default() };
        Ok(self.ask(from, request).await?.index)
    }

    async fn service_registration_upsert(
        &self,
        from: &NodeAuth,
        services: Vec<ServiceRegistration>,
    ) -> Result<u64, RpcError> {
        let request = ServiceUpsert { services: Some(services), ..ServiceUpsert::default() };
        Ok(self.ask(from, request).await?.index)
    }

    async fn service_registration_delete_by_id(
        &self,
        from: &NodeAuth,
        namespace: NamespaceName,
        id: Str,
    ) -> Result<u64, RpcError> {
        let mut request = ServiceDelete { id, ..ServiceDelete::default() }.signed(&self.by(&from.secret));
        request.namespace = namespace;
        Ok(call(&self.client, &request).await?.index)
    }

    async fn csi_volume_claim(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<ClaimedVolume, RpcError> {
        let request = CsiVolumeClaimRequest {
            volume_id: volume.id,
            allocation_id: claim.allocation_id,
            node_id: claim.node_id,
            external_node_id: claim.external_node_id,
            claim: claim.mode,
            access_mode: claim.access_mode,
            attachment_mode: claim.attachment_mode,
            state: claim.state,
            ..CsiVolumeClaimRequest::default()
        };
        let mut request = request.signed(&self.by(&from.secret));
        request.namespace = volume.namespace;
        call(&self.client, &request).await?.try_into()
    }

    async fn csi_volume_unpublish(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<u64, RpcError> {
        let request = CsiVolumeUnpublish { volume_id: volume.id, claim: Some(claim), ..CsiVolumeUnpublish::default() };
        let mut request = request.signed(&self.by(&from.secret));
        request.namespace = volume.namespace;
        Ok(call(&self.client, &request).await?.index)
    }

    async fn node_update_drain(
        &self,
        from: &NodeAuth,
        strategy: DrainStrategy,
        meta: BTreeMap<Str, Str>,
    ) -> Result<u64, RpcError> {
        let (node_id, drain_strategy) = (from.id, Some(strategy));
        let request = NodeUpdateDrain { node_id, drain_strategy, meta: Some(meta), ..NodeUpdateDrain::default() };
        Ok(self.ask(from, request).await?.index)
    }

    async fn node_derive_vault_token(
        &self,
        from: &NodeAuth,
        alloc: AllocId,
        tasks: Vec<Str>,
    ) -> Result<Result<WrappedTokens, NoVaultToken>, RpcError> {
        let request = NodeDeriveVaultToken {
            node_id: from.id,
            secret_id: from.secret.clone(),
            alloc_id: alloc,
            tasks: Some(tasks),
            ..NodeDeriveVaultToken::default()
        };
        let answer = self.ask(from, request).await?;
        Ok(match answer.error {
            Some(error) => Err(NoVaultToken { why: error.err, recoverable: error.recoverable }),
            None => Ok(answer.tasks.unwrap_or_default()),
        })
    }

    async fn node_emit_events(&self, from: &NodeAuth, events: Vec<NodeEvent>) -> Result<u64, RpcError> {
        let request =
            NodeEmitEvents { node_events: Some([(from.id, Some(events))].into()), ..NodeEmitEvents::default() };
        Ok(self.ask(from, request).await?.index)
    }
}

fn update(answer: NodeUpdate) -> NodeUpdateResponse {
    let servers = answer.servers.unwrap_or_default().into_iter().map(|server| server.rpc_advertise_addr).collect();
    NodeUpdateResponse {
        heartbeat_ttl: answer.heartbeat_ttl,
        index: answer.index,
        eligibility: songline_model::Eligibility::from_word(&answer.scheduling_eligibility).unwrap_or_default(),
        nodes: u32::try_from(answer.num_nodes).unwrap_or_default(),
        servers,
    }
}
