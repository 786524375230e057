//! Roll-outs: a deployment replaces no more allocations at once than its group allows.

/// The allocations of one group that an entry stops because their job has a new version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// Index of the entry.
    pub index: u64,
    /// Job and group.
    pub group: String,
    /// Number of allocations that the entry stops.
    pub stopped: usize,
    /// Number of allocations of the deployment, placed earlier, whose health is not known yet.
    pub awaited: usize,
    /// Most allocations that the group may replace at once.
    pub max_parallel: usize,
}

/// A deployment that replaces too many allocations at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "at index {} {} replaced {} allocations while {} of its deployment were awaited, and may replace {} at once",
    .0.index, .0.group, .0.stopped, .0.awaited, .0.max_parallel
)]
pub struct TooManyAtOnce(pub Replacement);

/// Checks one entry's replacements in one group.
pub fn rollout_is_sound(replacement: &Replacement) -> Result<(), TooManyAtOnce> {
    let Replacement { stopped, awaited, max_parallel, .. } = replacement;
    if *stopped > 0 && stopped + awaited > *max_parallel {
        return Err(TooManyAtOnce(replacement.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
