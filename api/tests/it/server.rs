//! A server in memory, and stories of requests to it.

mod no_node;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use expect_test::Expect;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use sha2::Digest as _;
use songline_api::http::Api;
use songline_api::keyring::{Keyring, KeyringError};
use songline_api::sso::{Fetch, FetchError, FetchFuture, Outgoing, Sso};
use songline_api::{
    Agent, AgentInfo, AgentSelf, Cluster, ClusterHealth, Contact, Health, Leader, Leading, Logins, Member,
    MemberHealth, Nodes, PassFailure, PlannedJob, Proposal, ProposeError, Reads, Regions, RestoreError, RestoreReport,
    Route, SCHEDULERS, SavedArchive, SchedulerPool, Schedules, Served, Status, Upkeep, Wellness, WhatIfFailure, Writes,
    Written,
};
use songline_commands::{Actor, Cause, Command, Envelope, Idempotency, ReapEvals, ReconcileSummaries, UpsertRootKey};
use songline_events::hub::{EventHub, HubConfig};
use songline_events::past::Past;
use songline_events::watch::Watches;
use songline_model::{
    CsiVolumeKey, IdentityClaims, Job, NodeId, ROOT_KEY_ALGORITHM, RootKeyId, RootKeyMeta, RootKeyState,
    SchedulerConfiguration, Sealed, Secret, Supposition, Time, VariableData, WhatIf, WrappedKey,
};
use songline_projections::{State, apply, pass};
use songline_rpc::RpcError;
use songline_rpc::message::{ToController, ToCsiNode};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use no_node::NoNode;

use crate::federation::Elsewhere;
use crate::place::Place;
use crate::record::Record;
use crate::shapes::Document;
use crate::storage::Storage;

/// A keyring without secrets: it encrypts by reversing the bytes. Its only key has to be proposed first.
pub struct Mirror;

/// The only key.
pub fn mirror_key() -> RootKeyId {
    RootKeyId::from_bytes([9; 16])
}

impl Keyring for Mirror {
    fn encrypt(&self, plain: &[u8]) -> Result<VariableData, KeyringError> {
        Ok(VariableData { data: Sealed(plain.iter().rev().copied().collect()), key_id: mirror_key() })
    }
    fn decrypt(&self, _: RootKeyId, sealed: &Sealed) -> Result<Vec<u8>, KeyringError> {
        Ok(sealed.0.iter().rev().copied().collect())
    }
    /// Accepts any claims as valid.
    fn verify_identity(&self, token: &str) -> Result<IdentityClaims, KeyringError> {
        serde_json::from_str(token).map_err(|error| KeyringError::InvalidIdentity(error.to_string()))
    }
    fn public_key(&self, _: RootKeyId) -> Result<[u8; 32], KeyringError> {
        Ok([7; 32])
    }
    fn fresh_key(&self, rekey: bool) -> Result<UpsertRootKey, KeyringError> {
        let meta = RootKeyMeta {
            key_id: mirror_key(),
            algorithm: ROOT_KEY_ALGORITHM.into(),
            create_time: Time::from_nanos(1),
            state: RootKeyState::Active,
            ..RootKeyMeta::default()
        };
        Ok(UpsertRootKey { meta, wrapped: WrappedKey { wrapped_by: "none".into(), material: Sealed(vec![1]) }, rekey })
    }
}

/// HTTP client that reaches no server.
pub struct Nobody;

impl Fetch for Nobody {
    fn fetch(&self, _: Outgoing) -> FetchFuture<'_> {
        Box::pin(async { Err(FetchError::Connect("connection refused".to_owned())) })
    }
}

/// A server that applies commands immediately.
pub struct Memory {
    state: Arc<Mutex<Arc<State>>>,
    /// The server's place among several servers.
    pub place: Place,
    /// Other regions.
    pub elsewhere: Elsewhere,
    /// The storage behind the controllers of CSI plugins.
    pub storage: Storage,
    watches: Watches,
    events: Arc<EventHub>,
    last_actor: Mutex<Actor>,
    served: Mutex<Vec<String>>,
    answered: Mutex<Vec<String>>,
    info: AgentInfo,
    sso: Sso,
    clock: AtomicU64,
    ids: AtomicU64,
    bootstrap_reset: AtomicU64,
    past: Option<Arc<Record>>,
    /// Whether this server's own writes are recorded in `past`.
    keeps_past: bool,
    shutdown: CancellationToken,
}

