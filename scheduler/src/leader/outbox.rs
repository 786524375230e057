//! The leader's open effects: decisions that are not written yet. Each effect is tried until it is written, refused, or
//! out of date.
//!
//! One effect per subject is open at a time. A decision about a subject with an open effect is put off: once the open
//! effect is over, the machine that decided checks again, on tables that have its result. The other machines make
//! decisions, `effects.rs` turns them into effects, and the shell writes them.

use std::collections::{BTreeMap, BTreeSet};

use songline_commands::{Actor, Cause, Command, Idempotency, UpdateNodeStatus};
use songline_model::{DeploymentId, Dur, EvalId, JobKey, NodeId, NodeStatus, Str, Time};
use songline_projections::State;

use super::backoff::backoff;
use super::gc::Cutoffs;
use crate::broker::Token;

/// Back-off after the first failed attempt; each further failure doubles it.
const RETRY_WAIT_FIRST: Dur = Dur::from_millis(250);
/// Longest back-off. It has to stay far below the two minutes for which `apply` remembers the idempotency key of a
/// write.
const RETRY_WAIT_MAX: Dur = Dur::from_secs(8);

/// Subject of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Evaluations that newer ones made needless, named by the first of them.
    Canceled(EvalId),
    /// An evaluation that was delivered too often, and the token of the delivery to acknowledge when the effect is
    /// over.
    GiveUp(EvalId, Token),
    /// The status of a node that missed its heartbeat.
    NodeStatus(NodeId),
    /// The evaluations that follow from a node's status.
    NodeEvals(NodeId),
    /// A step of a deployment.
    Deployment(DeploymentId),
    /// Allocations that leave the draining nodes.
    Migration,
    /// The end of a node's drain.
    DrainEnd(NodeId),
    /// Service registrations of a node that is down or gone.
    Services(NodeId),
    /// The launch of a periodic job, named by the evaluation of its child.
    Launch(EvalId),
    /// A comparison of the servers' states.
    Digest,
    /// Rows that are no longer needed.
    Garbage,
}

/// A row that a decision was made on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A node.
    Node(NodeId),
    /// A deployment.
    Deployment(DeploymentId),
    /// An evaluation.
    Eval(EvalId),
    /// The specification of a job. Its status does not count.
    Job(JobKey),
}

/// The rows that a decision was made on, with their modify indexes. When one of them changes, the decision is out of
/// date: the machine that made it gets the change and decides anew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Basis(Vec<(Row, Option<u64>)>);

impl Basis {
    /// The rows as they are in `view`.
    pub fn of(view: &State, rows: impl IntoIterator<Item = Row>) -> Self {
        Self(
            rows.into_iter()
                .map(|row| {
                    let index = modify_index(view, &row);
                    (row, index)
                })
                .collect(),
        )
    }

    fn holds(&self, view: &State) -> bool {
        self.0.iter().all(|(row, index)| modify_index(view, row) == *index)
    }
}

fn modify_index(view: &State, row: &Row) -> Option<u64> {
    match row {
        Row::Node(id) => view.node(*id).map(|row| row.modify_index),
        Row::Deployment(id) => view.deployment(*id).map(|row| row.modify_index),
        Row::Eval(id) => view.eval(*id).map(|row| row.modify_index),
        Row::Job(key) => view.job_by_key(key).map(|row| row.job_modify_index),
    }
}

/// The work of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// Write this command.
    Write {
        /// The entry that led to it, if one did.
        cause: Option<Cause>,
        /// The same bytes at every attempt.
        command: Box<Command>,
    },
    /// Write the status of a silent node. Out of date once the node is heard of again.
    WriteStatus {
        /// The node's status before the write.
        before: NodeStatus,
        /// The same bytes at every attempt.
        command: UpdateNodeStatus,
    },
    /// Collect garbage. Every attempt searches anew: a dead job may have been registered again since the last attempt.
    Collect(Cutoffs),
}

/// A decision that has to be carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The subject of the decision.
    pub subject: Subject,
    /// The actor of its commands.
    pub actor: Actor,
    /// The work.
    pub deed: Deed,
    /// The rows that it was decided on.
    pub basis: Basis,
}

/// Names one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// An attempt that the shell has to make now. Its outcome goes to [`Outbox::on_outcome`].
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Names the attempt when its outcome is reported.
    pub ticket: Ticket,
    /// The subject of the effect.
    pub subject: Subject,
    /// The actor of its commands.
    pub actor: Actor,
    /// The work.
    pub deed: Deed,
    /// Idempotency key: the same at every attempt, so that a write whose answer was lost does not run twice.
    pub key: Idempotency,
    /// Number of failed attempts before this one.
    pub earlier: u32,
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The command is applied, by the entry with this index.
    Written(u64),
    /// `apply` refused the command: a conflicting entry came first.
    Refused,
    /// The command was not written, or it is unknown whether it was.
    Lost,
}

