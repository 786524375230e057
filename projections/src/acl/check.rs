//! For tests: invariants between the ACL rows and their indexes.

use std::collections::BTreeSet;

use super::Indexes;
use super::policy::by_job;
use crate::State;

/// Panics when an index or an invariant disagrees with the rows.
pub(crate) fn consistent(state: &State) {
    let names: BTreeSet<_> = state.acl_roles().map(|row| &row.name).collect();
    assert_eq!(names.len(), state.acl_roles().count(), "names of roles are unique");
    assert!(state.acl_auth_methods().filter(|row| row.default).count() <= 1, "at most one auth method is the default");
    for token in state.acl_tokens() {
        assert!(
            token.role_links().iter().all(|link| link.name.is_empty() && !link.id.is_nil()),
            "a stored token has ids of roles alone"
        );
        assert_eq!(state.acl_token_by_secret(&token.secret_id).map(|found| found.accessor_id), Some(token.accessor_id));
    }
    let tables = &state.tables;
    let rows = Indexes {
        policies_by_job: tables.acl_policy.iter().filter_map(|row| by_job(row)).collect(),
        tokens_by_secret: tables.acl_token.iter().map(|row| (row.secret_id, row.accessor_id)).collect(),
        tokens_by_create: tables.acl_token.iter().map(|row| (row.create_index, row.accessor_id)).collect(),
        tokens_by_expiry: tables
            .acl_token
            .iter()
            .filter_map(|row| row.expiration_time.map(|at| (row.global, at, row.accessor_id)))
            .collect(),
        one_time_by_secret: tables.one_time_token.iter().map(|row| (row.one_time_secret_id, row.accessor_id)).collect(),
        roles_by_name: tables.acl_roles.iter().map(|row| (row.name.clone(), row.id)).collect(),
        rules_by_method: tables.acl_binding_rules.iter().map(|row| (row.auth_method.clone(), row.id)).collect(),
    };
    let by = &state.by.acl;
    assert_eq!(rows.policies_by_job, by.policies_by_job);
    assert_eq!(rows.tokens_by_secret, by.tokens_by_secret);
    assert_eq!(rows.tokens_by_create, by.tokens_by_create);
    assert_eq!(rows.tokens_by_expiry, by.tokens_by_expiry);
    assert_eq!(rows.one_time_by_secret, by.one_time_by_secret);
    assert_eq!(rows.roles_by_name, by.roles_by_name);
    assert_eq!(rows.rules_by_method, by.rules_by_method);
}
