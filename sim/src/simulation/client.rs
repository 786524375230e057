//! Clients of a simulated cluster: they read and write a few variables, unconditionally or by compare-and-set, follow
//! hints to the leader, and repeat a write of unknown outcome under its idempotency key. Their operations go into the
//! record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_commands::{Actor, ApplyVariable, Idempotency};
use songline_log::ProposeError;
use songline_model::{Sealed, Variable, VariableData, VariableKey, VariableMetadata, VariableOp};
use songline_projections::{Outcome as Applied, State};

use super::network::Network;
use super::plan::Sabotage;
use super::record::Record;
use super::server::{Host, Life, encode};
use crate::check::linear::{Answer, Call, Held, Operation};
use crate::check::{Outcome, Write};

/// Timeout of one answer.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Number of attempts before a client gives up an operation.
const ATTEMPTS_MAX: u32 = 6;

/// A client.
pub struct Client {
    number: u64,
    rng: SmallRng,
    hosts: Vec<Arc<Host>>,
    network: Arc<Network>,
    record: Arc<Record>,
    keys: u64,
    /// Longest pause between two operations, in milliseconds.
    pause_ms: u64,
    /// The presumed leader.
    leader: Option<u64>,
    /// Last known version of each key.
    known: Vec<u64>,
    next: u64,
    /// Set when the client is to begin no further operation.
    enough: Arc<AtomicBool>,
}

/// Result of one attempt.
enum Attempt {
    Answered(Answer),
    /// The attempt had no effect.
    Refused,
    Unknown,
}

impl Client {
    /// Creates the client `number`.
    pub fn new(number: u64, seed: u64, hosts: &[Arc<Host>], network: &Arc<Network>, record: &Arc<Record>) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (keys, pause_ms) = (4, rng.random_range(100..1500));
        let (hosts, network, record) = (hosts.to_vec(), Arc::clone(network), Arc::clone(record));
        Self {
            number,
            rng,
            hosts,
            network,
            record,
            keys,
            pause_ms,
            leader: None,
            known: vec![0; 4],
            next: 0,
            enough: Arc::default(),
        }
    }

    /// Flag that, once set, makes the client begin no further operation.
    pub fn enough(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.enough)
    }

    /// Performs one operation after another until the flag is set.
    pub async fn run(mut self) {
        while !self.enough.load(Ordering::Relaxed) {
            let pause = self.rng.random_range(0..self.pause_ms);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            self.operate().await;
        }
    }

    /// Performs one operation until it is answered or given up. Returns whether it was answered.
    pub async fn operate(&mut self) -> bool {
        self.next += 1;
        let id = (self.number << 32) | self.next;
        let key = self.rng.random_range(0..self.keys);
        let at = usize::try_from(key).unwrap_or_default();
        let expected = self.known[at];
        let operation = match self.rng.random_range(0..20) {
            0..8 => Operation::Get,
            8..12 => Operation::Set { value: id },
            12..18 => Operation::Cas { expected, value: id },
            18 => Operation::Delete,
            _ => Operation::DeleteCas { expected },
        };
        let name = format!("k{key}");
        let called = self.record.now();
        let ended = self.attempt_all(id, &name, operation).await;
        let returned = self.record.now();
        let write = |outcome| Some(Write { id, outcome });
        let writes = matches!(operation, Operation::Set { .. } | Operation::Cas { .. });
        let write = match &ended {
            Attempt::Answered(Answer::Wrote(version)) => write(Outcome::Acknowledged(*version)),
            // A conflict: answered, and not written.
            Attempt::Answered(_) | Attempt::Refused => write(Outcome::Refused),
            Attempt::Unknown => write(Outcome::Unknown),
        }
        .filter(|_| writes);
        let answer = match ended {
            Attempt::Answered(answer) => Some((returned, answer)),
            Attempt::Unknown => None,
            Attempt::Refused => {
                self.record.refused(write);
                return false;
            }
        };
        match &answer {
            Some((_, Answer::Wrote(version))) => self.known[at] = *version,
            Some((_, Answer::Held(held) | Answer::Conflict(held))) => {
                self.known[at] = held.map_or(0, |held| held.version)
            }
            // The value of the conflict has been removed since.
            Some((_, Answer::Deleted | Answer::ConflictAt(_))) => self.known[at] = 0,
            None => {}
        }
        let answered = answer.is_some();
        self.record.called(Call { key: name, operation, called, returned: answer, client: self.number }, write);
        answered
    }

    async fn attempt_all(&mut self, id: u64, key: &str, operation: Operation) -> Attempt {
        let mut unknown = false;
        for attempt in 0..ATTEMPTS_MAX {
            let to = match self.leader {
                Some(leader) if attempt < 3 => leader,
                _ => self.hosts[self.rng.random_range(0..self.hosts.len())].machine(),
            };
            match self.attempt(to, id, key, operation).await {
                // Conflicts are recorded under their idempotency keys, too: an earlier attempt that is still in
                // flight writes nothing any more.
                Attempt::Answered(answer) => {
                    self.leader = Some(to);
                    return Attempt::Answered(answer);
                }
                Attempt::Refused => self.leader = None,
                Attempt::Unknown => {
                    self.leader = None;
                    unknown = true;
                }
            }
            let pause = self.rng.random_range(20..600);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        if unknown { Attempt::Unknown } else { Attempt::Refused }
    }

    async fn attempt(&mut self, to: u64, id: u64, key: &str, operation: Operation) -> Attempt {
        let Some(host) = self.hosts.iter().find(|host| host.machine() == to) else { return Attempt::Refused };
        let asked =
            ask(Arc::clone(&self.network), Arc::clone(host), id, key.to_owned(), operation, self.rng.random_bool(0.3));
        // The server continues when the client has stopped waiting.
        match tokio::time::timeout(TIMEOUT, tokio::spawn(asked)).await {
            Ok(Ok(Some(attempt))) => attempt,
            Ok(Ok(None) | Err(_)) | Err(_) => Attempt::Unknown,
        }
    }
}

