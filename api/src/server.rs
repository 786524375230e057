//! Interface of the server behind the HTTP API. The shell implements [`Server`]; this crate has no log, scheduler or
//! node agent of its own.

mod archives;
mod members;
mod what_if;

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use songline_commands::{Actor, Cause, Command, Idempotency};
use songline_events::hub::EventHub;
use songline_events::past::Past;
use songline_events::refill::Filling;
use songline_events::watch::Watches;
use songline_model::{
    AllocMetric, Allocation, CsiVolumeKey, Evaluation, Job, NodeId, PlanAnnotations, SchedulerConfiguration, Secret,
    Str, Supposition, Time, TtlBounds, WhatIf,
};
use songline_projections::{Outcome, Rejected, State};
use songline_rpc::RpcError;
use songline_rpc::message::{ToController, ToCsiNode};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::http::rate::RateOp;
use crate::http::route::Route;
use crate::keyring::Keyring;
use crate::sso::Sso;
use crate::ui::UiSettings;

pub use archives::{NotCarried, RestoreChoices, RestoreError, RestoreReport, RestoredTable, SavedArchive};
pub use members::{ClusterHealth, Member, MemberHealth};
pub use what_if::WhatIfFailure;

/// The server behind the HTTP API.
pub trait Server: Send + Sync + 'static {
    /// RPC client of a node's agent.
    type Node: songline_rpc::NodeAgent;

    /// The newest applied state.
    fn view(&self) -> Arc<State>;

    /// Writes a command to the log and answers once this server has applied it. The shell stamps its time.
    fn propose(&self, proposal: Proposal) -> impl Future<Output = Result<Written, ProposeError>> + Send;

    /// Returns once this server has confirmed with a quorum that it leads, and has applied every entry that was
    /// acknowledged before the call. Fails on a server that does not lead.
    fn read_barrier(&self) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Same as [`Self::read_barrier`], but the leader's lease is enough proof of its leadership. By default identical
    /// to it.
    fn lease_barrier(&self) -> impl Future<Output = Result<(), ProposeError>> + Send {
        self.read_barrier()
    }

    /// The leader, as far as this server knows: it answers the requests that only the leader may answer.
    fn leader(&self) -> Leader {
        Leader::Here
    }

    /// Returns once [`Self::leader`] differs from `known`.
    fn leader_other_than(&self, known: &Leader) -> impl Future<Output = ()> + Send {
        let _ = known;
        std::future::pending()
    }

    /// Returns once this leader may judge writes by its view: the view holds all entries that earlier leaders
    /// acknowledged.
    fn ready_to_lead(&self) -> impl Future<Output = Result<(), ProposeError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Forwards a request to the server whose server port is at `address`, and returns that server's response.
    fn pass_on(&self, address: &str, request: Request) -> impl Future<Output = Result<Response, PassFailure>> + Send {
        let why = format!("{address} cannot be reached from here");
        std::future::ready(Err(PassFailure::NotSent { request: Box::new(request), why }))
    }

    /// Sends a request to the server of another region whose port is at `address`.
    fn pass_to_region(
        &self,
        address: &str,
        request: Request,
    ) -> impl Future<Output = Result<Response, PassFailure>> + Send {
        self.pass_on(address, request)
    }

    /// Names of all known regions, this server's among them, in alphabetical order.
    fn regions(&self) -> Vec<String> {
        vec![self.info().region.clone()]
    }

    /// Addresses of the known servers of another region: those that answered last come first.
    fn servers_of_region(&self, _region: &str) -> Vec<String> {
        Vec::new()
    }

    /// The known servers of other regions.
    fn members_elsewhere(&self) -> Vec<Member> {
        Vec::new()
    }

    /// Forgets a server of another region until it is heard of again.
    fn forget_member(&self, _name: &str) {}

    /// Returns when the leader at `address` no longer answers this server's greetings, though its own messages may
    /// still arrive here.
    fn leader_is_deaf(&self, address: &str) -> impl Future<Output = ()> + Send {
        let _ = address;
        std::future::pending()
    }

    /// This server's contact with the leader, which bounds the age of its answers.
    fn contact(&self) -> Contact;

    /// Watches on which blocking queries wait. The shell notifies them after every applied entry.
    fn watches(&self) -> &Watches;

    /// Source of all event streams. The shell publishes to it after every applied entry.
    fn events(&self) -> &Arc<EventHub>;

    /// Dry run of the scheduler for a job: the job is registered in a fork of the newest state and scheduled there.
    /// Writes nothing.
    fn plan_job(&self, job: Arc<Job>) -> impl Future<Output = Result<PlannedJob, ProposeError>> + Send;

    /// Makes hypothetical changes to a fork of the view, and schedules it until it has settled. Writes nothing, and
    /// holds no lock. A question that is refused is [`WhatIfFailure::Refused`].
    fn what_if(
        &self,
        view: Arc<State>,
        changes: Vec<Supposition>,
    ) -> impl Future<Output = Result<WhatIf, WhatIfFailure>> + Send;

    /// A new random id.
    fn fresh_uuid(&self) -> Uuid;

    /// A random number from a range, for delays that differ.
    fn chance(&self, range: std::ops::Range<u64>) -> u64 {
        let (drawn, _) = self.fresh_uuid().as_u64_pair();
        range.start + drawn % range.end.saturating_sub(range.start).max(1)
    }

    /// The clock.
    fn now(&self) -> Time;

    /// Client of a node's agent; `None` when this server cannot reach the node. `token` is the secret of the user on
    /// whose behalf the call is made: remote agents check it again.
    fn node_agent(&self, node: NodeId, token: Secret) -> Option<Arc<Self::Node>>;

    /// Sends a request to a controller of a CSI plugin: to one after another, until one of them can answer.
    fn ask_csi_controller<C: ToController>(
        &self,
        plugin: &str,
        request: C,
    ) -> impl Future<Output = Result<C::Answer, RpcError>> + Send;

    /// Sends a request to a CSI plugin on a node.
    fn ask_csi_node<C: ToCsiNode>(
        &self,
        node: NodeId,
        request: C,
    ) -> impl Future<Output = Result<C::Answer, RpcError>> + Send;

    /// Releases all claims of a node on a CSI volume: the node unmounts it, a controller detaches it, the claims are
    /// freed. Returns the index of the last entry.
    fn detach_csi_volume(
        &self,
        actor: Actor,
        volume: &CsiVolumeKey,
        node: NodeId,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// Id of the node that runs in this process; `None` when there is none.
    fn local_node(&self) -> Option<NodeId>;

    /// Writes a snapshot archive of the newest state.
    fn snapshot_save(&self) -> impl Future<Output = Result<SavedArchive, ProposeError>> + Send;

    /// A temporary file without a name, for a body that is too large for memory.
    fn spool(&self) -> std::io::Result<File>;

    /// Replaces the state by that of an archive and returns once the restore is applied. A dry run only verifies the
    /// archive.
    fn snapshot_restore(
        &self,
        archive: File,
        actor: Actor,
        idempotency: Option<Idempotency>,
        choices: RestoreChoices,
    ) -> impl Future<Output = Result<RestoreReport, RestoreError>> + Send;

    /// Garbage collection of everything that may be dropped, whatever its age.
    fn force_gc(&self, actor: Actor) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Recomputes all job summaries. Does nothing when a request with the key of `idempotency` was applied before.
    fn reconcile_summaries(
        &self,
        actor: Actor,
        idempotency: Option<Idempotency>,
    ) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Index in the reset file, with which an operator with access to this server allows a second ACL bootstrap; 0
    /// when there is no such file.
    fn bootstrap_reset_index(&self) -> u64 {
        0
    }

    /// Encryption and decryption with the cluster's root keys.
    fn keyring(&self) -> &impl Keyring;

    /// State and outside connections that logins need.
    fn sso(&self) -> &Sso;

    /// The parts of the agent's configuration that HTTP needs.
    fn info(&self) -> &AgentInfo;

    /// Current `config` and `stats` of `agent/self`, and the tags of its member.
    fn agent_self(&self) -> AgentSelf;

    /// The metrics of the last complete interval, as one JSON object in the reference's form.
    fn metrics(&self) -> String;

    /// The metrics since the start, in version 0.0.4 of Prometheus' text format.
    fn metrics_prometheus(&self) -> String;

    /// Counts a request that this server answers itself.
    fn count_served(&self, served: Served);

    /// Records the time that this server took to answer a request of `route`; for a stream, the time until it began.
    fn measure_answer(&self, route: Route, took: Duration);

    /// Health of the server and of the node in this process; `None` for a part that does not run here.
    fn health(&self) -> Health;

    /// `host:port` of the leader's server port, empty when there is no leader.
    fn leader_addr(&self) -> String;

    /// `host:port` of the server port of every server of the cluster.
    fn peer_addrs(&self) -> Vec<String>;

    /// All servers of the cluster, this one included, ordered by id.
    fn members(&self) -> Vec<Member>;

    /// Health of the cluster's servers. Only the leader knows that of the others.
    fn cluster_health(&self) -> ClusterHealth;

    /// Introduces this server and the one at `host:port` to each other; the server without a cluster joins the
    /// cluster of the other.
    fn join(&self, address: &str) -> impl Future<Output = Result<(), String>> + Send;

    /// Removes a server from the cluster. Succeeds only on the leader.
    fn remove_member(&self, id: &str) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Transfers leadership to the server `id`, or, without an id, to the most suitable server. Succeeds only on the
    /// leader.
    fn transfer_leadership(&self, id: Option<&str>) -> impl Future<Output = Result<(), ProposeError>> + Send;

    /// Scheduler workers of this server.
    fn scheduler_pool(&self) -> SchedulerPool;

    /// Sets the number of workers and the evaluation types that they take. Surplus workers finish their current
    /// evaluation.
    fn set_scheduler_pool(&self, count: usize, enabled: Vec<&'static str>);

    /// Access to past states and to entries of the log; `None` when this server keeps none.
    fn past(&self) -> Option<&dyn Past> {
        None
    }

    /// Stores of this server that are being refilled from its log.
    fn refillings(&self) -> Vec<Refilling> {
        Vec::new()
    }

    /// Reason why this server has stopped serving requests; `None` while it serves.
    fn fenced(&self) -> Option<String> {
        None
    }

    /// Reason why this server cannot lead: a disk failure. `None` while the disk works. Requests that found no leader
    /// report it.
    fn disk_trouble(&self) -> Option<String> {
        None
    }

    /// Time since which this server has been healthy.
    fn stable_since(&self) -> Time;

    /// Cancelled when the agent shuts down: waiting requests and streams end then.
    fn shutdown(&self) -> &CancellationToken;
}

/// The leader, as far as a server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// The server itself is the leader.
    Here,
    /// Another server, whose server port is at this `host:port`.
    At(Arc<str>),
    /// No leader is known.
    Unknown,
}

