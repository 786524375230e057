//! What HTTP needs of the server behind it. The shell implements it; nothing of a log, a scheduler or a node agent is known here.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use serde::Serialize;
use songline_commands::{Actor, Cause, Command, Idempotency};
use songline_model::{AllocMetric, Evaluation, Job, NodeId, PlanAnnotations, SchedulerConfiguration, Secret, Str, Time, TtlBounds};
use songline_projections::{Outcome, Rejected, State};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::event::EventHub;
use crate::http::{RateOp, Route};
use crate::keyring::Keyring;
use crate::past::Past;
use crate::refill::Filling;
use crate::sso::Sso;
use crate::watch::Watches;

/// The server behind the HTTP API.
pub trait Server: Send + Sync + 'static {
    /// How a node agent is reached.
    type Node: songline_rpc::NodeAgent;

    /// The newest applied state.
    fn view(&self) -> Arc<State>;

    /// Writes a command to the log and answers once this server has applied it. The shell stamps its time.
    fn propose(&self, proposal: Proposal) -> impl Future<Output = Result<Written, ProposeError>> + Send;

    /// Returns once this server has applied everything that was acknowledged before the call.
    fn read_barrier(&self) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// The same for reads that need not be surer of the leader than its lease makes them.
    fn lease_barrier(&self) -> impl Future<Output = Result<(), ProposeError>> + Send {
        self.read_barrier()
    }

    /// Who answers what only the leader may answer.
    fn leader(&self) -> Leader {
        Leader::Here
    }

    /// Returns once that is another than `known`.
    fn leader_other_than(&self, known: &Leader) -> impl Future<Output = ()> + Send {
        let _ = known;
        std::future::pending()
    }

    /// Returns once this leader may judge writes by its view: it has applied what leaders before it have acknowledged.
    fn ready_to_lead(&self) -> impl Future<Output = Result<(), ProposeError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Passes a request on to the server whose port is at `address`, and answers what it answers.
    fn pass_on(&self, address: &str, request: Request) -> impl Future<Output = Result<Response, PassFailure>> + Send {
        let why = format!("{address} cannot be reached from here");
        std::future::ready(Err(PassFailure::NotSent { request: Box::new(request), why }))
    }

    /// Returns when the server at `address`, which leads, does not hear this one any more, though its own words may come through.
    fn leader_is_deaf(&self, address: &str) -> impl Future<Output = ()> + Send {
        let _ = address;
        std::future::pending()
    }

    /// How current this server's answers are.
    fn contact(&self) -> Contact;

    /// Where blocking queries wait. The shell wakes it after every applied entry.
    fn watches(&self) -> &Watches;

    /// Where event streams come from. The shell publishes to it after every applied entry.
    fn events(&self) -> &Arc<EventHub>;

    /// What scheduling this job now would do, on a fork of the newest state in which it is registered. Writes nothing.
    fn plan_job(&self, job: Arc<Job>) -> impl Future<Output = Result<PlannedJob, ProposeError>> + Send;

    /// A new random id.
    fn fresh_uuid(&self) -> Uuid;

    /// The clock.
    fn now(&self) -> Time;

    /// The agent of a node, if it can be reached from here. The token is that of the user in whose name it is asked: nodes elsewhere look at it
    /// once more.
    fn node_agent(&self, node: NodeId, token: Secret) -> Option<Arc<Self::Node>>;

    /// The node that runs in this process, if one does.
    fn local_node(&self) -> Option<NodeId>;

    /// A snapshot archive of the newest state.
    fn snapshot_save(&self) -> impl Future<Output = Result<SavedArchive, ProposeError>> + Send;

    /// A file without a name, for a body that is too large for memory.
    fn spool(&self) -> std::io::Result<File>;

    /// Replaces the state by an archive's. Returns once it is applied. A dry run verifies the archive and changes nothing.
    fn snapshot_restore(
        &self,
        archive: File,
        actor: Actor,
        idempotency: Option<Idempotency>,
        dry_run: bool,
    ) -> impl Future<Output = Result<RestoreReport, RestoreError>> + Send;

    /// Drops everything that a garbage collection may drop, whatever its age.
    fn force_gc(&self, actor: Actor) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Counts all job summaries anew. Does nothing when the key of `idempotency` ran before.
    fn reconcile_summaries(&self, actor: Actor, idempotency: Option<Idempotency>) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// The index in the file by which somebody with access to this server allows a second ACL bootstrap; 0 when there is none.
    fn bootstrap_reset_index(&self) -> u64 {
        0
    }

    /// What encrypts and decrypts.
    fn keyring(&self) -> &impl Keyring;

    /// What logins need of the world outside.
    fn sso(&self) -> &Sso;

    /// What stands in the agent's configuration.
    fn info(&self) -> &AgentInfo;

    /// The `config` and `stats` of `agent/self` and the tags of its member, as they are now.
    fn agent_self(&self) -> AgentSelf;

    /// The metrics of the last complete interval: one JSON object of the reference's form.
    fn metrics(&self) -> String;

    /// The metrics since the start in Prometheus' text form, version 0.0.4.
    fn metrics_prometheus(&self) -> String;

    /// Counts a request that this server answers.
    fn count_served(&self, served: Served);

    /// Measures how long this server took to answer a request of this route; of a stream, how long until it began.
    fn measure_answer(&self, route: Route, took: Duration);

    /// Whether this server and the node in this process are well; absent parts do not run here.
    fn health(&self) -> Health;

    /// `host:port` of the leader's server port, empty when there is none.
    fn leader_addr(&self) -> String;

    /// `host:port` of every server of the cluster.
    fn peer_addrs(&self) -> Vec<String>;

    /// Every server of the cluster, this one among them, in the order of their ids.
    fn members(&self) -> Vec<Member>;

    /// How the servers fare. Only the leader knows of the others.
    fn cluster_health(&self) -> ClusterHealth;

    /// Makes this server and the one at `host:port` known to each other; whichever belongs to no cluster joins the other's.
    fn join(&self, address: &str) -> impl Future<Output = Result<(), String>> + Send;

    /// Takes a server out of the cluster. Only the leader can.
    fn remove_member(&self, id: &str) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Lets another server lead: this one, or whichever is best fit for it. Only the leader can.
    fn transfer_leadership(&self, id: Option<&str>) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// The scheduler workers of this server.
    fn scheduler_pool(&self) -> SchedulerPool;

    /// Has so many workers from now on, for these kinds of evaluations. Those at work finish what they have.
    fn set_scheduler_pool(&self, count: usize, enabled: Vec<&'static str>);

    /// What this server knows of its past; `None`: nothing.
    fn past(&self) -> Option<&dyn Past> {
        None
    }

    /// Stores of this server that are being refilled from its log.
    fn refillings(&self) -> Vec<Refilling> {
        Vec::new()
    }

    /// Why this server serves nothing any more, if so.
    fn fenced(&self) -> Option<String> {
        None
    }

    /// Why this server cannot lead, while its disk does not work. It is told to whoever waited in vain for somebody who does.
    fn disk_trouble(&self) -> Option<String> {
        None
    }

    /// Since when this server has been well.
    fn stable_since(&self) -> Time;

    /// Cancelled when the agent goes down: waiting requests and streams end.
    fn shutdown(&self) -> &CancellationToken;
}

