//! Every call of the trait through bytes: requests and answers arrive unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::{Expect, expect};
use parking_lot::Mutex;
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, AllocNetworkStatus, Allocation, CsiVolumeClaim, CsiVolumeKey,
    DrainStrategy, Dur, Eligibility, FlatMap, Job, NamespaceName, Node, NodeEvent, NodeId, NodeStatus, RootKeyId,
    SIGNATURE_BYTES, Secret, ServiceRegistration, Signature, Str, TaskIdentity, TaskState, Time,
};

use super::*;
use crate::{
    AllocReport, BlockingQuery, ClaimedVolume, ClientAllocs, NoVaultToken, NodeAuth, NodeUpdateResponse, Servers,
    WrappedTokens,
};

const SECRET: &str = "5ec2e75e-c2e7-5ec2-e75e-c2e75ec2e75e";

fn node_id() -> NodeId {
    NodeId::from_bytes([7; 16])
}

fn from() -> NodeAuth {
    NodeAuth { id: node_id(), secret: Secret::new(SECRET) }
}

/// Records requests; returns prepared answers.
#[derive(Default)]
struct Recorder {
    no_vault: Option<NoVaultToken>,
    asked: Mutex<Vec<String>>,
    allocs: Vec<Arc<Allocation>>,
    refusal: Option<RpcError>,
}

impl Recorder {
    fn note<T>(&self, asked: String, answer: T) -> Result<T, RpcError> {
        self.asked.lock().push(asked);
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(answer),
        }
    }

    fn update(&self) -> NodeUpdateResponse {
        NodeUpdateResponse {
            heartbeat_ttl: Dur::from_secs(12),
            index: 300,
            eligibility: Eligibility::Ineligible,
            nodes: 2,
            servers: vec!["10.0.0.1:4647".into(), "10.0.0.2:4647".into()],
        }
    }
}

fn who(from: &NodeAuth) -> String {
    assert_eq!(from.secret.reveal(), SECRET, "the secret arrives");
    format!("node {:?}", from.id)
}

impl Servers for Recorder {
    async fn node_register(&self, node: Node) -> Result<NodeUpdateResponse, RpcError> {
        assert_eq!(node.secret_id.reveal(), SECRET, "the secret arrives");
        self.note(format!("register {node:?}"), self.update())
    }

    async fn node_update_status(&self, from: &NodeAuth, status: NodeStatus) -> Result<NodeUpdateResponse, RpcError> {
        self.note(format!("{} is {status}", who(from)), self.update())
    }

    async fn node_get_client_allocs(&self, from: &NodeAuth, query: BlockingQuery) -> Result<ClientAllocs, RpcError> {
        let allocs = self.allocs.iter().map(|alloc| (alloc.id, alloc.alloc_modify_index)).collect();
        self.note(
            format!("{} wants its allocs: {query:?}", who(from)),
            ClientAllocs { allocs, index: 77, migrate_tokens: [(alloc().id, "move".into())].into() },
        )
    }

    async fn alloc_get_allocs(&self, from: &NodeAuth, ids: Vec<AllocId>) -> Result<Vec<Arc<Allocation>>, RpcError> {
        self.note(format!("{} wants {ids:?}", who(from)), self.allocs.clone())
    }

    async fn alloc_get_alloc(
        &self,
        from: &NodeAuth,
        id: AllocId,
        query: BlockingQuery,
    ) -> Result<(Option<Arc<Allocation>>, u64), RpcError> {
        self.note(format!("{} waits for {id:?}: {query:?}", who(from)), (None, 5))
    }

    async fn node_get_node(&self, from: &NodeAuth, id: NodeId) -> Result<Option<Node>, RpcError> {
        self.note(format!("{} wants {id:?}", who(from)), None)
    }

    async fn node_update_alloc(&self, from: &NodeAuth, allocs: Vec<AllocReport>) -> Result<u64, RpcError> {
        self.note(format!("{} says {allocs:?}", who(from)), 301)
    }

    async fn service_registration_upsert(
        &self,
        from: &NodeAuth,
        services: Vec<ServiceRegistration>,
    ) -> Result<u64, RpcError> {
        self.note(format!("{} announces {services:?}", who(from)), 302)
    }

    async fn service_registration_delete_by_id(
        &self,
        from: &NodeAuth,
        namespace: NamespaceName,
        id: Str,
    ) -> Result<u64, RpcError> {
        self.note(format!("{} takes back {id} of {namespace}", who(from)), 303)
    }