/// Failure of request forwarding.
#[derive(Debug, thiserror::Error)]
pub enum PassFailure {
    /// No byte of the request was sent, so it may be sent again.
    #[error("{why}")]
    NotSent {
        /// The unsent request, complete.
        request: Box<Request>,
        /// The reason.
        why: String,
    },
    /// The request may have been sent, and its write may or may not have happened.
    #[error("{0}")]
    Lost(String),
}

/// Labels of a request in the rate counters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The reference's endpoint name, such as `job`.
    pub endpoint: &'static str,
    /// Operation: read, write or list.
    pub op: RateOp,
    /// Label of the caller; `None` when counters do not tell callers apart.
    pub identity: Option<String>,
}

/// Evaluation types that scheduler workers can be enabled for, by their names on the wire.
pub const SCHEDULERS: [&str; 5] = ["service", "batch", "system", "sysbatch", CORE_SCHEDULER];

/// Evaluation type of the servers' own chores.
pub const CORE_SCHEDULER: &str = "_core";

/// The scheduler workers of a server.
#[derive(Debug, Clone)]
pub struct SchedulerPool {
    /// Existing workers; more than `count` while surplus workers finish their evaluation.
    pub workers: Vec<SchedulerWorker>,
    /// Wanted number of workers.
    pub count: usize,
    /// Evaluation types that the workers take.
    pub enabled: Vec<&'static str>,
}

