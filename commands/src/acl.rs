//! Commands about who may do what. Secrets of tokens are in the log by necessity; no other form of a command shows them.

use serde::{Deserialize, Serialize};
use songline_model::{
    AccessorId, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, BindingRuleId, OneTimeToken, RoleId, Str, Time,
};

/// Make or change policies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclPolicies {
    /// Whole rows; hashes present, indexes ignored.
    pub policies: Vec<AclPolicy>,
}

/// Delete policies. Missing ones are no error; links to them stay and count for nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclPolicies {
    /// Which.
    pub names: Vec<Str>,
}

/// Make or change tokens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclTokens {
    /// Whole rows; accessors, secrets, creation times and hashes present, roles by id, indexes ignored. What a token keeps for life (its
    /// secret, its creation, when it ends) comes from the stored row, if there is one.
    pub tokens: Vec<AclToken>,
}

/// Delete tokens. Missing ones are no error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclTokens {
    /// Which.
    pub accessor_ids: Vec<AccessorId>,
}

/// Make the first management token, once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BootstrapAclToken {
    /// The whole row.
    pub token: AclToken,
    /// The index of the bootstrap before, to do it once more. 0: there was none.
    pub reset_index: u64,
}

/// Make a one-time token. The one that its token had is gone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertOneTimeToken {
    /// The whole row; indexes ignored.
    pub token: OneTimeToken,
}

/// Delete one-time tokens, by the accessors of their tokens. Missing ones are no error, unless this is an exchange.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteOneTimeTokens {
    /// Which.
    pub accessor_ids: Vec<AccessorId>,
    /// An exchange: refused unless each row still has this modify index, so that of two exchanges one fails.
    pub exchanged: Option<u64>,
}

/// Delete the one-time tokens that are past their time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExpireOneTimeTokens {
    /// The leader's clock: what ends by then is gone.
    pub timestamp: Time,
}

/// Make or change roles.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclRoles {
    /// Whole rows; ids and hashes present, indexes ignored.
    pub roles: Vec<AclRole>,
    /// Whether a role may name policies that are not there (yet): in a copy of another region's roles.
    pub allow_missing_policies: bool,
}

/// Delete roles: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclRoles {
    /// Which.
    pub ids: Vec<RoleId>,
}

/// Make or change auth methods.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclAuthMethods {
    /// Whole rows; times and hashes present, indexes ignored.
    pub auth_methods: Vec<AclAuthMethod>,
}

/// Delete auth methods: all of them or none. Their binding rules stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclAuthMethods {
    /// Which.
    pub names: Vec<Str>,
}

/// Make or change binding rules.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertAclBindingRules {
    /// Whole rows; ids, times and hashes present, indexes ignored.
    pub binding_rules: Vec<AclBindingRule>,
    /// Whether a rule may name an auth method that is not there (yet): in a copy of another region's rules.
    pub allow_missing_auth_methods: bool,
}

/// Delete binding rules: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteAclBindingRules {
    /// Which.
    pub ids: Vec<BindingRuleId>,
}
