//! The tables, and `apply`, the only function that changes them.
//!
//! `apply` is total and depends on the log alone: the same entries give the same rows, changes and digests on every
//! server and in every replay. This crate uses no clock, no randomness and no IO; the caller provides the reader or
//! writer of a checkpoint.

mod acl;
mod alloc;
mod autopilot;
mod change;
#[cfg(test)]
mod check;
mod checkpoint;
mod csi;
mod deployment;
mod digest;
mod eval;
mod event_sink;
mod idempotency;
mod import;
mod index;
mod job;
mod key_set;
mod namespace;
mod node;
mod node_pool;
mod operator;
mod page;
mod periodic;
mod plan;
mod prefix;
mod quota;
mod rejected;
mod restore;
mod root_key;
mod row_map;
mod runs;
mod scaling;
mod service_registration;
mod state;
#[cfg(test)]
mod story;
mod table;
#[cfg(test)]
mod tests;
mod tx;
mod variable;
mod work;

use std::sync::Arc;

use songline_commands::{Command, Envelope, KeepAnswer};
use songline_model::{Variable, VariableMetadata};

pub use acl::{AclBootstrap, EXPIRED_TOKENS_MAX};
pub use alloc::Listed;
pub use change::{Change, Visitor, Visits};
pub use checkpoint::{Ahead, CheckpointError, CheckpointSummary, Done, Piece};
pub use csi::DenormalizedVolume;
pub use deployment::Rollback;
pub use digest::Digest;
pub use eval::{EvalList, is_safe_to_delete};
pub use idempotency::{Refused, Remembered};
pub use import::Importer;
pub use node::evals::{node_evals, node_registration_needs_evals, node_transition_needs_evals};
pub use node::ready::ReadyNodes;
pub use node::standing::next_node_status;
pub use node::usage::NodeUsage;
pub use operator::ClusterMetadata;
pub use plan::apply_optimistically;
pub use prefix::{IdPrefix, InvalidPrefix};
pub use quota::LimitedBy;
pub use rejected::{Refusal, Rejected};
pub use songline_migrations::SCHEMA;
pub use state::{BUILT_IN_INDEX, State};
pub use table::{Noun, Table, TableVisitor, VisitsTable, tables};
pub use tx::Stamp;
pub use work::{Ended, STOPPED_BY, Work, WorkTask};

use tx::Tx;

/// Result of a command that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The command was applied.
    Done,
    /// Result of a compare-and-set: whether the value was set.
    Cas(bool),
    /// A variable was written; its new metadata.
    VariableWritten(VariableMetadata),
    /// The variable conflicts with the caller's modify index; the stored variable, all zero when there is none.
    VariableConflict(Arc<Variable>),
    /// The response to a request was kept, or is returned again.
    Answered(KeepAnswer),
    /// The state was replaced by that of an archive.
    Restored {
        /// Applied index of the archive, as users of its cluster saw it.
        archive_index: u64,
    },
    /// The state equals the leader's.
    DigestMatches,
    /// The state differs from the leader's: this server must stop.
    DigestDiffers {
        /// Index that was compared.
        index: u64,
        /// Digest of this server.
        ours: Digest,
        /// Digest of the leader.
        theirs: Digest,
    },
    /// The digests were not compared: another schema, or an index too long ago.
    DigestNotCompared,
}

/// Result of applying one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// Index of the result, as users see it: the entry's own, or that of the first run for a repeated write.
    pub index: u64,
    /// The outcome or the refusal.
    pub result: Result<Outcome, Rejected>,
    /// Changed rows, in the order of the last write of each row.
    pub changes: Vec<Change>,
    /// Whether the write ran or was refused before, and its first result is returned again.
    pub repeated: bool,
}

/// Applies one committed entry. Total: a refused command changes no row except that of its idempotency key, and still
/// counts as applied.
///
/// # Panics
/// If `raft_index` is not above that of the last entry: entries are applied in order, once.
pub fn apply(state: &mut State, raft_index: u64, envelope: &Envelope) -> Applied {
    let stamp = state.next_stamp(raft_index, envelope);
    let at = stamp.at;
    let applied = if let Command::Restore(cmd) = &envelope.command {
        restore::apply(state, &stamp, envelope.idempotency.as_ref(), cmd, || restore::read(cmd))
    } else {
        apply_to_rows(state, stamp, envelope)
    };
    state.passed(raft_index, at);
    applied
}