/// One scheduler worker.
#[derive(Debug, Clone)]
pub struct SchedulerWorker {
    /// Random id, valid until the server restarts.
    pub id: Uuid,
    /// Start of the worker.
    pub started: Time,
    /// Whether the worker ends after its current evaluation.
    pub stopping: bool,
    /// Current activity, in Nomad's words.
    pub doing: &'static str,
}

/// A command that a request wants written.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Caller that proposes the command.
    pub actor: Actor,
    /// Entry of the log that led to the command, if there is one.
    pub cause: Option<Cause>,
    /// Idempotency key and body hash: a retried write is applied once.
    pub idempotency: Option<Idempotency>,
    /// The command.
    pub command: Command,
}

/// A command that was applied and not refused.
#[derive(Debug, Clone)]
pub struct Written {
    /// Index of the command's entry, as users see it. For a repeated write, the index of the first write.
    pub index: u64,
    /// Result of apply.
    pub outcome: Outcome,
}

/// Failure of a proposal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProposeError {
    /// Apply refused the command. Its entry stays in the log.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// No leader is known.
    #[error("No cluster leader")]
    NoLeader,
    /// The outcome is unknown: leadership was lost, or the log closed, while the command was under way. The text says
    /// which of the two.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The server has failed, or the command cannot be written to the log; the text says which.
    #[error("{0}")]
    Unavailable(String),
}

