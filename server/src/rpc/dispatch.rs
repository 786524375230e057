//! Routing of node RPC calls to this server, the leader or a node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use songline_api::caller::Callers;
use songline_api::{Agent as _, Api, Cluster as _, Leader, Shared};
use songline_model::{AllocId, NodeId, Secret, Str};
use songline_rpc::message::{
    Call, EventStream, NodeGetClientAllocs, NodeRegister, NodeUpdateStatus, RequestMeta, ServiceDelete, StreamCall,
    StreamErrWrapper,
};
use songline_rpc::msgpack::{Tree, from_slice, to_vec};
use songline_rpc::net::{Caller, Channel, Dispatch, Refusal};
use songline_rpc::servers_wire::{SERVED, ServeError, ServerContext, serve_servers};
use songline_rpc::{RpcError, net};

use super::super::Core;
use super::methods::{self, By, Right, STREAMS};
use super::more;
use super::route::{ForNode, Path, with_fields};
use super::routes::{self, Route};

/// Longest wait of a call for a leader.
const HOLD: Duration = Duration::from_secs(5);

/// Answers the node RPC from a server.
pub(super) struct NodeRpc {
    pub(super) core: Arc<Core>,
    pub(super) api: Api<Core>,
    pub(super) callers: Callers,
}

impl NodeRpc {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let api = Api::with(Arc::clone(core), Shared::of(&**core));
        Self { core: Arc::clone(core), api, callers: Callers::default() }
    }

    /// Refuses requests for another region: a server knows only the servers of its own.
    pub(super) fn check_region(&self, region: &str) -> Result<(), RpcError> {
        match region {
            "" => Err(RpcError::remote("missing region for target RPC")),
            region if region == self.core.info().region => Ok(()),
            _ => Err(RpcError::remote("No path to region")),
        }
    }

    async fn of_leader(
        &self,
        method: &str,
        body: Bytes,
        meta: &RequestMeta,
        caller: &Caller,
    ) -> Result<Bytes, Refusal> {
        self.check_names(method, caller)?;
        let passed_on = match meta.allow_stale && may_be_stale(method) {
            true => None,
            false => self.leaders_answer(method, &body, meta).await?,
        };
        self.remember_poller(method, &body, meta, caller);
        let answer = match passed_on {
            Some(answer) => answer,
            None => {
                self.served(method, &meta.auth_token, caller, Box::pin(self.here(method, &body, meta, caller))).await?
            }
        };
        self.remember(method, &body, meta, caller);
        Ok(answer)
    }

    /// Refuses callers without a node's or server's certificate for methods that are reserved to them, if
    /// certificates are checked.
    fn check_names(&self, method: &str, caller: &Caller) -> Result<(), RpcError> {
        const FOR_NODES: [&str; 4] =
            ["Node.UpdateAlloc", "Node.EmitEvents", "Alloc.GetAllocs", "ServiceRegistration.Upsert"];
        if !self.core.connections.verify_names || !FOR_NODES.contains(&method) {
            return Ok(());
        }
        let region = &self.core.info().region;
        let why = match &caller.names {
            None => "missing certificate information".to_owned(),
            // `names` holds names of this region only: of a node, of a server, or of both.
            Some(names) if !names.is_empty() => return Ok(()),
            Some(_) => format!("invalid certificate, client.{region}.nomad not in it"),
        };
        Err(RpcError::remote(format!("invalid client connection in region {region}: {why}")))
    }

    /// The leader's answer, when another server leads; `None` when this server leads.
    async fn leaders_answer(&self, method: &str, body: &Bytes, meta: &RequestMeta) -> Result<Option<Bytes>, Refusal> {
        let deadline = tokio::time::Instant::now() + HOLD;
        let mut terms = self.core.leader.term.subscribe();
        loop {
            let leader = self.core.leader();
            if let Leader::At(address) = &leader
                && !meta.forwarded
            {
                let request = with_fields(body, [("Forwarded", Tree::Bool(true))])?;
                match self.core.connections.pool.call(address, method, &request).await {
                    Err(RpcError::Remote(text)) if text.contains("No cluster leader") => {}
                    // A lost read changed nothing, so it can be repeated.
                    Err(RpcError::Lost(_)) if is_read(method) => {}
                    other => return Ok(Some(other?)),
                }
            }
            if self.core.term().is_some() {
                return Ok(None);
            }
            let moved = async {
                tokio::select! {
                    () = self.core.leader_other_than(&leader) => {}
                    // A term begins some time after the raft term is won.
                    Ok(()) = terms.changed() => {}
                    () = tokio::time::sleep(Duration::from_millis(200)) => {}
                }
            };
            if tokio::time::timeout_at(deadline, moved).await.is_err() {
                return Err(RpcError::NoLeader.into());
            }
        }
    }

    async fn here(&self, method: &str, body: &Bytes, meta: &RequestMeta, caller: &Caller) -> Result<Bytes, Refusal> {
        if let Some(route) = routes::find(method) {
            return self.forwarded(route, body, meta, caller).await;
        }
        if more::WRITES.contains(&method) {
            return self.write(method, body, meta).await;
        }
        if !SERVED.contains(&method) {
            return self.read(method, body, meta, caller).await;
        }
        if method == ServiceDelete::METHOD && self.node_of(&meta.auth_token).is_none() {
            return self.delete_service(from_slice(body)?).await;
        }
        let serve = serve_servers(&*self.core, self, method, body);
        let served = match is_read(method) {
            // A long poll whose caller has disconnected is cancelled; writes continue.
            true => tokio::select! {
                served = serve => served,
                () = caller.gone() => return Err(RpcError::Lost("the caller has gone".into()).into()),
            },
            false => serve.await,
        };
        served.map(Bytes::from).map_err(|error| match error {
            ServeError::Unknown(_) => Refusal::NoMethod,
            ServeError::Decode(error) => Refusal::Body(error),
            ServeError::Refused(error) => Refusal::Failed(error),
        })
    }

    /// Registers a node's session after a successful answer: the node is reached over it from now on.
    fn remember(&self, method: &str, body: &[u8], meta: &RequestMeta, caller: &Caller) {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Says {
            #[serde(rename = "NodeID")]
            node_id: NodeId,
            node: Option<Registered>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Registered {
            #[serde(rename = "ID")]
            id: NodeId,
        }
        let (Some(session), false) = (&caller.session, meta.forwarded) else { return };
        if !matches!(method, NodeRegister::METHOD | NodeUpdateStatus::METHOD) {
            return;
        }
        if let Ok(Says { node_id, node }) = from_slice(body) {
            self.core.connections.sessions.remember(node.map_or(node_id, |node| node.id), session, self.core.now());
        }
    }

    /// Like `remember`, for an authenticated node that is about to wait for an answer.
    fn remember_poller(&self, method: &str, body: &[u8], meta: &RequestMeta, caller: &Caller) {
        let (Some(session), NodeGetClientAllocs::METHOD, false) = (&caller.session, method, meta.forwarded) else {
            return;
        };
        if let Ok(NodeGetClientAllocs { node_id, secret_id, .. }) = from_slice(body)
            && self.core.view().node(node_id).is_some_and(|node| node.secret_id == secret_id)
        {
            self.core.connections.sessions.remember(node_id, session, self.core.now());
        }
    }

    /// The node that a request addresses, if its caller has the right.
    fn node_for(&self, request: &ForNode, right: Right, by_server: bool) -> Result<NodeId, RpcError> {
        let view = self.core.view();
        let alloc = match request.alloc_id.is_empty() {
            true => None,
            false => {
                let id: Option<AllocId> = request.alloc_id.parse().ok();
                let unknown =
                    || RpcError::Coded { code: 404, text: format!("Unknown allocation \"{}\"", request.alloc_id) };
                Some(id.and_then(|id| view.alloc(id)).ok_or_else(unknown)?)
            }
        };
        // A server that forwards a request has authorized its caller.
        if !by_server {
            let denied = || RpcError::remote("Permission denied");
            let caller = self.callers.authenticate(&*self.core, request.auth_token.reveal()).map_err(|_| denied())?;
            let in_namespace =
                |capability| alloc.is_some_and(|alloc| caller.acl().namespace(&alloc.namespace, capability));
            let may = match right {
                Right::Any(capabilities) => {
                    alloc.is_none() || capabilities.iter().any(|capability| in_namespace(*capability))
                }
                Right::All(capabilities) => {
                    alloc.is_none() || capabilities.iter().all(|capability| in_namespace(*capability))
                }
                Right::Node(access) => caller.acl().node(access),
                Right::Agent(access) => caller.acl().agent(access),
                Right::Server | Right::ServerToNode => false,
            };
            if !may {
                return Err(denied());
            }
        }
        match right {
            Right::Any(_) | Right::All(_) | Right::Server => {
                let alloc = alloc.ok_or_else(|| RpcError::Coded { code: 400, text: "Missing allocation ID".into() })?;
                alloc.node_id.ok_or_else(|| RpcError::Coded { code: 404, text: "No path to node".into() })
            }
            Right::Node(_) | Right::Agent(_) | Right::ServerToNode => {
                let asked = request.node();
                let id: Option<NodeId> = asked.parse().ok();
                let known = id.filter(|id| view.node(*id).is_some());
                known.ok_or_else(|| RpcError::remote(format!("Unknown node {asked}")))
            }
        }
    }

    async fn of_node(&self, method: &str, body: Bytes, right: Right, caller: &Caller) -> Result<Bytes, Refusal> {
        let request: ForNode = from_slice(&body)?;
        let by_server = request.forwarded && caller.is_server;
        let node = self.node_for(&request, right, by_server)?;
        let on_node = methods::on_nodes(method);
        match self.core.path_to(node, !by_server).await? {
            Path::Here(local) => local.call(&on_node, body, caller).await,
            Path::Session(session) => {
                Ok(net::call_over(&session, self.core.connections.pool.next_seq(), &on_node, &body).await?)
            }
            Path::Server(_) => Ok(self.core.call_node(node, &on_node, &body).await?),
        }
    }

    async fn bridge(&self, method: &str, channel: &mut Option<Channel>, caller: &Caller) -> Result<(), RpcError> {
        let lost = |error: std::io::Error| RpcError::Lost(error.to_string());
        let Some(own) = channel.as_mut() else { return Ok(()) };
        let body = own.next().await.map_err(lost)?.ok_or_else(|| RpcError::Lost("nothing was asked".into()))?;
        let request: ForNode = from_slice(&body).map_err(|error| RpcError::remote(error.on_wire(0)))?;
        let right = STREAMS.iter().find(|(name, _)| *name == method).map_or(Right::Server, |(_, right)| *right);
        let by_server = request.forwarded && caller.is_server;
        if !by_server {
            self.count_stream(method, &request.auth_token, caller).await;
        }
        self.check_region(&request.region)?;
        let node = self.node_for(&request, right, by_server)?;
        match self.core.path_to(node, !by_server).await? {
            Path::Here(local) => {
                if let Some(own) = channel.take() {
                    local.stream(method, own.with_first(body), caller).await;
                }
            }
            Path::Session(session) => {
                let there = net::open_channel(&session, method, &body).await?;
                if let Some(own) = channel.take() {
                    own.bridge(there).await;
                }
            }
            Path::Server(_) => {
                let there = self.core.stream_of_node(node, method, &body).await?;
                if let Some(own) = channel.take() {
                    own.bridge(there).await;
                }
            }
        }
        Ok(())
    }
}