/// One request and its answer; `None` when either was lost.
async fn ask(
    network: Arc<Network>,
    host: Arc<Host>,
    id: u64,
    key: String,
    operation: Operation,
    by_lease: bool,
) -> Option<Attempt> {
    tokio::time::sleep(network.passage()?).await;
    let Some(life) = host.life() else { return Some(Attempt::Refused) };
    let attempt = serve(&host, &life, id, &key, operation, by_lease).await;
    if !life.lives() {
        return None;
    }
    tokio::time::sleep(network.passage()?).await;
    Some(attempt)
}

/// The server's handling of a request.
async fn serve(host: &Host, life: &Life, id: u64, key: &str, operation: Operation, by_lease: bool) -> Attempt {
    if operation == Operation::Get {
        let barrier = if host.is_sabotaged(Sabotage::ReadsWithoutBarrier) {
            Ok(())
        } else if by_lease {
            life.log().lease_barrier().await
        } else {
            life.log().read_barrier().await
        };
        return match barrier {
            Ok(()) => Attempt::Answered(Answer::Held(held(&life.view(), key))),
            Err(error) => not_done(&error),
        };
    }
    let (op, value, expected) = match operation {
        Operation::Set { value } => (VariableOp::Set, value, 0),
        Operation::Cas { expected, value } => (VariableOp::Cas, value, expected),
        Operation::Delete => (VariableOp::Delete, 0, 0),
        Operation::DeleteCas { expected } => (VariableOp::DeleteCas, 0, expected),
        Operation::Get => unreachable!("answered above"),
    };
    let meta = VariableMetadata {
        namespace: "default".into(),
        path: key.into(),
        modify_index: expected,
        ..VariableMetadata::default()
    };
    // Rows name a root key of the cluster; these are not encrypted, so that the checkers can read them.
    let Some(key_id) = life.view().active_root_key().map(|key| key.meta.key_id) else { return Attempt::Refused };
    let encrypted = VariableData { data: Sealed(value.to_be_bytes().to_vec()), key_id };
    let command = ApplyVariable { op, var: Variable { meta, encrypted } };
    let idempotency = Idempotency { key: id.to_string().into(), ..Idempotency::default() };
    let bytes = encode(host.now(), Actor::Anonymous, command.into(), Some(idempotency));
    match life.log().propose(bytes).await {
        Ok(accepted) => match accepted.reply.result {
            Ok(Applied::VariableWritten(meta)) => Attempt::Answered(Answer::Wrote(meta.modify_index)),
            Ok(Applied::VariableConflict(stored)) => Attempt::Answered(conflict(&stored)),
            Ok(_) => Attempt::Answered(Answer::Deleted),
            Err(_) => Attempt::Refused,
        },
        Err(error) => not_done(&error),
    }
}

fn not_done(error: &ProposeError) -> Attempt {
    match error {
        ProposeError::NotLeader { .. } | ProposeError::TooLong { .. } | ProposeError::Disk(_) => Attempt::Refused,
        ProposeError::OutcomeUnknown | ProposeError::Stopped(_) => Attempt::Unknown,
    }
}

fn held(view: &State, key: &str) -> Option<Held> {
    view.variable(&VariableKey::new("default", key)).and_then(|row| shown(row))
}

/// Answer to a repeated write that met a conflict: the current value, or otherwise only the version of the conflict.
fn conflict(stored: &Variable) -> Answer {
    match (shown(stored), stored.meta.modify_index) {
        (None, 1..) => Answer::ConflictAt(stored.meta.modify_index),
        (held, _) => Answer::Conflict(held),
    }
}

fn shown(row: &Variable) -> Option<Held> {
    let value = u64::from_be_bytes(row.encrypted.data.0.as_slice().try_into().ok()?);
    Some(Held { value, version: row.meta.modify_index })
}
