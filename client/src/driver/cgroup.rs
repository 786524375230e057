//! Where in the unified cgroup hierarchy tasks belong.

use std::fs;
use std::path::{Path, PathBuf};

use super::RunId;

/// Below this cgroup all others of tasks are made.
const PARENT: &str = "nomad.slice";

/// Where the unified hierarchy is mounted.
pub(super) fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| at.into())
    })
}

/// The cgroup of a task, where there are cgroups and this agent may make them.
pub(super) fn of(run: &RunId) -> Option<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    Some(mount().filter(|_| root)?.join(PARENT).join(format!("{}.{}.scope", run.alloc, run.task)))
}

/// Lets a task's cgroup have limits. Refused where processes live in a cgroup above; then the limits are simply not there below it.
pub(super) fn offer_controllers(own: &Path) {
    let Some(parent) = own.parent() else { return };
    let _ = fs::create_dir_all(parent);
    for dir in parent.parent().into_iter().chain([parent]) {
        for controller in ["+cpu", "+memory", "+cpuset"] {
            let _ = fs::write(dir.join("cgroup.subtree_control"), controller);
        }
    }
}
