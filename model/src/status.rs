//! What objects can be in: every status of the wire as an enum with exactly the wire's words.

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
            /// All of them, in the order of their definition.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The wire's word.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            /// The status of a word of the wire.
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
    /// A job's status; derived from its allocations and evaluations.
    JobStatus { #[default] Pending = "pending", Running = "running", Dead = "dead" }
);
words!(
    /// A node's status.
    NodeStatus { #[default] Initializing = "initializing", Ready = "ready", Down = "down", Disconnected = "disconnected" }
);
words!(
    /// Whether a node may receive new allocations.
    Eligibility { #[default] Eligible = "eligible", Ineligible = "ineligible" }
);
words!(
    /// How a drain stands or ended.
    DrainStatus { #[default] Draining = "draining", Complete = "complete", Canceled = "canceled" }
);
words!(
    /// What the servers want of an allocation.
    AllocDesiredStatus { #[default] Run = "run", Stop = "stop", Evict = "evict" }
);
words!(
    /// What the node last said of an allocation, or the servers for it (`lost`, `unknown`).
    AllocClientStatus {
        #[default] Pending = "pending", Running = "running", Complete = "complete", Failed = "failed", Lost = "lost", Unknown = "unknown",
    }
);
words!(
    /// An evaluation's status.
    EvalStatus { Blocked = "blocked", #[default] Pending = "pending", Complete = "complete", Failed = "failed", Canceled = "canceled" }
);
words!(
    /// Why an evaluation was made. The empty word is an evaluation that nobody gave a reason.
    EvalTrigger {
        #[default] None = "", JobRegister = "job-register", JobDeregister = "job-deregister", PeriodicJob = "periodic-job", NodeDrain = "node-drain",
        NodeUpdate = "node-update", AllocStop = "alloc-stop", Scheduled = "scheduled", RollingUpdate = "rolling-update",
        DeploymentWatcher = "deployment-watcher", FailedFollowUp = "failed-follow-up", MaxPlans = "max-plan-attempts",
        RetryFailedAlloc = "alloc-failure", QueuedAllocs = "queued-allocs", Preemption = "preemption", JobScaling = "job-scaling",
        MaxDisconnectTimeout = "max-disconnect-timeout", Reconnect = "reconnect",
    }
);
words!(
    /// A deployment's status.
    DeploymentStatus {
        #[default] Running = "running", Paused = "paused", Failed = "failed", Successful = "successful", Cancelled = "cancelled",
        Initializing = "initializing", Pending = "pending", Blocked = "blocked", Unblocking = "unblocking",
    }
);
words!(
    /// Where a task is in its life.
    TaskRunState { #[default] Pending = "pending", Running = "running", Dead = "dead" }
);
words!(
    /// How nodes are ranked: full ones first, or empty ones first.
    SchedulerAlgorithm { #[default] Binpack = "binpack", Spread = "spread" }
);
words!(
    /// Where a root key is in its life. `deprecated` is an old word for inactive.
    RootKeyState { #[default] Inactive = "inactive", Active = "active", Rekeying = "rekeying", Deprecated = "deprecated" }
);
words!(
    /// What is done to a variable; the `cas` ones only when it has the modify index that the caller knows.
    VariableOp { #[default] Set = "set", Cas = "cas", Delete = "delete", DeleteCas = "delete-cas" }
);

impl NodeStatus {
    /// Whether the servers have lost contact with the node.
    pub const fn is_unresponsive(self) -> bool {
        matches!(self, NodeStatus::Down | NodeStatus::Disconnected)
    }
}

impl AllocClientStatus {
    /// Whether the allocation is over as far as its node is concerned. `unknown` is not: the node may come back.
    pub const fn is_terminal(self) -> bool {
        matches!(self, AllocClientStatus::Complete | AllocClientStatus::Failed | AllocClientStatus::Lost)
    }
}

impl EvalStatus {
    /// Whether nothing more will come of the evaluation.
    pub const fn is_terminal(self) -> bool {
        matches!(self, EvalStatus::Complete | EvalStatus::Failed | EvalStatus::Canceled)
    }
}

impl DeploymentStatus {
    /// Whether the deployment still goes on; the others are final.
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

/// Which scheduler a job is for. Other words are kept, because a refusal names them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum JobType {
    /// Long-lived, replaced when it ends.
    #[default]
    Service,
    /// Runs to completion.
    Batch,
    /// One on every node.
    System,
    /// Runs to completion once on every node.
    SysBatch,
    /// A word that names no scheduler; validation refuses it.
    Other(Str),
}

impl JobType {
    /// The wire's word.
    pub fn as_str(&self) -> &str {
        match self {
            JobType::Service => "service",
            JobType::Batch => "batch",
            JobType::System => "system",
            JobType::SysBatch => "sysbatch",
            JobType::Other(word) => word,
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

/// Which field of an allocation an [`crate::AllocState`] records; a number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum AllocStateField {
    /// 0, the client status: the only one there is.
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