/// Applies the entry that restores an archive whose state was already read. The caller has verified that the archive
/// has the digest that the entry names.
///
/// # Panics
/// If the entry is not a restore, and as [`apply`] does.
pub fn apply_restore(state: &mut State, raft_index: u64, envelope: &Envelope, restored: State) -> Applied {
    let Command::Restore(cmd) = &envelope.command else { panic!("only an archive replaces the state") };
    let stamp = state.next_stamp(raft_index, envelope);
    let at = stamp.at;
    let applied = restore::apply(state, &stamp, envelope.idempotency.as_ref(), cmd, || Ok(restored));
    state.passed(raft_index, at);
    applied
}

fn apply_to_rows(state: &mut State, stamp: Stamp, envelope: &Envelope) -> Applied {
    let mut tx = Tx::new(state, stamp);
    if let Some(applied) = envelope.idempotency.as_ref().and_then(|sent| idempotency::ran_before(&tx, sent)) {
        return applied;
    }
    let result = run(&mut tx, &envelope.command);
    if result.is_err() && !tx.is_kept_though_refused() {
        tx.take_back();
    }
    quota::follow(&mut tx);
    if let Some(sent) = &envelope.idempotency {
        idempotency::remember(&mut tx, sent, &result);
    }
    Applied { index: tx.index(), result, changes: tx.commit(), repeated: false }
}

/// Counts an entry without a command, such as Raft writes for itself.
///
/// # Panics
/// If `raft_index` is not above that of the last entry. Index 0 of a fresh log is accepted.
pub fn pass(state: &mut State, raft_index: u64) {
    assert!(
        raft_index > state.raft_index() || raft_index == 0 && state.raft_index() == 0,
        "entries apply in order, once"
    );
    let at = state.applied_at();
    state.passed(raft_index, at);
}