/// Who leads, as far as a server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// The server itself.
    Here,
    /// The server whose port is at this `host:port`.
    At(Arc<str>),
    /// Nobody.
    Nobody,
}

/// Why a request that was passed on got no answer.
#[derive(Debug, thiserror::Error)]
pub enum PassFailure {
    /// Nothing of it was sent.
    #[error("{why}")]
    NotSent {
        /// The request, whole.
        request: Box<Request>,
        /// The reason.
        why: String,
    },
    /// It may have been sent: what it asks for may or may not have happened.
    #[error("{0}")]
    Lost(String),
}

/// A request as rate counters tell it apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The reference's name of what was asked, such as `job`.
    pub endpoint: &'static str,
    /// What was done to it.
    pub op: RateOp,
    /// Who asked; `None` where that is not told.
    pub identity: Option<String>,
}

/// What scheduler workers can be for, by the names of the wire. The first is for the servers' own chores.
pub const SCHEDULERS: [&str; 5] = ["_core", "batch", "service", "sysbatch", "system"];

/// The scheduler workers of a server.
#[derive(Debug, Clone)]
pub struct SchedulerPool {
    /// Those that there are; more than `count` while some that were stopped finish their work.
    pub workers: Vec<SchedulerWorker>,
    /// How many there should be.
    pub count: usize,
    /// Which kinds of evaluations they take.
    pub enabled: Vec<&'static str>,
}