impl Memory {
    pub fn new() -> Arc<Self> {
        Self::with(songline_api::AclSettings::default(), Arc::new(Nobody))
    }

    /// A server of another region than `global`, which is its own authoritative one.
    pub fn of_region(name: &str) -> Arc<Self> {
        Self::new().in_region(name, name)
    }

    /// A server with ACLs enabled.
    pub fn guarded() -> Arc<Self> {
        Self::asking(Arc::new(Nobody))
    }

    /// A server with ACLs enabled and this HTTP client.
    pub fn asking(fetch: Arc<dyn Fetch>) -> Arc<Self> {
        Self::with(songline_api::AclSettings { enabled: true, ..songline_api::AclSettings::default() }, fetch)
    }

    fn with(acl: songline_api::AclSettings, fetch: Arc<dyn Fetch>) -> Arc<Self> {
        let info = AgentInfo {
            version: "1.6.5".to_owned(),
            name: "host.global".to_owned(),
            region: "global".to_owned(),
            authoritative_region: "global".to_owned(),
            datacenter: "dc1".to_owned(),
            server_ip: "127.0.0.1".to_owned(),
            serf_port: 4648,
            enable_debug: true,
            enable_event_broker: true,
            job_max_source_bytes: 1_000_000,
            acl,
            rpc_rate_labels: true,
            dispatched_metrics: true,
            prometheus_metrics: true,
            job_max_priority: 100,
            vault_enabled: false,
            job_tracked_versions: 6,
            default_scheduler_config: SchedulerConfiguration::default(),
            response_headers: Vec::new(),
            ui: songline_api::UiSettings::default(),
        };
        let mut state = State::new();
        // The first entry of a fresh cluster is no user's command.
        pass(&mut state, 1);
        let events = EventHub::start(HubConfig::default(), None, state.applied_index() + 1).expect("starts");
        Arc::new(Self {
            state: Arc::new(Mutex::new(Arc::new(state))),
            place: Place::default(),
            elsewhere: Elsewhere::default(),
            storage: Storage::default(),
            watches: Watches::default(),
            events,
            last_actor: Mutex::default(),
            served: Mutex::default(),
            answered: Mutex::default(),
            info,
            sso: Sso::new(fetch),
            clock: AtomicU64::new(1_700_000_000_000_000_000),
            ids: AtomicU64::new(0),
            bootstrap_reset: AtomicU64::new(0),
            past: None,
            keeps_past: false,
            shutdown: CancellationToken::new(),
        })
    }

    /// The same server with a readable past from here on.
    pub fn remembering(self: Arc<Self>) -> Arc<Self> {
        let mut own = Arc::into_inner(self).expect("nobody else has it");
        own.past = Some(Record::from(own.view(), Arc::clone(&own.events)));
        own.keeps_past = true;
        Arc::new(own)
    }

    /// The same server in another region. One that follows another region makes ids of its own, from the eleventh on.
    pub fn in_region(self: Arc<Self>, region: &str, authoritative: &str) -> Arc<Self> {
        let mut own = Arc::into_inner(self).expect("nobody else has it");
        (own.info.region, own.info.authoritative_region) = (region.to_owned(), authoritative.to_owned());
        if region != authoritative {
            own.ids = AtomicU64::new(10);
        }
        Arc::new(own)
    }

    /// Permits a second bootstrap to callers that know the index of the last one.
    pub fn allow_bootstrap(&self, index: u64) {
        self.bootstrap_reset.store(index, Ordering::Relaxed);
    }

    /// Advances the clock.
    pub fn pass_minutes(&self, minutes: u64) {
        self.clock.fetch_add(minutes * 60_000_000_000, Ordering::Relaxed);
    }

    /// Another server in the same state. It has the past of this one, without its own later writes.
    pub fn twin(&self) -> Arc<Self> {
        let state = self.view();
        let events = EventHub::start(HubConfig::default(), None, state.applied_index() + 1).expect("starts");
        Arc::new(Self {
            state: Arc::new(Mutex::new(state)),
            place: Place::default(),
            elsewhere: Elsewhere::default(),
            storage: Storage::default(),
            watches: Watches::default(),
            events,
            last_actor: Mutex::default(),
            served: Mutex::default(),
            answered: Mutex::default(),
            info: self.info.clone(),
            sso: Sso::new(Arc::new(Nobody)),
            clock: AtomicU64::new(self.clock.load(Ordering::Relaxed)),
            ids: AtomicU64::new(self.ids.load(Ordering::Relaxed)),
            bootstrap_reset: AtomicU64::new(0),
            past: self.past.clone(),
            keeps_past: false,
            shutdown: CancellationToken::new(),
        })
    }

