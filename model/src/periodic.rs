//! Last launch of a periodic job, and the ids of its children. The next launch is computed in another crate.

use serde::{Deserialize, Serialize};

use crate::{JobId, JobKey, NamespaceName, Time};

/// Separates the periodic job's id and the Unix time in the id of a child.
const LAUNCH_INFIX: &str = "/periodic-";

/// `PeriodicLaunch` of the reference's state: time of a periodic job's last launch, or of its first registration.
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
    /// The key of the periodic job.
    pub fn key(&self) -> JobKey {
        JobKey { namespace: self.namespace.clone(), id: self.id.clone() }
    }

    /// The id of the child that `parent` launches at `at`, in whole Unix seconds.
    pub fn child_id(parent: &str, at: Time) -> JobId {
        JobId::from(format!("{}{}", Self::child_prefix(parent), at.secs()))
    }

    /// The prefix of the ids of all children of `parent`.
    pub fn child_prefix(parent: &str) -> String {
        format!("{parent}{LAUNCH_INFIX}")
    }

    /// Launch time of a child of `parent`. `None`: the id is not that of a child.
    pub fn launch_of(parent: &str, child: &str) -> Option<Time> {
        child.strip_prefix(parent)?.strip_prefix(LAUNCH_INFIX)?.parse().ok().map(Time::from_secs)
    }
}
