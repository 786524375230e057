//! The environments of an allocation: of a task, as it sees it or as this node does, and of services.

use std::sync::Arc;

use songline_model::{Allocation, Secret, Task};

use super::Shared;
use crate::allocdir::AllocDir;
use crate::core::Workload;
use crate::env::{Sources, TaskEnv, TaskPaths, host};
use crate::vault::Account;

/// Tokens that are in a task's environment.
#[derive(Default, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub identity: Option<&'a Secret>,
    pub vault: Option<&'a Account>,
}

/// The environment of a task; with `own_root` its directories have the paths that a task with a root of its own sees.
pub(super) fn environment(
    shared: &Shared,
    alloc: &Allocation,
    task: &Task,
    dir: &AllocDir,
    own_root: bool,
    shown: Shown<'_>,
) -> TaskEnv {
    let paths = if own_root {
        TaskPaths { alloc: "/alloc".into(), local: "/local".into(), secrets: "/secrets".into() }
    } else {
        let own = dir.task(&task.name);
        TaskPaths { alloc: dir.shared(), local: own.join("local"), secrets: own.join("secrets") }
    };
    let host = host::inherited(&task.driver, &shared.config.options);
    let node = Arc::clone(&shared.node.lock());
    TaskEnv::build(&Sources {
        alloc,
        task,
        node: &node,
        region: &shared.config.region,
        paths: &paths,
        host: &host,
        token: shown.identity,
        vault: shown.vault.map(|account| (&account.token, account.namespace.as_str())),
    })
}

/// The environment of a workload's services: a group's see only what all its tasks share.
pub(super) fn of_workload(shared: &Shared, alloc: &Allocation, dir: &AllocDir, of: &Workload) -> TaskEnv {
    let nobody = Task::default();
    let task = match of {
        Workload::Group => &nobody,
        Workload::Task(name) => alloc.group().and_then(|group| group.task(name)).unwrap_or(&nobody),
    };
    environment(shared, alloc, task, dir, false, Shown::default())
}

/// The environment that all tasks of the allocation share.
pub(super) fn of_group(shared: &Shared, alloc: &Allocation, dir: &AllocDir) -> TaskEnv {
    of_workload(shared, alloc, dir, &Workload::Group)
}
