//! Kinds of objects that all regions share: their lists, their rows, and the commands that write them.

use serde::{Deserialize, Serialize};
use songline_commands::{
    Command, DeleteAclAuthMethods, DeleteAclBindingRules, DeleteAclPolicies, DeleteAclRoles, DeleteAclTokens,
    DeleteNamespaces, DeleteNodePools, DeleteQuotaSpecs, UpsertAclAuthMethods, UpsertAclBindingRules,
    UpsertAclPolicies, UpsertAclRoles, UpsertAclTokens, UpsertNamespaces, UpsertNodePools, UpsertQuotaSpecs,
};
use songline_model::{
    ALL_NODE_POOL, AccessorId, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, DEFAULT_NODE_POOL,
    JobStatus, Namespace, NamespaceName, NodePool, QuotaName, QuotaSpec, Str,
};
use songline_projections::{Rejected, State, Table};

use super::difference::Listed;

/// Kind of object, in the order in which the kinds are written: a namespace names its quota, a role its policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Kind {
    Quotas,
    Namespaces,
    NodePools,
    Policies,
    Roles,
    AuthMethods,
    BindingRules,
    /// Global tokens; local ones stay in their region.
    Tokens,
}

/// Whole rows of one kind. They hold the secrets of tokens and auth methods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Rows {
    Quotas(Vec<QuotaSpec>),
    Namespaces(Vec<Namespace>),
    NodePools(Vec<NodePool>),
    Policies(Vec<AclPolicy>),
    Roles(Vec<AclRole>),
    AuthMethods(Vec<AclAuthMethod>),
    BindingRules(Vec<AclBindingRule>),
    Tokens(Vec<AclToken>),
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Quotas,
        Self::Namespaces,
        Self::NodePools,
        Self::Policies,
        Self::Roles,
        Self::AuthMethods,
        Self::BindingRules,
        Self::Tokens,
    ];

    /// Whether the objects are replicated only with ACLs enabled.
    pub(super) fn is_of_acls(self) -> bool {
        match self {
            Self::Quotas | Self::Namespaces | Self::NodePools => false,
            Self::Policies | Self::Roles | Self::AuthMethods | Self::BindingRules | Self::Tokens => true,
        }
    }

    pub(super) fn table(self) -> Table {
        match self {
            Self::Quotas => Table::QuotaSpecs,
            Self::Namespaces => Table::Namespaces,
            Self::NodePools => Table::NodePools,
            Self::Policies => Table::AclPolicy,
            Self::Roles => Table::AclRoles,
            Self::AuthMethods => Table::AclAuthMethods,
            Self::BindingRules => Table::AclBindingRules,
            Self::Tokens => Table::AclToken,
        }
    }

    /// All objects of the kind. Node pools that every region has by itself are left out.
    pub(super) fn list(self, view: &State) -> Listed {
        match self {
            Self::Quotas => view.quota_specs().map(|row| (row.name.0.clone(), row.hash.clone())).collect(),
            Self::Namespaces => view.namespaces().map(|row| (row.name.0.clone(), row.hash.clone())).collect(),
            Self::NodePools => {
                let made = view.node_pools().filter(|row| !is_built_in(row));
                made.map(|row| (row.name.0.clone(), row.hash.clone())).collect()
            }
            Self::Policies => view.acl_policies().map(|row| (row.name.clone(), row.hash.clone())).collect(),
            Self::Roles => view.acl_roles().map(|row| (text(row.id), row.hash.clone())).collect(),
            Self::AuthMethods => view.acl_auth_methods().map(|row| (row.name.clone(), row.hash.clone())).collect(),
            Self::BindingRules => view.acl_binding_rules().map(|row| (text(row.id), row.hash.clone())).collect(),
            Self::Tokens => {
                let global = view.acl_tokens().filter(|row| row.global);
                global.map(|row| (text(row.accessor_id), row.hash.clone())).collect()
            }
        }
    }

    /// The objects with these keys, as far as they exist.
    pub(super) fn rows(self, view: &State, keys: &[Str]) -> Rows {
        fn each<'a, T: Clone>(keys: &'a [Str], find: impl Fn(&'a Str) -> Option<T>) -> Vec<T> {
            keys.iter().filter_map(find).collect()
        }
        match self {
            Self::Quotas => Rows::Quotas(each(keys, |key| view.quota_spec(key).map(|row| QuotaSpec::clone(row)))),
            Self::Namespaces => {
                Rows::Namespaces(each(keys, |key| view.namespace(key).map(|row| Namespace::clone(row))))
            }
            Self::NodePools => Rows::NodePools(each(keys, |key| view.node_pool(key).map(|row| NodePool::clone(row)))),
            Self::Policies => Rows::Policies(each(keys, |key| view.acl_policy(key).map(|row| AclPolicy::clone(row)))),
            Self::Roles => Rows::Roles(each(keys, |key| Some(AclRole::clone(view.acl_role(key.parse().ok()?)?)))),
            Self::AuthMethods => {
                Rows::AuthMethods(each(keys, |key| view.acl_auth_method(key).map(|row| AclAuthMethod::clone(row))))
            }
            Self::BindingRules => Rows::BindingRules(each(keys, |key| {
                Some(AclBindingRule::clone(view.acl_binding_rule(key.parse().ok()?)?))
            })),
            Self::Tokens => Rows::Tokens(each(keys, |key| {
                let row = view.acl_token(key.parse::<AccessorId>().ok()?)?;
                row.global.then(|| AclToken::clone(&row))
            })),
        }
    }

    /// The command that deletes objects.
    pub(super) fn deletion(self, keys: &[Str]) -> Command {
        let names = keys.to_vec();
        match self {
            Self::Quotas => DeleteQuotaSpecs { names: names.into_iter().map(QuotaName).collect() }.into(),
            Self::Namespaces => DeleteNamespaces { names: names.into_iter().map(NamespaceName).collect() }.into(),
            Self::NodePools => DeleteNodePools { names: keys.iter().map(|key| key.as_str().into()).collect() }.into(),
            Self::Policies => DeleteAclPolicies { names }.into(),
            Self::Roles => DeleteAclRoles { ids: ids(keys) }.into(),
            Self::AuthMethods => DeleteAclAuthMethods { names }.into(),
            Self::BindingRules => DeleteAclBindingRules { ids: ids(keys) }.into(),
            Self::Tokens => DeleteAclTokens { accessor_ids: ids(keys) }.into(),
        }
    }

    /// The refusal that the deletion of an object is certain to get, so that its attempts leave no entries in the log.
    pub(super) fn refusal(self, view: &State, key: &Str) -> Option<Rejected> {
        match self {
            Self::Quotas => {
                let quota = QuotaName(key.clone());
                let namespace = view.namespaces_of_quota(&quota).next()?.clone();
                Some(Rejected::QuotaInUse { quota, namespace })
            }
            Self::Namespaces => {
                let namespace = NamespaceName(key.clone());
                if let Some(job) = view.jobs_in(key).find(|job| job.status != JobStatus::Dead) {
                    return Some(Rejected::NamespaceHasJob { namespace, job: job.id.clone() });
                }
                if let Some(volume) = view.csi_volumes_in(key).next() {
                    return Some(Rejected::NamespaceHasCsiVolume { namespace, volume: volume.id.clone() });
                }
                view.variables_in(key, "").next().map(|_| Rejected::NamespaceHasVariable(namespace))
            }
            Self::NodePools | Self::Policies | Self::Roles | Self::AuthMethods | Self::BindingRules | Self::Tokens => {
                None
            }
        }
    }
}