fn run(tx: &mut Tx<'_>, command: &Command) -> Result<Outcome, Rejected> {
    match command {
        Command::NodeRegister(cmd) => node::register(tx, cmd),
        Command::NodeDeregister(cmd) => node::deregister(tx, cmd),
        Command::NodeUpdateStatus(cmd) => node::update_status(tx, cmd),
        Command::NodeUpdateDrain(cmd) => node::update_drain(tx, cmd),
        Command::JobRegister(cmd) => job::register(tx, cmd),
        Command::JobDeregister(cmd) => job::deregister(tx, cmd),
        Command::EvalUpdate(cmd) => eval::update(tx, cmd),
        Command::EvalReap(cmd) => eval::reap(tx, cmd),
        Command::AllocClientUpdate(cmd) => alloc::update_from_client(tx, cmd),
        Command::ReconcileJobSummaries(cmd) => job::summary::reconcile(tx, cmd),
        Command::ApplyPlanResults(cmd) => plan::apply(tx, cmd),
        Command::DeploymentStatusUpdate(cmd) => deployment::update_status(tx, cmd),
        Command::DeploymentAllocHealth(cmd) => deployment::set_alloc_health(tx, cmd),
        Command::DeploymentDelete(cmd) => deployment::delete(tx, cmd),
        Command::JobStability(cmd) => job::set_stability(tx, cmd),
        Command::AclPolicyUpsert(cmd) => acl::upsert_policies(tx, cmd),
        Command::AclPolicyDelete(cmd) => acl::delete_policies(tx, cmd),
        Command::AclTokenUpsert(cmd) => acl::upsert_tokens(tx, cmd),
        Command::AclTokenDelete(cmd) => acl::delete_tokens(tx, cmd),
        Command::AclTokenBootstrap(cmd) => acl::bootstrap(tx, cmd),
        Command::Autopilot(cmd) => return autopilot::set(tx, cmd),
        Command::UpsertNodeEvents(cmd) => node::add_events(tx, cmd),
        Command::JobBatchDeregister(cmd) => job::deregister_batch(tx, cmd),
        Command::AllocUpdateDesiredTransition(cmd) => alloc::set_transitions(tx, cmd),
        Command::NodeUpdateEligibility(cmd) => node::update_eligibility(tx, cmd),
        Command::BatchNodeUpdateDrain(cmd) => node::finish_drains(tx, cmd),
        Command::SchedulerConfig(cmd) => return operator::set_scheduler_config(tx, cmd),
        Command::NodeBatchDeregister(cmd) => node::deregister_batch(tx, cmd),
        Command::ClusterMetadata(cmd) => operator::set_cluster_metadata(tx, cmd),
        Command::OneTimeTokenUpsert(cmd) => acl::upsert_one_time_token(tx, cmd),
        Command::OneTimeTokenDelete(cmd) => acl::delete_one_time_tokens(tx, cmd),
        Command::OneTimeTokenExpire(cmd) => acl::expire_one_time_tokens(tx, cmd),
        Command::AclRolesUpsert(cmd) => acl::upsert_roles(tx, cmd),
        Command::AclRolesDelete(cmd) => acl::delete_roles(tx, cmd),
        Command::AclAuthMethodsUpsert(cmd) => acl::upsert_auth_methods(tx, cmd),
        Command::AclAuthMethodsDelete(cmd) => acl::delete_auth_methods(tx, cmd),
        Command::AclBindingRulesUpsert(cmd) => acl::upsert_binding_rules(tx, cmd),
        Command::AclBindingRulesDelete(cmd) => acl::delete_binding_rules(tx, cmd),
        Command::CSIVolumeRegister(cmd) => csi::register(tx, cmd),
        Command::CSIVolumeDeregister(cmd) => csi::deregister(tx, cmd),
        Command::CSIVolumeClaim(cmd) => csi::claim(tx, cmd),
        Command::CSIVolumeClaimBatch(cmd) => csi::claim_all(tx, cmd),
        Command::CSIPluginDelete(cmd) => csi::plugin::delete(tx, cmd),
        Command::VarApplyState(cmd) => return variable::apply(tx, cmd),
        Command::RootKeyMetaUpsert(cmd) => root_key::upsert(tx, cmd),
        Command::RootKeyMetaDelete(cmd) => root_key::delete(tx, cmd),
        Command::DeploymentPromote(cmd) => deployment::promote(tx, cmd),
        Command::ScalingEventRegister(cmd) => scaling::add_event(tx, cmd),
        Command::ServiceRegistrationUpsert(cmd) => service_registration::upsert(tx, cmd),
        Command::ServiceRegistrationDeleteById(cmd) => service_registration::delete(tx, cmd),
        Command::ServiceRegistrationDeleteByNodeId(cmd) => service_registration::delete_of_node(tx, cmd),
        Command::NodePoolUpsert(cmd) => node_pool::upsert(tx, cmd),
        Command::NodePoolDelete(cmd) => node_pool::delete(tx, cmd),
        Command::NamespaceUpsert(cmd) => namespace::upsert(tx, cmd),
        Command::NamespaceDelete(cmd) => namespace::delete(tx, cmd),
        Command::Restore(_) => unreachable!("an archive replaces the state as a whole, before any row is written"),
        Command::Digest(cmd) => return Ok(operator::check_digest(tx, cmd)),
        Command::WorkContinue(cmd) => work::proceed(tx, cmd),
        Command::EvalDelete(cmd) => work::open_eval_delete(tx, cmd),
        Command::WorkStop(cmd) => work::stop(tx, cmd),
        Command::AnswerKeep(cmd) => return Ok(Outcome::Answered(cmd.clone())),
        Command::QuotaSpecUpsert(cmd) => quota::upsert(tx, cmd),
        Command::QuotaSpecDelete(cmd) => quota::delete(tx, cmd),
        Command::EventSinkUpsert(cmd) => event_sink::upsert(tx, cmd),
        Command::EventSinkDelete(cmd) => event_sink::delete(tx, cmd),
        Command::EventSinkProgress(cmd) => event_sink::proceed(tx, cmd),
    }
    .map(|()| Outcome::Done)
}
