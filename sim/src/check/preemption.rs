//! Preemption: an allocation gives way only to one whose job has a clearly higher priority, and only where that one is
//! placed by the same entry.

/// Smallest difference between the priorities of the two jobs.
const PRIORITY_DIFFERENCE: i64 = 10;

/// An allocation that an entry preempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// Index of the entry.
    pub index: u64,
    /// Id of the allocation.
    pub victim: String,
    /// Priority of its job.
    pub priority: i64,
    /// Its node.
    pub node: String,
    /// The allocation that it gave way to; `None` if there is none.
    pub by: Option<Preemptor>,
}

/// The allocation that others gave way to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemptor {
    /// Its id.
    pub alloc: String,
    /// Priority of its job.
    pub priority: i64,
    /// Its node.
    pub node: String,
    /// Index of the entry that placed it.
    pub placed: u64,
}

/// A preemption that should not have happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreemptionError {
    /// The preemptor does not exist, is older, or is on another node.
    #[error("at index {index} allocation {victim} on {node} was preempted in vain: no allocation took its place")]
    InVain {
        /// Index of the entry.
        index: u64,
        /// Id of the preempted allocation.
        victim: String,
        /// Its node.
        node: String,
    },
    /// The priorities are too close, or the wrong way round.
    #[error("at index {index} allocation {victim} of priority {priority} was preempted by {by} of priority {higher}")]
    Priority {
        /// Index of the entry.
        index: u64,
        /// Id of the preempted allocation.
        victim: String,
        /// Priority of its job.
        priority: i64,
        /// Id of the preemptor.
        by: String,
        /// Priority of the preemptor's job.
        higher: i64,
    },
}

/// Checks one preempted allocation.
pub fn preemption_is_sound(eviction: &Eviction) -> Result<(), PreemptionError> {
    let Eviction { index, victim, priority, node, by } = eviction;
    let Some(by) = by.as_ref().filter(|by| by.placed == *index && by.node == *node) else {
        return Err(PreemptionError::InVain { index: *index, victim: victim.clone(), node: node.clone() });
    };
    if by.priority - priority < PRIORITY_DIFFERENCE {
        return Err(PreemptionError::Priority {
            index: *index,
            victim: victim.clone(),
            priority: *priority,
            by: by.alloc.clone(),
            higher: by.priority,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