    async fn csi_volume_claim(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<ClaimedVolume, RpcError> {
        self.note(format!("{} claims {volume:?} {claim:?}", who(from)), ClaimedVolume::default())
    }

    async fn csi_volume_unpublish(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<u64, RpcError> {
        self.note(format!("{} releases {volume:?} {claim:?}", who(from)), 304)
    }

    async fn node_update_drain(
        &self,
        from: &NodeAuth,
        strategy: DrainStrategy,
        meta: BTreeMap<Str, Str>,
    ) -> Result<u64, RpcError> {
        self.note(format!("{} is to be drained within {} because {meta:?}", who(from), strategy.deadline), 304)
    }

    async fn node_derive_vault_token(
        &self,
        from: &NodeAuth,
        alloc: AllocId,
        tasks: Vec<Str>,
    ) -> Result<Result<WrappedTokens, NoVaultToken>, RpcError> {
        let wrapped = tasks.iter().map(|task| (task.clone(), Secret::new("wrapped"))).collect();
        let answer = self.no_vault.clone().map_or(Ok(wrapped), Err);
        self.note(format!("{} wants tokens of Vault for {tasks:?} of {alloc:?}", who(from)), answer)
    }

    async fn node_emit_events(&self, from: &NodeAuth, events: Vec<NodeEvent>) -> Result<u64, RpcError> {
        self.note(format!("{} tells {events:?}", who(from)), 304)
    }
}

impl ServerContext for Recorder {
    fn node_of(&self, secret: &Secret) -> Option<NodeId> {
        (secret.reveal() == SECRET).then(node_id)
    }

    fn leader_rpc_addr(&self) -> Str {
        "10.0.0.1:4647".into()
    }

    fn datacenter(&self) -> Str {
        "dc1".into()
    }
}

/// Carries bytes to the recorder and back, with errors as texts of a header.
struct Wire(Arc<Recorder>);

impl RpcClient for Wire {
    async fn call(&self, method: &str, body: Vec<u8>) -> Result<Vec<u8>, RpcError> {
        match serve_servers(&*self.0, &*self.0, method, &body).await {
            Ok(answer) => Ok(answer),
            Err(ServeError::Refused(error)) => Err(RpcError::of_wire_text(&error.wire_text())),
            Err(error) => panic!("{method}: {error}"),
        }
    }
}

fn remote(recorder: Recorder) -> (RemoteServers<Wire>, Arc<Recorder>) {
    let recorder = Arc::new(recorder);
    (RemoteServers::new(Wire(recorder.clone()), "global"), recorder)
}

fn check(recorder: &Recorder, expected: &Expect) {
    expected.assert_eq(&recorder.asked.lock().join("\n"));
}

fn alloc() -> Arc<Allocation> {
    let identity = TaskIdentity { task: "web".into(), signature: Signature([9; SIGNATURE_BYTES]) };
    Arc::new(Allocation {
        id: AllocId::from_bytes([1; 16]),
        namespace: "default".into(),
        node_id: Some(node_id()),
        job_id: "web".into(),
        job: Some(Arc::new(Job { id: "web".into(), ..Job::default() })),
        signing_key_id: Some(RootKeyId::from_bytes([3; 16])),
        signed_identities: Some([identity].into()),
        create_time: Time::from_secs(1_700_000_000),
        modify_index: 40,
        alloc_modify_index: 39,
        ..Allocation::default()
    })
}

#[tokio::test]
async fn registration_and_heartbeat_arrive_and_are_answered() {
    let (servers, recorder) = remote(Recorder::default());
    let node = Node {
        id: node_id(),
        secret_id: Secret::new(SECRET),
        name: "n1".into(),
        datacenter: "dc1".into(),
        status: NodeStatus::Initializing,
        ..Node::default()
    };
    assert_eq!(servers.node_register(node.clone()).await.unwrap(), recorder.update());
    assert_eq!(*recorder.asked.lock(), [format!("register {node:?}")]);
    recorder.asked.lock().clear();
    assert_eq!(servers.node_update_status(&from(), NodeStatus::Ready).await.unwrap(), recorder.update());
    check(&recorder, &expect!["node NodeId(07070707-0707-0707-0707-070707070707) is ready"]);
}

#[tokio::test]
async fn allocations_arrive_with_the_identities_of_their_tasks() {
    let (servers, recorder) = remote(Recorder { allocs: vec![alloc()], ..Recorder::default() });
    let query = BlockingQuery { min_index: 5, max_wait: Dur::from_mins(5) };
    let known = servers.node_get_client_allocs(&from(), query).await.unwrap();
    assert_eq!(
        known,
        ClientAllocs {
            allocs: [(alloc().id, 39)].into(),
            index: 77,
            migrate_tokens: [(alloc().id, "move".into())].into()
        }
    );
    let fetched = servers.alloc_get_allocs(&from(), vec![alloc().id]).await.unwrap();
    assert_eq!(fetched, [alloc()]);
    assert!(fetched[0].identity_token("web").is_some_and(|token| Some(token) == alloc().identity_token("web")));
    check(
        &recorder,
        &expect![[r#"
            node NodeId(07070707-0707-0707-0707-070707070707) wants its allocs: BlockingQuery { min_index: 5, max_wait: 5m0s }
            node NodeId(07070707-0707-0707-0707-070707070707) wants [AllocId(01010101-0101-0101-0101-010101010101)]"#]],
    );
}

#[tokio::test]
async fn alloc_updates_services_and_node_events_reach_the_server() {
    let (servers, recorder) = remote(Recorder::default());
    let update = AllocReport {
        id: AllocId::from_bytes([1; 16]),
        node_id: from().id,
        client_status: AllocClientStatus::Running,
        client_description: "Tasks are running".into(),
        task_states: Some(Arc::new(FlatMap::from([(
            "web".into(),
            TaskState { started_at: Some(Time::from_nanos(1_700_000_000_123_456_789)), ..TaskState::default() },
        )]))),
        deployment_status: Some(AllocDeploymentStatus { healthy: Some(true), ..AllocDeploymentStatus::default() }),
        network_status: Some(AllocNetworkStatus::default()),
    };
    assert_eq!(servers.node_update_alloc(&from(), vec![update.clone()]).await, Ok(301));
    let service =
        ServiceRegistration { id: "s".into(), tags: vec!["a".into()], port: 8080, ..ServiceRegistration::default() };
    assert_eq!(servers.service_registration_upsert(&from(), vec![service.clone()]).await, Ok(302));
    assert_eq!(servers.service_registration_delete_by_id(&from(), "default".into(), "s".into()).await, Ok(303));
    let event = NodeEvent { message: "m".into(), timestamp: Some(Time::from_secs(1)), ..NodeEvent::default() };
    assert_eq!(servers.node_emit_events(&from(), vec![event.clone()]).await, Ok(304));
    let from = who(&from());
    let said = [
        format!("{from} says {:?}", [update]),
        format!("{from} announces {:?}", [service]),
        format!("{from} takes back s of default"),
        format!("{from} tells {:?}", [event]),
    ];
    assert_eq!(*recorder.asked.lock(), said);
}

#[tokio::test]
async fn tokens_of_vault_arrive_or_the_reason_why_there_are_none() {
    let (servers, recorder) = remote(Recorder::default());
    let tasks = vec!["web".into(), "log".into()];
    let tokens = servers.node_derive_vault_token(&from(), alloc().id, tasks).await.unwrap().unwrap();
    let told: Vec<String> = tokens.iter().map(|(task, token)| format!("{task} {}", token.reveal())).collect();
    assert_eq!(told, ["log wrapped", "web wrapped"]);
    check(
        &recorder,
        &expect![[
            r#"node NodeId(07070707-0707-0707-0707-070707070707) wants tokens of Vault for ["web", "log"] of AllocId(01010101-0101-0101-0101-010101010101)"#
        ]],
    );
    for recoverable in [true, false] {
        let none = NoVaultToken { why: "sealed".into(), recoverable };
        let (servers, _) = remote(Recorder { no_vault: Some(none.clone()), ..Recorder::default() });
        let told = servers.node_derive_vault_token(&from(), alloc().id, vec!["web".into()]).await;
        assert_eq!(told, Ok(Err(none)));
    }
}

#[tokio::test]
async fn refusals_keep_their_text_and_their_status() {
    for refusal in [
        RpcError::remote("node not found"),
        RpcError::Coded { code: 404, text: "no such thing, really".into() },
        RpcError::NoLeader,
    ] {
        let (servers, _) = remote(Recorder { refusal: Some(refusal.clone()), ..Recorder::default() });
        let told = servers.node_update_status(&from(), NodeStatus::Ready).await.unwrap_err();
        assert_eq!(told.wire_text(), refusal.wire_text());
    }
}

#[tokio::test]
async fn unknown_node_secret_is_denied() {
    let (servers, recorder) = remote(Recorder::default());
    let stranger = NodeAuth { id: node_id(), secret: Secret::new("another") };
    assert_eq!(servers.alloc_get_allocs(&stranger, vec![]).await, Err(RpcError::remote("Permission denied")));
    assert_eq!(
        servers.service_registration_upsert(&stranger, vec![]).await,
        Err(RpcError::remote("Permission denied"))
    );
    check(&recorder, &expect![""]);
}