/// A server's contact with the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contact {
    /// Whether a leader is known.
    pub known_leader: bool,
    /// Time since the last message of the leader; zero on the leader.
    pub last_contact: Duration,
}

/// Result of a dry run of the scheduler.
#[derive(Debug, Clone, Default)]
pub struct PlannedJob {
    /// Allocations that the scheduler would place, stop and update, by task group.
    pub annotations: Option<PlanAnnotations>,
    /// Allocations of other jobs that it would preempt.
    pub preempted: Vec<Arc<Allocation>>,
    /// Metrics of the allocations that it could not place, by task group.
    pub failed_tg_allocs: BTreeMap<Str, AllocMetric>,
    /// Evaluations that it would create.
    pub created_evals: Vec<Evaluation>,
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

/// Facts of an agent that do not change while it runs.
#[derive(Debug, Clone)]
pub struct AgentInfo {
    /// Version of the reference whose interface this is, such as `1.6.5`.
    pub version: String,
    /// Name of this server among the servers, such as `host.global`.
    pub name: String,
    /// Region.
    pub region: String,
    /// Datacenter.
    pub datacenter: String,
    /// IP address that other servers use.
    pub server_ip: String,
    /// Port of the reference's gossip (serf).
    pub serf_port: u16,
    /// Whether the debugging routes (`agent/pprof`, `agent/host`) answer while ACLs are disabled.
    pub enable_debug: bool,
    /// Whether there is an event stream.
    pub enable_event_broker: bool,
    /// Largest job source that is stored, in bytes.
    pub job_max_source_bytes: u64,
    /// Highest priority of a job.
    pub job_max_priority: i64,
    /// Whether rate counters tell callers apart.
    pub rpc_rate_labels: bool,
    /// Whether the metrics include summaries of dispatched jobs.
    pub dispatched_metrics: bool,
    /// Whether `/v1/metrics` answers in Prometheus' text form.
    pub prometheus_metrics: bool,
    /// The `acl` block: whether callers need tokens, and the bounds of tokens' lifetimes.
    pub acl: AclSettings,
    /// Number of versions that are kept of a job.
    pub job_tracked_versions: u64,
    /// Scheduler configuration that applies until an operator writes one.
    pub default_scheduler_config: SchedulerConfiguration,
    /// Headers of every response.
    pub response_headers: Vec<(String, String)>,
    /// The `ui` block.
    pub ui: UiSettings,
}

/// The `acl` block of an agent's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AclSettings {
    /// Whether ACLs are enabled: callers without a token are anonymous then.
    pub enabled: bool,
    /// Shortest and longest time until the expiration of a token.
    pub token_ttl: TtlBounds,
}

/// Changing parts of `agent/self`.
#[derive(Debug, Clone, Default)]
pub struct AgentSelf {
    /// The configuration in the reference's shape, secrets redacted.
    pub config: serde_json::Value,
    /// Statistics: values by group and name.
    pub stats: BTreeMap<String, BTreeMap<String, String>>,
    /// Tags of this server's member.
    pub tags: BTreeMap<String, String>,
}

/// Health of an agent's parts.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// The node in this process.
    pub client: Option<Wellness>,
    /// The server in this process.
    pub server: Option<Wellness>,
}

/// Health of one part.
#[derive(Debug, Clone)]
pub struct Wellness {
    /// Whether the part is healthy.
    pub ok: bool,
    /// `ok`, or a description of the failure.
    pub message: String,
}
