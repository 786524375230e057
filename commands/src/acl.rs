//! Commands for ACL objects. The log necessarily holds the secrets of tokens; every other encoding of a command leaves
//! them out.

use serde::{Deserialize, Serialize};
use songline_model::{
    AccessorId, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, BindingRuleId, OneTimeToken, RoleId, Str,
    Time,
};

/// Create or update policies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclPolicies {
    /// Whole rows; hashes must be set, indexes are ignored.
    pub policies: Vec<AclPolicy>,
}

/// Delete policies. Missing ones are ignored; links to deleted policies stay and grant nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclPolicies {
    /// Names of the policies.
    pub names: Vec<Str>,
}

/// Create or update tokens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclTokens {
    /// Whole rows; accessors, secrets, creation times and hashes must be set, roles are given by id, indexes are
    /// ignored. For a known token, the fields that never change (secret, creation, expiration) are taken from the
    /// stored row.
    pub tokens: Vec<AclToken>,
}

/// Delete tokens. Missing ones are ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclTokens {
    /// Accessor ids of the tokens.
    pub accessor_ids: Vec<AccessorId>,
}

/// Create the first management token; possible once unless reset.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BootstrapAclToken {
    /// The whole row.
    pub token: AclToken,
    /// To bootstrap again: the index of the previous bootstrap. 0: there was none.
    pub reset_index: u64,
}

/// Create a one-time token. Replaces an earlier one of the same token.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertOneTimeToken {
    /// The whole row; indexes are ignored.
    pub token: OneTimeToken,
}

/// Delete one-time tokens by the accessors of their tokens. Missing ones are ignored, except in an exchange.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteOneTimeTokens {
    /// Accessor ids of the tokens.
    pub accessor_ids: Vec<AccessorId>,
    /// For an exchange: the modify index that each row must still have, so that only one of two racing exchanges
    /// succeeds.
    pub exchanged: Option<u64>,
}

/// Delete the expired one-time tokens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExpireOneTimeTokens {
    /// The leader's clock: tokens that expire up to this time are deleted.
    pub timestamp: Time,
}

/// Create or update roles.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclRoles {
    /// Whole rows; ids and hashes must be set, indexes are ignored.
    pub roles: Vec<AclRole>,
    /// Whether a role may name missing policies: true when roles are copied from another region.
    pub allow_missing_policies: bool,
}

/// Delete roles: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclRoles {
    /// Ids of the roles.
    pub ids: Vec<RoleId>,
}

/// Create or update auth methods.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclAuthMethods {
    /// Whole rows; times and hashes must be set, indexes are ignored.
    pub auth_methods: Vec<AclAuthMethod>,
}

/// Delete auth methods: all of them or none. Their binding rules stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclAuthMethods {
    /// Names of the auth methods.
    pub names: Vec<Str>,
}

/// Create or update binding rules.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclBindingRules {
    /// Whole rows; ids, times and hashes must be set, indexes are ignored.
    pub binding_rules: Vec<AclBindingRule>,
    /// Whether a rule may name a missing auth method: true when rules are copied from another region.
    pub allow_missing_auth_methods: bool,
}

/// Delete binding rules: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclBindingRules {
    /// Ids of the binding rules.
    pub ids: Vec<BindingRuleId>,
}
