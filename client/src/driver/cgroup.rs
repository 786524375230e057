//! Cgroups for drivers: the names for their tasks, and whether this agent may create any.

use super::RunId;
use crate::cgroup::hierarchy::Hierarchy;
use crate::config::ClientConfig;

/// The cgroup hierarchy for tasks; `None` where there is none or this agent may not create cgroups.
pub(super) fn usable(config: &ClientConfig) -> Option<Hierarchy> {
    rustix::process::geteuid().is_root().then(|| Hierarchy::find(&config.cgroup_parent)).flatten()
}

/// Name of a task's cgroups, the same for all its runs: a run begins only when the previous one is gone.
pub(super) fn name(run: &RunId) -> String {
    format!("{}.{}.scope", run.alloc, run.task)
}
