//! Envelope of a command in the log: actor, time, cause, and idempotency key.

use serde::{Deserialize, Serialize};
use songline_model::{NodeId, Str, Time};

use crate::{Command, Kind};

/// One decoded entry of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Schema of the body when the entry was proposed. New entries have the newest schema.
    pub schema: u16,
    /// The leader's clock when it proposed the entry. Apply uses this time and reads no clock.
    pub at: Time,
    /// The proposer.
    pub actor: Actor,
    /// The entry that led to this one, if there is one.
    pub cause: Option<Cause>,
    /// Key that makes a retried write run only once.
    pub idempotency: Option<Idempotency>,
    /// The command.
    pub command: Command,
}

impl Envelope {
    /// An envelope of the newest schema without cause and idempotency key.
    pub fn new(at: Time, actor: Actor, command: impl Into<Command>) -> Self {
        let command = command.into();
        Self { schema: command.kind().schema(), at, actor, cause: None, idempotency: None, command }
    }

    /// Sets the cause.
    #[must_use]
    pub fn caused_by(mut self, cause: Option<Cause>) -> Self {
        self.cause = cause;
        self
    }
}

/// The proposer of a command. Never contains a secret: a token is named by its accessor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Actor {
    /// A caller without a token.
    #[default]
    Anonymous,
    /// The accessor id of a token.
    Accessor(Str),
    /// A node.
    Node(NodeId),
    /// A workload: its allocation and task.
    Workload(Str),
    /// A loop of the leader, by name: `heartbeats`, `deployments`, `plans`, `gc`, ..
    Leader(Str),
}

impl Actor {
    /// Accessor of the token, or id of the node, as a drained node names who drained it. Empty for other actors.
    pub fn drained_by(&self) -> Str {
        match self {
            Actor::Accessor(id) => id.clone(),
            Actor::Node(id) => id.to_string().into(),
            Actor::Anonymous | Actor::Workload(_) | Actor::Leader(_) => Str::default(),
        }
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Actor::Anonymous => f.write_str("anonymous"),
            Actor::Accessor(id) => write!(f, "token:{id}"),
            Actor::Node(id) => write!(f, "node:{id}"),
            Actor::Workload(name) => write!(f, "workload:{name}"),
            Actor::Leader(name) => write!(f, "leader:{name}"),
        }
    }
}

/// The entry that led to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Log index of the entry, as users see it.
    pub index: u64,
    /// Number of the entry's kind.
    pub kind: u16,
}

impl Cause {
    /// The entry at `index`, which was of this kind.
    pub const fn new(index: u64, kind: Kind) -> Self {
        Self { index, kind: kind.number() }
    }
}

/// Idempotency key of a client: a repetition with the same body does not run again; one with another body is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Idempotency {
    /// The key as the client sent it.
    pub key: Str,
    /// First 16 bytes of BLAKE3 of the body that the client sent.
    #[serde(with = "serde_bytes")]
    pub body_hash: [u8; 16],
    /// Whether a server made the key for its own retries of a forwarded write. Such a key is remembered for minutes
    /// only, and does not displace clients' keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
}
