//! What surrounds every command in the log: who, when, why, and whether it is a repetition.

use serde::{Deserialize, Serialize};
use songline_model::{NodeId, Str, Time};

use crate::{Command, Kind};

/// One entry of the log, typed.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Version of the body's shape when it was proposed. What is written has the newest one.
    pub schema: u16,
    /// The leader's clock when it proposed the entry. Apply uses this and no clock.
    pub at: Time,
    /// Who wanted it.
    pub actor: Actor,
    /// What led to it, if something in the log did.
    pub cause: Option<Cause>,
    /// Makes a retried write run once.
    pub idempotency: Option<Idempotency>,
    /// What to do.
    pub command: Command,
}

impl Envelope {
    /// An envelope of the newest schema without cause and key.
    pub fn new(at: Time, actor: Actor, command: impl Into<Command>) -> Self {
        let command = command.into();
        Self { schema: command.kind().schema(), at, actor, cause: None, idempotency: None, command }
    }

    /// The same with a cause.
    #[must_use]
    pub fn caused_by(mut self, cause: Option<Cause>) -> Self {
        self.cause = cause;
        self
    }
}

/// Who proposed a command. Never a secret: a token is named by its accessor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Actor {
    /// Somebody without a token.
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

/// The entry that led to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Its index, as users see it.
    pub index: u64,
    /// Its kind, by number.
    pub kind: u16,
}

impl Cause {
    /// The entry at `index`, which was of this kind.
    pub const fn new(index: u64, kind: Kind) -> Self {
        Self { index, kind: kind.number() }
    }
}

/// A caller's key: the same key with the same body runs once, with another body is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Idempotency {
    /// As the caller sent it.
    pub key: Str,
    /// First 16 bytes of BLAKE3 of what the caller sent with it.
    #[serde(with = "serde_bytes")]
    pub body_hash: [u8; 16],
    /// Whether it is the key of a server that passed the write on, for retries of its own: such a key is remembered for minutes only, and
    /// does not crowd out those of callers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
}