impl Rows {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Rows::Quotas(_) => Kind::Quotas,
            Rows::Namespaces(_) => Kind::Namespaces,
            Rows::NodePools(_) => Kind::NodePools,
            Rows::Policies(_) => Kind::Policies,
            Rows::Roles(_) => Kind::Roles,
            Rows::AuthMethods(_) => Kind::AuthMethods,
            Rows::BindingRules(_) => Kind::BindingRules,
            Rows::Tokens(_) => Kind::Tokens,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Quotas(rows) => rows.len(),
            Rows::Namespaces(rows) => rows.len(),
            Rows::NodePools(rows) => rows.len(),
            Rows::Policies(rows) => rows.len(),
            Rows::Roles(rows) => rows.len(),
            Rows::AuthMethods(rows) => rows.len(),
            Rows::BindingRules(rows) => rows.len(),
            Rows::Tokens(rows) => rows.len(),
        }
    }

    /// Each row by itself.
    pub(super) fn one_by_one(self) -> Vec<Rows> {
        fn split<T>(rows: Vec<T>, wrap: fn(Vec<T>) -> Rows) -> Vec<Rows> {
            rows.into_iter().map(|row| wrap(vec![row])).collect()
        }
        match self {
            Rows::Quotas(rows) => split(rows, Rows::Quotas),
            Rows::Namespaces(rows) => split(rows, Rows::Namespaces),
            Rows::NodePools(rows) => split(rows, Rows::NodePools),
            Rows::Policies(rows) => split(rows, Rows::Policies),
            Rows::Roles(rows) => split(rows, Rows::Roles),
            Rows::AuthMethods(rows) => split(rows, Rows::AuthMethods),
            Rows::BindingRules(rows) => split(rows, Rows::BindingRules),
            Rows::Tokens(rows) => split(rows, Rows::Tokens),
        }
    }

    /// Keys of objects of this region that have to go before these rows are written: roles whose name another role takes.
    /// A role that is only renamed is among the rows, because its hash has changed.
    pub(super) fn displaced(&self, view: &State) -> Vec<Str> {
        let Rows::Roles(rows) = self else { return Vec::new() };
        let holders = rows.iter().filter_map(|row| view.acl_role_by_name(&row.name).filter(|held| held.id != row.id));
        holders.map(|held| text(held.id)).collect()
    }

    /// The command that writes the rows in `region`.
    pub(super) fn upsert(self, region: &Str) -> Command {
        match self {
            Rows::Quotas(quotas) => UpsertQuotaSpecs { quotas, region: region.clone() }.into(),
            Rows::Namespaces(namespaces) => UpsertNamespaces { namespaces }.into(),
            Rows::NodePools(node_pools) => UpsertNodePools { node_pools }.into(),
            Rows::Policies(policies) => UpsertAclPolicies { policies }.into(),
            Rows::Roles(roles) => UpsertAclRoles { roles, allow_missing_policies: true }.into(),
            Rows::AuthMethods(mut auth_methods) => {
                // There is one default at most: the former one has to lose its mark first.
                auth_methods.sort_by_key(|method| method.default);
                UpsertAclAuthMethods { auth_methods }.into()
            }
            Rows::BindingRules(binding_rules) => {
                UpsertAclBindingRules { binding_rules, allow_missing_auth_methods: true }.into()
            }
            Rows::Tokens(mut tokens) => {
                tokens.retain(|token| token.global);
                UpsertAclTokens { tokens }.into()
            }
        }
    }
}

fn is_built_in(pool: &NodePool) -> bool {
    pool.name == ALL_NODE_POOL || pool.name == DEFAULT_NODE_POOL
}

fn text(id: impl std::fmt::Display) -> Str {
    Str::from(id.to_string())
}

/// The ids that these keys are. The keys come from rows, so all of them are ids.
fn ids<T: std::str::FromStr>(keys: &[Str]) -> Vec<T> {
    keys.iter().filter_map(|key| key.parse().ok()).collect()
}
