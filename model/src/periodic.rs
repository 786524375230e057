//! When a periodic job last ran, and the names of its children. When it runs next is not here.

use serde::{Deserialize, Serialize};

use crate::{JobId, JobKey, NamespaceName, Time};

/// What stands between a periodic job's id and the time in the id of its child.
const LAUNCH_INFIX: &str = "/periodic-";

/// `PeriodicLaunch` of the reference's state: the last launch of a periodic job, or when it was first seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PeriodicLaunch {
    #[serde(rename = "ID")]
    pub id: JobId,
    pub namespace: NamespaceName,
    pub launch: Time,
    pub create_index: u64,
    pub modify_index: u64,
}

impl PeriodicLaunch {
    /// The job that it is about.
    pub fn key(&self) -> JobKey {
        JobKey { namespace: self.namespace.clone(), id: self.id.clone() }
    }

    /// The id of the child that `parent` starts at `at`; of a time only the whole seconds count.
    pub fn child_id(parent: &str, at: Time) -> JobId {
        JobId::from(format!("{parent}{LAUNCH_INFIX}{}", at.secs()))
    }

    /// When the child of this id was started by `parent`. `None`: the id is not one of its children.
    pub fn launch_of(parent: &str, child: &str) -> Option<Time> {
        child.strip_prefix(parent)?.strip_prefix(LAUNCH_INFIX)?.parse().ok().map(Time::from_secs)
    }
}