/// Result of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The command is applied, by the entry with this index.
    Written(u64),
    /// `apply` refused the command.
    Refused,
    /// A row that the effect was decided on changed before the command could be written.
    OutOfDate,
}

/// An effect that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Over {
    /// The effect.
    pub effect: Effect,
    /// The result.
    pub ending: Ending,
    /// Whether a decision about the same subject was put off, so that its machine has to check again.
    pub look_again: bool,
}

/// State of an effect after an outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// The effect is tried again.
    Again {
        /// The subject of the effect.
        subject: Subject,
        /// Number of failed attempts.
        failures: u32,
        /// Time of the next attempt.
        at: Time,
    },
    /// The effect is over.
    Over(Box<Over>),
    /// The attempt belongs to an effect that was cleared.
    Unknown,
}

/// Work for the shell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Due {
    /// Attempts to make.
    pub attempts: Vec<Attempt>,
    /// Effects that turned out to be out of date.
    pub over: Vec<Over>,
}

#[derive(Debug)]
struct Open {
    effect: Effect,
    key: Str,
    failures: u32,
    look_again: bool,
}

/// The open effects of one leadership term. The outbox keeps nothing that must survive: a new leader decides anew from
/// the tables.
#[derive(Debug, Default)]
pub struct Outbox {
    tickets: u64,
    open: BTreeMap<Subject, Open>,
    due: BTreeSet<(Time, Subject)>,
    under_way: BTreeMap<Ticket, Subject>,
}

impl Outbox {
    /// An outbox without effects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all effects. Outcomes of attempts that are under way are ignored.
    pub fn clear(&mut self) {
        *self = Self { tickets: self.tickets, ..Self::default() };
    }

    /// Number of open effects.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no effect is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes an effect, which is due at once. No other effect may have the same `key`. Returns false when an effect of
    /// the same subject is open: the decision is then put off.
    pub fn decide(&mut self, effect: Effect, key: Str, now: Time) -> bool {
        let subject = effect.subject;
        if let Some(open) = self.open.get_mut(&subject) {
            open.look_again = true;
            return false;
        }
        self.open.insert(subject, Open { effect, key, failures: 0, look_again: false });
        self.due.insert((now, subject));
        true
    }

    /// The next time at which [`Self::on_time`] has work; `None`: no effect is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The attempts that are due. `heard` tells whether a node has been heard of since it was found silent.
    pub fn on_time(&mut self, view: &State, now: Time, heard: impl Fn(NodeId) -> bool) -> Due {
        let mut found = Due::default();
        while let Some(&(at, subject)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, subject));
            let Some(open) = self.open.get_mut(&subject) else { continue };
            let is_heard = matches!(subject, Subject::NodeStatus(node) if heard(node));
            if is_heard || !open.effect.basis.holds(view) {
                found.over.extend(self.end(subject, Ending::OutOfDate));
                continue;
            }
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            self.under_way.insert(ticket, subject);
            found.attempts.push(Attempt {
                ticket,
                subject,
                actor: open.effect.actor.clone(),
                deed: open.effect.deed.clone(),
                key: Idempotency { key: open.key.clone(), body_hash: [0; 16], forwarded: true },
                earlier: open.failures,
            });
        }
        found
    }

    /// Takes the outcome of an attempt.
    pub fn on_outcome(&mut self, ticket: Ticket, outcome: Outcome, now: Time) -> Told {
        let Some(subject) = self.under_way.remove(&ticket) else { return Told::Unknown };
        let ending = match outcome {
            Outcome::Written(index) => Ending::Written(index),
            Outcome::Refused => Ending::Refused,
            Outcome::Lost => return self.again(subject, now),
        };
        self.end(subject, ending).map_or(Told::Unknown, |over| Told::Over(Box::new(over)))
    }

    fn again(&mut self, subject: Subject, now: Time) -> Told {
        let Some(open) = self.open.get_mut(&subject) else { return Told::Unknown };
        let at = now.plus(backoff(open.failures, RETRY_WAIT_FIRST, RETRY_WAIT_MAX));
        open.failures = open.failures.saturating_add(1);
        let failures = open.failures;
        self.due.insert((at, subject));
        Told::Again { subject, failures, at }
    }

    fn end(&mut self, subject: Subject, ending: Ending) -> Option<Over> {
        let Open { effect, look_again, .. } = self.open.remove(&subject)?;
        Some(Over { effect, ending, look_again })
    }
}

#[cfg(test)]
mod tests;
