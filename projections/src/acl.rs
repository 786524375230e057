//! ACL objects and the rules between them. Policy parsing and the check of callers are in other crates.

mod auth_method;
mod binding_rule;
#[cfg(test)]
pub(crate) mod check;
mod one_time;
mod policy;
mod role;
#[cfg(test)]
mod tests;
mod token;

use imbl::OrdSet;
use songline_model::{AccessorId, BindingRuleId, Blob, JobId, NamespaceName, RoleId, SecretId, Str, Time};

use crate::rejected::Rejected;

pub(crate) use auth_method::{delete as delete_auth_methods, upsert as upsert_auth_methods};
pub(crate) use binding_rule::{delete as delete_binding_rules, upsert as upsert_binding_rules};
pub(crate) use one_time::{
    delete as delete_one_time_tokens, drop_all as drop_one_time_tokens, expire as expire_one_time_tokens,
    upsert as upsert_one_time_token,
};
pub(crate) use policy::{delete as delete_policies, upsert as upsert_policies};
pub(crate) use role::{delete as delete_roles, upsert as upsert_roles};
pub use token::{AclBootstrap, EXPIRED_TOKENS_MAX};
pub(crate) use token::{bootstrap, delete as delete_tokens, upsert as upsert_tokens};

/// Secondary indexes of the ACL tables. All are sets of pairs, so that two rows that swap values within one entry do
/// not lose an index entry.
#[derive(Clone, Default)]
pub(crate) struct Indexes {
    /// Policies that workloads have without a token; an empty job id stands for every job of the namespace.
    pub(crate) policies_by_job: OrdSet<(NamespaceName, JobId, Str)>,
    pub(crate) tokens_by_secret: OrdSet<(SecretId, AccessorId)>,
    pub(crate) tokens_by_create: OrdSet<(u64, AccessorId)>,
    /// Tokens that expire: whether the token is global, its expiration time, its accessor.
    pub(crate) tokens_by_expiry: OrdSet<(bool, Time, AccessorId)>,
    pub(crate) one_time_by_secret: OrdSet<(SecretId, AccessorId)>,
    pub(crate) roles_by_name: OrdSet<(Str, RoleId)>,
    pub(crate) rules_by_method: OrdSet<(Str, BindingRuleId)>,
}

/// Refuses a row without a field that only its proposer could fill in.
fn present(noun: &'static str, field: &'static str, is_there: bool) -> Result<(), Rejected> {
    if is_there { Ok(()) } else { Err(Rejected::AclIncomplete { noun, field }) }
}

fn is_hash(hash: Option<&Blob>) -> bool {
    hash.is_some_and(|hash| !hash.0.is_empty())
}
