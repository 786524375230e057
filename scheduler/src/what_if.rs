//! What-if: makes hypothetical changes to a fork of a state, runs the schedulers on it until nothing is left to do, and
//! tells the difference. Nothing is written. Commands, schedulers, plan applier and queues are those of a real leader.
//!
//! The nodes of the fork obey at once: what is stopped ends, and what is placed runs and is healthy. Time does not
//! pass, so what waits for a time stays as it is; canaries without `auto_promote` wait for a person, and with it for
//! time. Evaluations that were pending before are left out.

mod fork;
mod outcome;

use songline_model::{JobKey, NodeId, Supposition, Time, WhatIf};
use songline_projections::{Rejected, State};

use fork::Fork;

/// Most hypothetical changes of one question.
pub const CHANGES_MAX: usize = 100;
/// Most nodes that one question may add.
pub const NODES_MAX: u32 = 1_000;
/// Most evaluations that are run for one question.
pub const EVALS_MAX: usize = 2_000;

/// Reasons why a question has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WhatIfError {
    /// There are no changes.
    #[error("what-if: the list of changes is empty")]
    Nothing,
    /// There are too many changes.
    #[error("what-if: {0} changes are more than {CHANGES_MAX}; ask for fewer at once")]
    TooManyChanges(usize),
    /// There are too many new nodes.
    #[error("what-if: {0} new nodes are more than {NODES_MAX}; ask for fewer at once")]
    TooManyNodes(u64),
    /// The node does not exist.
    #[error("what-if: there is no node {0}")]
    NodeNotFound(NodeId),
    /// The job does not exist.
    #[error("what-if: there is no job \"{id}\" in namespace \"{namespace}\"", id = .0.id, namespace = .0.namespace)]
    JobNotFound(JobKey),
    /// A write that follows from the changes was refused.
    #[error("what-if: {0}")]
    Refused(#[from] Rejected),
    /// The bound on work is reached.
    #[error("what-if: the cluster has not settled after {EVALS_MAX} evaluations; ask for fewer changes at once")]
    Unsettled,
}

/// Answers a question: the changes are made in their order, then the fork is scheduled until it has settled. The same
/// arguments give the same answer. The nodes of the answer are counted by [`WhatIf::shown`].
pub fn what_if(view: &State, changes: &[Supposition], seed: u64, now: Time) -> Result<WhatIf, WhatIfError> {
    check(changes)?;
    let mut fork = Fork::of(view, seed, now);
    for change in changes {
        fork.make(change)?;
    }
    fork.settle()?;
    Ok(outcome::between(view, &fork.state, &fork.touched))
}

fn check(changes: &[Supposition]) -> Result<(), WhatIfError> {
    if changes.is_empty() {
        return Err(WhatIfError::Nothing);
    }
    if changes.len() > CHANGES_MAX {
        return Err(WhatIfError::TooManyChanges(changes.len()));
    }
    let added = |change: &Supposition| match change {
        Supposition::Add { count, .. } => u64::from(*count),
        Supposition::Register(_)
        | Supposition::Deregister(_)
        | Supposition::Drain(_)
        | Supposition::Lose(_)
        | Supposition::Configure(_) => 0,
    };
    let nodes: u64 = changes.iter().map(added).sum();
    if nodes > u64::from(NODES_MAX) { Err(WhatIfError::TooManyNodes(nodes)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