    /// Another server with the same log: both apply every entry.
    pub fn sibling(&self) -> Arc<Self> {
        let mut sibling = Arc::into_inner(self.twin()).expect("nobody else has it");
        sibling.state = Arc::clone(&self.state);
        Arc::new(sibling)
    }

    /// Applies a command like a loop of the leader.
    pub fn run(&self, command: impl Into<Command>) -> u64 {
        let command = command.into();
        self.apply(Proposal { actor: Actor::Leader("test".into()), cause: None, idempotency: None, command })
            .expect("is applied")
            .index
    }

    /// Applies a command with this actor and cause.
    pub fn run_as(&self, actor: Actor, cause: Option<Cause>, command: Command) -> u64 {
        self.apply(Proposal { actor, cause, idempotency: None, command }).expect("is applied").index
    }

    /// Counted requests: endpoint, operation and identity of each.
    pub fn served(&self) -> Vec<String> {
        self.served.lock().clone()
    }

    /// Routes that this server answered, in order.
    pub fn answered(&self) -> Vec<String> {
        self.answered.lock().clone()
    }

    /// Actor of the last command.
    pub fn last_actor(&self) -> Actor {
        self.last_actor.lock().clone()
    }

    fn apply(&self, proposal: Proposal) -> Result<Written, ProposeError> {
        let kind = proposal.command.kind();
        *self.last_actor.lock() = proposal.actor.clone();
        let envelope = Envelope {
            cause: proposal.cause,
            idempotency: proposal.idempotency,
            ..Envelope::new(self.now(), proposal.actor, proposal.command)
        };
        let mut view = self.state.lock();
        let mut state = State::clone(&view);
        let index = state.raft_index() + 1;
        let applied = apply(&mut state, index, &envelope);
        let applied_index = state.applied_index();
        *view = Arc::new(state);
        if let Some(past) = self.past.as_ref().filter(|_| self.keeps_past) {
            past.keep(Arc::clone(&view), envelope, &applied);
        }
        self.watches.wake(&applied.changes);
        self.events.publish(applied_index, kind, Arc::new(applied.changes));
        Ok(Written { index: applied.index, outcome: applied.result? })
    }
}

impl Agent for Memory {
    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.ids.fetch_add(1, Ordering::Relaxed) + 1) << 64 | 0x8000_0000_0000_0001)
    }
    fn now(&self) -> Time {
        Time::from_nanos(self.clock.fetch_add(1_000_000_000, Ordering::Relaxed) as i64)
    }
    fn info(&self) -> &AgentInfo {
        &self.info
    }
    fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }
}

impl Reads for Memory {
    fn view(&self) -> Arc<State> {
        Arc::clone(&self.state.lock())
    }
    fn past(&self) -> Option<&dyn Past> {
        self.past.as_deref().map(|past| past as &dyn Past)
    }
    async fn read_barrier(&self) -> Result<(), ProposeError> {
        if self.leader() == Leader::Here { Ok(()) } else { Err(ProposeError::NoLeader) }
    }
    fn contact(&self) -> Contact {
        self.place.contact()
    }
    fn watches(&self) -> &Watches {
        &self.watches
    }
    fn events(&self) -> &Arc<EventHub> {
        &self.events
    }
    fn keyring(&self) -> &impl Keyring {
        &Mirror
    }
}

impl Writes for Memory {
    async fn propose(&self, proposal: Proposal) -> Result<Written, ProposeError> {
        self.place.propose(|| self.apply(proposal))
    }
}

impl Leading for Memory {
    fn leader(&self) -> Leader {
        self.place.leader()
    }
    async fn leader_other_than(&self, known: &Leader) {
        self.place.leader_other_than(known).await;
    }
    async fn pass_on(
        &self,
        address: &str,
        request: axum::extract::Request,
    ) -> Result<axum::response::Response, PassFailure> {
        self.place.pass_on(address, request).await
    }
}

impl Regions for Memory {
    fn following_regions(&self) -> Vec<String> {
        self.elsewhere.followers_of(&self.info.region)
    }
    fn servers_of_region(&self, region: &str) -> Vec<String> {
        self.place.servers_of_region(region)
    }
}