/// One worker.
#[derive(Debug, Clone)]
pub struct SchedulerWorker {
    /// Of this run of the server.
    pub id: Uuid,
    /// When it was started.
    pub started: Time,
    /// Whether it ends after what it does now.
    pub stopping: bool,
    /// What it does, in the words of the wire.
    pub doing: &'static str,
}

/// A command that a request asks for.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Who asks.
    pub actor: Actor,
    /// What led to it, if something in the log did.
    pub cause: Option<Cause>,
    /// Makes a retried write run once.
    pub idempotency: Option<Idempotency>,
    /// What to do.
    pub command: Command,
}

/// A command that was applied and not refused.
#[derive(Debug, Clone)]
pub struct Written {
    /// The index of its entry, as users see it. For a repeated write that of the first one.
    pub index: u64,
    /// What apply says beyond that.
    pub outcome: Outcome,
}

/// Why a command was not applied.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProposeError {
    /// Apply refused it. The entry stands in the log nevertheless.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// Nobody leads.
    #[error("No cluster leader")]
    NoLeader,
    /// Leadership was lost, or the log closed, on the way: the command may or may not be applied. The text says which.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The server is broken, or the command cannot be one; the text says which.
    #[error("{0}")]
    Unavailable(String),
}

/// A snapshot archive that was just written.
#[derive(Debug)]
pub struct SavedArchive {
    /// At its start. It has no name, so it is gone when it is closed.
    pub file: File,
    /// Its length.
    pub bytes: u64,
    /// Its sum.
    pub sha256: [u8; 32],
}

/// What an archive holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RestoreReport {
    /// As `meta.json` has it.
    #[serde(rename = "ID")]
    pub id: String,
    /// Index of its state, as its users saw it.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// Whether it was only verified.
    pub dry_run: bool,
    /// Digest over all tables.
    pub digest: String,
    /// One a table.
    pub tables: Vec<RestoredTable>,
}

/// A table of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RestoredTable {
    /// Its name.
    pub name: &'static str,
    /// How many.
    pub rows: usize,
    /// Over its rows.
    pub digest: String,
}

/// Why an archive was not restored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RestoreError {
    /// The archive is not one, or damaged.
    #[error("failed to restore from snapshot: {0}")]
    Archive(String),
    /// It could not be written to the log.
    #[error(transparent)]
    Propose(#[from] ProposeError),
}

/// How current a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contact {
    /// Whether a leader is known.
    pub known_leader: bool,
    /// Since when nothing was heard of it; zero on the leader.
    pub last_contact: Duration,
}

/// What a dry run of the scheduler says.
#[derive(Debug, Clone, Default)]
pub struct PlannedJob {
    /// What it would place, stop and change, by group.
    pub annotations: Option<PlanAnnotations>,
    /// What it could not place, by group.
    pub failed_tg_allocs: BTreeMap<Str, AllocMetric>,
    /// Evaluations that it would make.
    pub created_evals: Vec<Evaluation>,
}

