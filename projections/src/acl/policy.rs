//! ACL policies, and the policies of a workload.

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_commands::{DeleteAclPolicies, UpsertAclPolicies};
use songline_model::{AclPolicy, AclToken, JobId, NamespaceName, Str};

use super::{is_hash, present};
use crate::index::move_key;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<Str, AclPolicy> for tables::AclPolicy {
    fn key(row: &AclPolicy) -> Str {
        row.name.clone()
    }

    #[cfg(test)]
    fn in_story(row: &AclPolicy) -> String {
        format!("policy:{}", row.name)
    }

    fn reindex(state: &mut State, before: Option<&Arc<AclPolicy>>, after: Option<&Arc<AclPolicy>>) {
        move_key(
            &mut state.by.acl.policies_by_job,
            before.and_then(|row| by_job(row)),
            after.and_then(|row| by_job(row)),
        );
    }
}

/// Index key of a policy for workloads; `None` for a policy without a namespace, which only tokens and roles use.
pub(super) fn by_job(row: &AclPolicy) -> Option<(NamespaceName, JobId, Str)> {
    let workloads = row.job_acl.as_ref().filter(|workloads| !workloads.namespace.is_empty())?;
    Some((workloads.namespace.clone(), workloads.job_id.clone(), row.name.clone()))
}

impl State {
    /// The policy of this name.
    pub fn acl_policy(&self, name: &str) -> Option<&Arc<AclPolicy>> {
        self.tables.acl_policy.get(&Str::new(name))
    }

    /// All policies, by name.
    pub fn acl_policies(&self) -> impl DoubleEndedIterator<Item = &Arc<AclPolicy>> {
        self.tables.acl_policy.iter()
    }

    /// The policies of a token, its own and those of its roles, without duplicates, by name. Names of missing policies
    /// are skipped.
    pub fn acl_policies_of_token(&self, token: &AclToken) -> Vec<Arc<AclPolicy>> {
        let of_roles =
            token.role_links().iter().filter_map(|link| self.acl_role(link.id)).flat_map(|role| role.policy_names());
        let names: BTreeSet<&Str> = token.policy_names().iter().chain(of_roles).collect();
        names.into_iter().filter_map(|name| self.acl_policy(name)).cloned().collect()
    }

    /// The policies that a workload has without a token: those of its job, by the whole job id, and those of its
    /// namespace. For a child job the caller passes the parent's id.
    pub fn acl_policies_of_workload(
        &self,
        namespace: &str,
        job_id: &str,
        group: &str,
        task: &str,
    ) -> Vec<Arc<AclPolicy>> {
        let of = |job_id: &str| {
            let (namespace, job_id) = (NamespaceName::from(namespace), JobId::from(job_id));
            let start = (namespace.clone(), job_id.clone(), Str::default());
            self.by
                .acl
                .policies_by_job
                .range(start..)
                .take_while(move |(of, job, _)| *of == namespace && *job == job_id)
        };
        let of_namespace = (!job_id.is_empty()).then(|| of("")).into_iter().flatten();
        let names: BTreeSet<&Str> = of(job_id).chain(of_namespace).map(|(_, _, name)| name).collect();
        let policies = names.into_iter().filter_map(|name| self.acl_policy(name));
        let covers =
            |row: &&Arc<AclPolicy>| row.job_acl.as_ref().is_some_and(|of| of.covers(namespace, job_id, group, task));
        policies.filter(covers).cloned().collect()
    }
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertAclPolicies) -> Result<(), Rejected> {
    for policy in &cmd.policies {
        present("policy", "name", !policy.name.is_empty())?;
        present("policy", "hash", is_hash(policy.hash.as_ref()))?;
        let create_index = tx.acl_policy(&policy.name).map_or(tx.index(), |stored| stored.create_index);
        let row = AclPolicy { create_index, modify_index: tx.index(), ..policy.clone() };
        tx.put::<tables::AclPolicy>(row);
    }
    Ok(())
}

/// Deletes policies. Tokens and roles keep the names: a policy that is created again applies to them again.
pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteAclPolicies) -> Result<(), Rejected> {
    for name in &cmd.names {
        tx.delete::<tables::AclPolicy>(name);
    }
    Ok(())
}