impl Cluster for Memory {
    fn members(&self) -> Vec<Member> {
        vec![Member {
            id: "00000000-0000-0001-0000-000000000001".into(),
            name: "host.global".into(),
            address: "127.0.0.1:4647".into(),
            serf_port: 4648,
            tags: BTreeMap::new(),
            version: "1.6.5".into(),
            alive: true,
            voter: true,
            leader: self.leader() == Leader::Here,
            own: true,
        }]
    }
    fn cluster_health(&self) -> ClusterHealth {
        let own = MemberHealth {
            healthy: true,
            last_contact: Duration::ZERO,
            last_term: 0,
            last_index: 0,
            stable_since: self.stable_since(),
        };
        ClusterHealth {
            healthy: true,
            failure_tolerance: 0,
            servers: BTreeMap::from([("00000000-0000-0001-0000-000000000001".into(), own)]),
        }
    }
    async fn join(&self, address: &str) -> Result<(), String> {
        Err(format!("{address} does not answer"))
    }
    async fn remove_member(&self, _: &str) -> Result<(), ProposeError> {
        Err(ProposeError::NoLeader)
    }
    async fn transfer_leadership(&self, _: Option<&str>) -> Result<(), ProposeError> {
        Err(ProposeError::NoLeader)
    }
    fn leader_addr(&self) -> String {
        "127.0.0.1:4647".to_owned()
    }
    fn peer_addrs(&self) -> Vec<String> {
        vec![self.leader_addr()]
    }
}

impl Nodes for Memory {
    type Node = NoNode;
    fn node_agent(&self, _: NodeId, _: Secret) -> Option<Arc<NoNode>> {
        None
    }
    async fn ask_csi_controller<C: ToController>(&self, _: &str, request: C) -> Result<C::Answer, RpcError> {
        self.storage.ask(&request)
    }
    async fn ask_csi_node<C: ToCsiNode>(&self, _: NodeId, request: C) -> Result<C::Answer, RpcError> {
        self.storage.ask(&request)
    }
    async fn detach_csi_volume(&self, _: Actor, volume: &CsiVolumeKey, node: NodeId) -> Result<u64, RpcError> {
        crate::storage::detach(self, volume, node)
    }
    fn local_node(&self) -> Option<NodeId> {
        None
    }
}

