//! Service registrations: the address of a service of an allocation, announced by its node. A job's service block is
//! in `service.rs`.

use serde::{Deserialize, Serialize};

use crate::{AllocId, JobId, JobKey, NamespaceName, NodeId, Str};

/// A registered instance of a service: address, port and tags.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceRegistration {
    #[serde(rename = "ID")]
    pub id: Str,
    pub service_name: Str,
    pub namespace: NamespaceName,
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    pub datacenter: Str,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    #[serde(rename = "AllocID")]
    pub alloc_id: AllocId,
    pub tags: Vec<Str>,
    pub address: Str,
    pub port: i64,
    pub create_index: u64,
    pub modify_index: u64,
}

impl ServiceRegistration {
    /// The key of the registration's job.
    pub fn job_key(&self) -> JobKey {
        JobKey { namespace: self.namespace.clone(), id: self.job_id.clone() }
    }

    /// Whether both announce the same service: indexes are ignored, and tags are compared as a set.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let plain = |row: &Self| Self { tags: Vec::new(), create_index: 0, modify_index: 0, ..row.clone() };
        let all_in = |some: &[Str], of: &[Str]| some.iter().all(|tag| of.contains(tag));
        plain(self) == plain(other) && all_in(&self.tags, &other.tags) && all_in(&other.tags, &self.tags)
    }
}
