//! ACL policies: the rules as written, and the workloads that have the policy without a token.

use serde::{Deserialize, Serialize};

use super::hash::Hasher;
use super::{DESCRIPTION_BYTES_MAX, is_acl_name};
use crate::job::Errors;
use crate::{Blob, JobId, NamespaceName, Str};

/// Named rules that tokens, roles and workloads refer to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclPolicy {
    pub name: Str,
    pub description: Str,
    /// The rules as written.
    pub rules: Str,
    /// Workloads that have the policy.
    #[serde(rename = "JobACL")]
    pub job_acl: Option<JobAcl>,
    pub hash: Option<Blob>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Workloads that a policy applies to: those of a namespace, a job, a group or a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobAcl {
    pub namespace: NamespaceName,
    /// Job id; empty selects every job of the namespace.
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    /// Group name; empty selects every group of the job.
    pub group: Str,
    /// Task name; empty selects every task of the group.
    pub task: Str,
}

impl JobAcl {
    /// Whether the workload has the policy. Job ids are compared whole: a policy of `web` does not cover `web-admin`.
    pub fn covers(&self, namespace: &str, job_id: &str, group: &str, task: &str) -> bool {
        let of_job = self.namespace == *namespace
            && !self.namespace.is_empty()
            && (self.job_id.is_empty() || self.job_id == *job_id);
        of_job && (self.group.is_empty() || self.group == group && (self.task.is_empty() || self.task == task))
    }
}

impl AclPolicy {
    /// Hash of the policy's content.
    pub fn compute_hash(&self) -> Blob {
        let mut hasher = Hasher::default();
        hasher.texts([self.name.as_str(), &self.description, &self.rules]);
        if let Some(workloads) = &self.job_acl {
            hasher.texts([workloads.namespace.as_str(), workloads.job_id.as_str(), &workloads.group, &workloads.task]);
        }
        hasher.finish()
    }

    /// Returns everything that is wrong with the policy; `rules` is the result of parsing its rules.
    pub fn validate(&self, rules: Result<(), String>) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if !is_acl_name(&self.name) {
            errors.push(format!("invalid name '{}'", self.name));
        }
        if let Err(error) = rules {
            errors.push(format!("failed to parse rules: {error}"));
        }
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            errors.push(format!("description longer than {DESCRIPTION_BYTES_MAX}"));
        }
        if let Some(workloads) = &self.job_acl {
            if workloads.namespace.is_empty() && !workloads.job_id.is_empty() {
                errors.push("namespace must be set to set job ID");
            }
            if workloads.job_id.is_empty() && !workloads.group.is_empty() {
                errors.push("job ID must be set to set group");
            }
            if workloads.group.is_empty() && !workloads.task.is_empty() {
                errors.push("group must be set to set task");
            }
        }
        errors.into_result()
    }
}