impl Schedules for Memory {
    /// Every allocation gives way to the job `large`; other jobs change nothing.
    async fn plan_job(&self, job: Arc<Job>) -> Result<PlannedJob, ProposeError> {
        if job.id != *"large" {
            return Ok(PlannedJob::default());
        }
        let preempted = self.view().allocs().cloned().collect();
        Ok(PlannedJob { preempted, annotations: Some(Default::default()), ..PlannedJob::default() })
    }
    async fn what_if(&self, view: Arc<State>, _: Vec<Supposition>) -> Result<WhatIf, WhatIfFailure> {
        Ok(crate::what_if::everything_stops(&view))
    }
    fn scheduler_pool(&self) -> SchedulerPool {
        SchedulerPool { workers: Vec::new(), count: 1, enabled: SCHEDULERS.to_vec() }
    }
    fn set_scheduler_pool(&self, _: usize, _: Vec<&'static str>) {}
}

impl Upkeep for Memory {
    fn bootstrap_reset_index(&self) -> u64 {
        self.bootstrap_reset.load(Ordering::Relaxed)
    }
    async fn snapshot_save(&self) -> Result<SavedArchive, ProposeError> {
        let failed = |error: std::io::Error| ProposeError::Unavailable(error.to_string());
        let mut file = self.spool().map_err(failed)?;
        std::io::Write::write_all(&mut file, b"archive").map_err(failed)?;
        std::io::Seek::rewind(&mut file).map_err(failed)?;
        Ok(SavedArchive { file, bytes: 7, sha256: sha2::Sha256::digest(b"archive").into() })
    }
    fn spool(&self) -> std::io::Result<std::fs::File> {
        tempfile::tempfile()
    }
    async fn snapshot_restore(
        &self,
        _: std::fs::File,
        _: songline_commands::Actor,
        _: Option<songline_commands::Idempotency>,
        _: songline_api::RestoreChoices,
    ) -> Result<RestoreReport, RestoreError> {
        Err(RestoreError::Archive("gzip: invalid header".to_owned()))
    }
    async fn force_gc(&self, actor: Actor) -> Result<(), ProposeError> {
        let command =
            ReapEvals { evals: self.view().evals().map(|eval| eval.id).collect(), ..ReapEvals::default() }.into();
        self.apply(Proposal { actor, cause: None, idempotency: None, command }).map(|_| ())
    }
    async fn reconcile_summaries(&self, actor: Actor, idempotency: Option<Idempotency>) -> Result<(), ProposeError> {
        let command = ReconcileSummaries::default().into();
        self.apply(Proposal { actor, cause: None, idempotency, command }).map(|_| ())
    }
}

impl Logins for Memory {
    fn sso(&self) -> &Sso {
        &self.sso
    }
}

impl Status for Memory {
    fn agent_self(&self) -> AgentSelf {
        AgentSelf::default()
    }
    fn metrics(&self) -> String {
        r#"{"Timestamp":"","Gauges":[],"Points":[],"Counters":[],"Samples":[]}"#.to_owned()
    }
    fn metrics_prometheus(&self) -> String {
        String::new()
    }
    fn count_served(&self, served: Served) {
        self.served.lock().push(format!("{}.{} {}", served.endpoint, served.op, served.identity.unwrap_or_default()));
    }
    fn measure_answer(&self, route: Route, _took: Duration) {
        self.answered.lock().push(format!("{} {}", route.methods, route.path()));
    }
    fn health(&self) -> Health {
        Health { client: None, server: Some(Wellness { ok: true, message: "ok".to_owned() }) }
    }
    fn stable_since(&self) -> Time {
        Time::from_secs(1_700_000_000)
    }
}

/// Parses a request: `METHOD /path?query [Header: value ..] [body]`.
pub fn request(line: &str) -> Request<Body> {
    let (method, rest) = line.split_once(' ').expect("a method");
    let (path, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut builder = Request::builder().method(method).uri(path);
    while let Some((header, tail)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let Some((name, value)) = header.split_once(": ") else { break };
        builder = builder.header(name, value);
        rest = tail.trim_start();
    }
    builder.body(Body::from(rest.to_owned())).expect("a request")
}

/// Sends one request and returns the response.
pub async fn answer(server: &Arc<Memory>, line: &str) -> Response<Body> {
    Api::new(Arc::clone(server)).answer(request(line)).await
}

/// The line of a request with one more header, `name: value`.
pub fn with_header(line: &str, header: &str) -> String {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (method, path, rest) = (word(), word(), word());
    format!("{method} {path} [{header}] {rest}")
}

/// The line of a request with this token; unchanged for an empty one.
pub fn shown(token: &str, line: &str) -> String {
    if token.is_empty() { line.to_owned() } else { with_header(line, &format!("x-nomad-token: {token}")) }
}

/// Status and JSON of a response. A body that is not JSON becomes a string.
pub async fn parsed(response: Response<Body>) -> (u16, serde_json::Value) {
    let status = response.status().as_u16();
    let body = text(response).await;
    (status, serde_json::from_str(&body).unwrap_or(serde_json::Value::String(body)))
}

/// Body of a response as text.
pub async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends requests one after another and compares the responses: status, index, body.
pub async fn check(server: &Arc<Memory>, story: &str, expected: Expect) {
    let mut out = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let response = answer(server, line).await;
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let index = header("x-nomad-index").map(|index| format!(" @{index}")).unwrap_or_default();
        let next = header("x-nomad-nexttoken").map(|token| format!(" next={token}")).unwrap_or_default();
        let to = header("location").map(|to| format!(" -> {to}")).unwrap_or_default();
        let shown: String = line.chars().take(100).collect();
        let body = text(response).await;
        has_its_shape(line, status, &body);
        out.push_str(&format!("{shown}\n    {status}{index}{next}{to} {}\n", body.trim_end()));
    }
    expected.assert_eq(&out);
}

/// Checks that a successful response has its shape in the OpenAPI document.
fn has_its_shape(line: &str, status: u16, body: &str) {
    static DOCUMENT: LazyLock<Document> =
        LazyLock::new(|| Document::new(songline_api::openapi_document::<Memory>("test")));
    let (method, rest) = line.split_once(' ').expect("a method");
    let path = rest.split([' ', '?']).next().unwrap_or_default();
    let path = path.replace("%20", " ").replace("%2F", "/").replace("%2f", "/");
    // The router accepts any text after this word.
    let path = path.replace("/configurationX", "/configuration");
    if !(200..300).contains(&status) || path.starts_with("/ui/") {
        return;
    }
    let schema = DOCUMENT.schema(method, &path, status).unwrap_or_else(|fault| panic!("{line}: {fault}"));
    let Some((schema, value)) = schema.zip(serde_json::from_str(body).ok()) else { return };
    DOCUMENT.fit(schema, &value, &|_| false).unwrap_or_else(|fault| panic!("{line}: {fault}"));
}