/// A server of the cluster.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its number as a UUID.
    pub id: String,
    /// Its name among servers, such as `host.global`; empty while it was not heard of.
    pub name: String,
    /// `host:port` that other servers use.
    pub address: String,
    /// Port of membership.
    pub serf_port: u16,
    /// What it tells of itself, in the words of the reference.
    pub tags: BTreeMap<String, String>,
    /// The reference's version whose interface it has.
    pub version: String,
    /// Whether it was heard of a short while ago.
    pub alive: bool,
    /// Whether it votes.
    pub voter: bool,
    /// Whether it leads.
    pub leader: bool,
    /// Whether it is the one that was asked.
    pub own: bool,
}

impl Member {
    /// The host of its address.
    pub fn host(&self) -> &str {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// How the servers of a cluster fare.
#[derive(Debug, Clone, Default)]
pub struct ClusterHealth {
    /// Whether all are well.
    pub healthy: bool,
    /// How many of those that vote may fail before nothing can be written.
    pub failure_tolerance: u64,
    /// Each of them, by its id.
    pub servers: BTreeMap<String, MemberHealth>,
}

/// How one server fares, as the leader sees it.
#[derive(Debug, Clone)]
pub struct MemberHealth {
    /// Whether it is well.
    pub healthy: bool,
    /// Since when it was not heard of.
    pub last_contact: Duration,
    /// The term that it is in.
    pub last_term: u64,
    /// The last entry of its log.
    pub last_index: u64,
    /// Since when it is as well as it is.
    pub stable_since: Time,
}

/// A store that was lost and is being refilled from the log.
#[derive(Debug, Clone, Copy)]
pub struct Refilling {
    /// Name of the store: `events` or `touches`.
    pub store: &'static str,
    /// Progress of the fill.
    pub filling: Filling,
    /// Start of the fill; `None` while it waits to begin.
    pub since: Option<Time>,
}

/// What does not change while an agent runs.
#[derive(Debug, Clone)]
pub struct AgentInfo {
    /// The reference's version whose interface this is, such as `1.6.5`.
    pub version: String,
    /// Name of this server among servers, such as `host.global`.
    pub name: String,
    /// Region.
    pub region: String,
    /// Datacenter.
    pub datacenter: String,
    /// Address that other servers use.
    pub server_ip: String,
    /// Port of membership.
    pub serf_port: u16,
    /// Whether routes for debugging answer.
    pub enable_debug: bool,
    /// Whether there is an event stream at all.
    pub enable_event_broker: bool,
    /// Largest job source that is kept, in bytes.
    pub job_max_source_bytes: u64,
    /// Highest priority of a job.
    pub job_max_priority: i64,
    /// Whether rate counters tell callers apart.
    pub rpc_rate_labels: bool,
    /// Whether summaries of dispatched jobs are among the metrics.
    pub dispatched_metrics: bool,
    /// Whether `/v1/metrics` answers in Prometheus' text form.
    pub prometheus_metrics: bool,
    /// Whether callers have to show who they are, and how long tokens may live.
    pub acl: AclSettings,
    /// How many versions of a job are kept.
    pub job_tracked_versions: u64,
    /// What schedules while nobody has written a configuration.
    pub default_scheduler_config: SchedulerConfiguration,
    /// Headers that every answer carries.
    pub response_headers: Vec<(String, String)>,
}

/// The `acl` block of an agent's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AclSettings {
    /// Whether callers have to show who they are.
    pub enabled: bool,
    /// How far away the expiration of a token may be.
    pub token_ttl: TtlBounds,
}

/// What `agent/self` shows.
#[derive(Debug, Clone, Default)]
pub struct AgentSelf {
    /// The configuration in the reference's shape, secrets redacted.
    pub config: serde_json::Value,
    /// Texts by group and name.
    pub stats: BTreeMap<String, BTreeMap<String, String>>,
    /// Tags of this server in membership.
    pub tags: BTreeMap<String, String>,
}

/// How the parts of an agent fare.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// The node in this process.
    pub client: Option<Wellness>,
    /// The server in this process.
    pub server: Option<Wellness>,
}

/// How one part fares.
#[derive(Debug, Clone)]
pub struct Wellness {
    /// Whether it is well.
    pub ok: bool,
    /// `ok`, or what is wrong.
    pub message: String,
}