impl Dispatch for NodeRpc {
    async fn call(&self, method: &str, body: Bytes, caller: &Caller) -> Result<Bytes, Refusal> {
        let Some(by) = methods::by(method) else {
            let known = method.split_once('.').is_some_and(|(service, _)| methods::is_service(service));
            return Err(if known { Refusal::NoMethod } else { Refusal::NoService });
        };
        let mut meta: RequestMeta = from_slice(&body)?;
        // Only servers forward requests.
        meta.forwarded &= caller.is_server;
        // A call that the asked server answers by itself needs no region.
        if by != By::Asked || !meta.region.is_empty() {
            self.check_region(&meta.region)?;
        }
        match by {
            By::Asked => self.asked(method, &body, &meta, caller),
            By::Leader => self.of_leader(method, body, &meta, caller).await,
            By::Workers => self.of_worker(method, &body, caller).await,
            By::Node(right) => self.of_node(method, body, right, caller).await,
        }
    }

    fn streams(&self, method: &str) -> bool {
        method == EventStream::METHOD || STREAMS.iter().any(|(name, _)| *name == method)
    }

    async fn stream(&self, method: &str, channel: Channel, caller: &Caller) {
        if method == EventStream::METHOD {
            return self.events(channel, caller).await;
        }
        let mut channel = Some(channel);
        if let Err(error) = self.bridge(method, &mut channel, caller).await
            && let Some(mut channel) = channel
            && let Ok(message) = to_vec(&StreamErrWrapper::failed(&error))
        {
            // The caller may have disconnected.
            let _ = channel.send(&message).await;
        }
    }
}

impl ServerContext for NodeRpc {
    fn node_of(&self, secret: &Secret) -> Option<NodeId> {
        self.core.view().node_by_secret(secret.reveal())
    }

    fn leader_rpc_addr(&self) -> Str {
        self.core.leader_addr().into()
    }

    fn datacenter(&self) -> Str {
        self.core.info().datacenter.as_str().into()
    }
}

/// Whether a server that does not lead may answer from its own state. Other methods go to the leader, whatever the
/// request says.
fn may_be_stale(method: &str) -> bool {
    routes::find(method).is_none_or(Route::is_get)
}

/// Whether a method changes nothing.
fn is_read(method: &str) -> bool {
    if let Some(route) = routes::find(method) {
        return route.is_read();
    }
    !more::WRITES.contains(&method)
        && !matches!(
            method,
            "Node.Register"
                | "Node.UpdateStatus"
                | "Node.UpdateAlloc"
                | "Node.DeriveVaultToken"
                | "Node.EmitEvents"
                | "ServiceRegistration.Upsert"
                | "ServiceRegistration.DeleteByID"
        )
}
