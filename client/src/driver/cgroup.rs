//! How drivers name the cgroups of their tasks, and whether this agent may make any.

use super::RunId;
use crate::cgroup::hierarchy::Hierarchy;
use crate::config::ClientConfig;

/// Where tasks get cgroups; `None` where there are none or this agent may not make any.
pub(super) fn usable(config: &ClientConfig) -> Option<Hierarchy> {
    rustix::process::geteuid().is_root().then(|| Hierarchy::find(&config.cgroup_parent)).flatten()
}

/// The name of a task's cgroups, the same for all its runs: one begins when the one before is gone.
pub(super) fn name(run: &RunId) -> String {
    format!("{}.{}.scope", run.alloc, run.task)
}
