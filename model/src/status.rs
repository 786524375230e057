//! Statuses and other closed sets of words: each is an enum with exactly the wire's words.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Str;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub enum $name {
            $(
                #[doc = concat!("`", $word, "`")]
                $(#[$vdoc])*
                #[serde(rename = $word)]
                $variant,
            )*
        }

        impl $name {
            /// All variants, in the order of their definition.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The word as the wire spells it.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            /// The variant of Nomad's word; `None` for an unknown word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(
    /// Status of a job, derived from its allocations and evaluations.
    JobStatus { #[default] Pending = "pending", Running = "running", Dead = "dead" }
);
words!(
    /// Status of a node.
    NodeStatus { #[default] Initializing = "initializing", Ready = "ready", Down = "down", Disconnected = "disconnected" }
);
words!(
    /// Whether new allocations may be placed on a node.
    Eligibility { #[default] Eligible = "eligible", Ineligible = "ineligible" }
);
words!(
    /// Status of a drain.
    DrainStatus { #[default] Draining = "draining", Complete = "complete", Canceled = "canceled" }
);
words!(
    /// Desired status of an allocation, set by the servers.
    AllocDesiredStatus { #[default] Run = "run", Stop = "stop", Evict = "evict" }
);
words!(
    /// Client status of an allocation: the node's last report, or the servers' word in its place (`lost`, `unknown`).
    AllocClientStatus {
        #[default] Pending = "pending", Running = "running", Complete = "complete", Failed = "failed", Lost = "lost", Unknown = "unknown",
    }
);
words!(
    /// Status of an evaluation.
    EvalStatus { Blocked = "blocked", #[default] Pending = "pending", Complete = "complete", Failed = "failed", Canceled = "canceled" }
);
words!(
    /// Reason why an evaluation was created. The empty word is an evaluation without a reason.
    EvalTrigger {
        #[default] None = "", JobRegister = "job-register", JobDeregister = "job-deregister", PeriodicJob = "periodic-job", NodeDrain = "node-drain",
        NodeUpdate = "node-update", AllocStop = "alloc-stop", Scheduled = "scheduled", RollingUpdate = "rolling-update",
        DeploymentWatcher = "deployment-watcher", FailedFollowUp = "failed-follow-up", MaxPlans = "max-plan-attempts",
        RetryFailedAlloc = "alloc-failure", QueuedAllocs = "queued-allocs", Preemption = "preemption", JobScaling = "job-scaling",
        MaxDisconnectTimeout = "max-disconnect-timeout", Reconnect = "reconnect",
    }
);
words!(
    /// Kind of receiver of an event sink.
    EventSinkType { #[default] Webhook = "webhook", File = "file", Nats = "nats", Kafka = "kafka" }
);
words!(
    /// Kind of key of an event sink's messages to Kafka: those of one key stay in order. Without a kind all messages have
    /// the same key.
    PartitionKey { #[default] None = "", Namespace = "namespace", Job = "job", Object = "object" }
);
words!(
    /// Status of an event sink: nothing delivered yet, the last delivery succeeded, or it failed and is tried again.
    EventSinkStatus { #[default] Pending = "pending", Delivering = "delivering", Failing = "failing" }
);
words!(
    /// Status of a deployment.
    DeploymentStatus {
        #[default] Running = "running", Paused = "paused", Failed = "failed", Successful = "successful", Cancelled = "cancelled",
        Initializing = "initializing", Pending = "pending", Blocked = "blocked", Unblocking = "unblocking",
    }
);
words!(
    /// Life cycle state of a task. The empty word is a task of an allocation that its node refused to run.
    TaskRunState { #[default] Pending = "pending", Running = "running", Dead = "dead", None = "" }
);
words!(
    /// Ranking of nodes: the fullest first, or the emptiest first.
    SchedulerAlgorithm { #[default] Binpack = "binpack", Spread = "spread" }
);
words!(
    /// Life cycle state of a root key. `deprecated` is an old word for inactive.
    RootKeyState { #[default] Inactive = "inactive", Active = "active", Rekeying = "rekeying", Deprecated = "deprecated" }
);
words!(
    /// Operation on a variable. The `cas` operations check that the variable still has the modify index that the
    /// caller gives.
    VariableOp { #[default] Set = "set", Cas = "cas", Delete = "delete", DeleteCas = "delete-cas" }
);

impl NodeStatus {
    /// Whether the servers have lost contact with the node.
    pub const fn is_unresponsive(self) -> bool {
        matches!(self, NodeStatus::Down | NodeStatus::Disconnected)
    }
}

impl AllocClientStatus {
    /// Whether the allocation is over for its node. `unknown` is not terminal: the node may come back.
    pub const fn is_terminal(self) -> bool {
        matches!(self, AllocClientStatus::Complete | AllocClientStatus::Failed | AllocClientStatus::Lost)
    }
}

impl EvalStatus {
    /// Whether the status is final.
    pub const fn is_terminal(self) -> bool {
        matches!(self, EvalStatus::Complete | EvalStatus::Failed | EvalStatus::Canceled)
    }
}

impl DeploymentStatus {
    /// Whether the deployment is still in progress; the other statuses are final.
    pub const fn is_active(self) -> bool {
        match self {
            DeploymentStatus::Running
            | DeploymentStatus::Paused
            | DeploymentStatus::Blocked
            | DeploymentStatus::Unblocking
            | DeploymentStatus::Initializing
            | DeploymentStatus::Pending => true,
            DeploymentStatus::Failed | DeploymentStatus::Successful | DeploymentStatus::Cancelled => false,
        }
    }
}

/// Scheduler type of a job. Unknown words are kept, because the refusal names them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum JobType {
    /// Long-lived; a finished allocation is replaced.
    #[default]
    Service,
    /// Runs to completion.
    Batch,
    /// One allocation on every node.
    System,
    /// Runs to completion once on every node.
    SysBatch,
    /// A word that is no scheduler type; validation refuses it.
    Other(Str),
}

impl JobType {
    /// The word as the wire spells it.
    pub fn as_str(&self) -> &str {
        match self {
            JobType::Service => "service",
            JobType::Batch => "batch",
            JobType::System => "system",
            JobType::SysBatch => "sysbatch",
            JobType::Other(word) => word,
        }
    }

    /// Whether the job runs on every node instead of a number of times.
    pub fn is_per_node(&self) -> bool {
        match self {
            JobType::System | JobType::SysBatch => true,
            JobType::Service | JobType::Batch | JobType::Other(_) => false,
        }
    }
}

impl From<&str> for JobType {
    fn from(word: &str) -> Self {
        match word {
            "service" => JobType::Service,
            "batch" => JobType::Batch,
            "system" => JobType::System,
            "sysbatch" => JobType::SysBatch,
            other => JobType::Other(other.into()),
        }
    }
}

impl fmt::Display for JobType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for JobType {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for JobType {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(JobType::from(Str::deserialize(d)?.as_str()))
    }
}

/// Field of an allocation that an [`crate::AllocState`] records; a number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum AllocStateField {
    /// 0, the client status: the only field.
    #[default]
    ClientStatus,
}

impl From<AllocStateField> for u8 {
    fn from(field: AllocStateField) -> u8 {
        match field {
            AllocStateField::ClientStatus => 0,
        }
    }
}

impl TryFrom<u8> for AllocStateField {
    type Error = String;
    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            0 => Ok(AllocStateField::ClientStatus),
            other => Err(format!("unknown alloc state field {other}")),
        }
    }
}
