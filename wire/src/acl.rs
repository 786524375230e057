//! Wire form of ACL rows: durations as strings, secrets only for their owners. Policies, roles and binding rules are
//! sent as they are stored.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use songline_lang::acl::Written;
use songline_model::{
    AccessorId, AclAuthMethod, AclAuthMethodConfig, AclPolicy, AclToken, AclTokenRoleLink, Blob, Dur, JobAcl,
    OneTimeToken, Str, Time, form,
};

/// Replacement for a client secret that is set.
pub const REDACTED: &str = "redacted";

/// A duration in Go's notation; zero is the empty string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(Dur);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.0 == Dur::ZERO {
            s.serialize_newtype_struct(form::SPAN, "")
        } else {
            s.serialize_newtype_struct(form::SPAN, &form::Text(self.0))
        }
    }
}

/// An ACL token without its secret; its lifetime is encoded as `T`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TokenView<'a, T = Span> {
    #[serde(rename = "ExpirationTTL")]
    expiration_ttl: T,
    #[serde(rename = "AccessorID")]
    accessor_id: AccessorId,
    #[serde(rename = "SecretID")]
    secret_id: String,
    name: &'a str,
    #[serde(rename = "Type")]
    kind: &'a str,
    policies: Option<&'a [Str]>,
    roles: Option<&'a [AclTokenRoleLink]>,
    global: bool,
    hash: Option<&'a Blob>,
    create_time: Time,
    expiration_time: Option<Time>,
    create_index: u64,
    modify_index: u64,
}

impl<'a, T> TokenView<'a, T> {
    fn new(row: &'a AclToken, expiration_ttl: T) -> Self {
        Self {
            expiration_ttl,
            accessor_id: row.accessor_id,
            secret_id: String::new(),
            name: &row.name,
            kind: row.kind.as_str(),
            policies: row.policies.as_deref(),
            roles: row.roles.as_deref(),
            global: row.global,
            hash: row.hash.as_ref(),
            create_time: row.create_time,
            expiration_time: row.expiration_time,
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}

impl<'a> TokenView<'a, Dur> {
    /// The token for filters of a list: as stored, including its secret.
    pub fn stored(row: &'a AclToken) -> Self {
        Self { secret_id: row.secret_id.reveal(), ..Self::new(row, row.expiration_ttl) }
    }
}

impl<'a> TokenView<'a> {
    /// The token without its secret.
    pub fn hidden(row: &'a AclToken) -> Self {
        Self::new(row, Span(row.expiration_ttl))
    }

    /// The token with its secret, for its owner or creator. A token with roles has a list of policies, too, even an
    /// empty one.
    pub fn revealed(row: &'a AclToken) -> Self {
        let policies = row.policies.as_deref().or(row.roles.is_some().then_some(&[]));
        Self { secret_id: row.secret_id.reveal(), policies, ..Self::hidden(row) }
    }

    /// The token in an event: without its secret, and with a list of roles even when it is empty.
    pub fn event(row: &'a AclToken) -> Self {
        Self { roles: Some(row.role_links()), ..Self::hidden(row) }
    }
}

/// An ACL token in lists: the stored token without its secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TokenStub<'a> {
    #[serde(rename = "AccessorID")]
    accessor_id: AccessorId,
    name: &'a str,
    #[serde(rename = "Type")]
    kind: &'a str,
    policies: Option<&'a [Str]>,
    roles: Option<&'a [AclTokenRoleLink]>,
    global: bool,
    hash: Option<&'a Blob>,
    create_time: Time,
    expiration_time: Option<Time>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> TokenStub<'a> {
    /// Makes the stub of a token.
    pub fn new(row: &'a AclToken) -> Self {
        Self {
            accessor_id: row.accessor_id,
            name: &row.name,
            kind: row.kind.as_str(),
            policies: row.policies.as_deref(),
            roles: row.roles.as_deref(),
            global: row.global,
            hash: row.hash.as_ref(),
            create_time: row.create_time,
            expiration_time: row.expiration_time,
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}

/// An ACL policy in lists, without its rules.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PolicyStub<'a> {
    name: &'a str,
    description: &'a str,
    hash: Option<&'a Blob>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> PolicyStub<'a> {
    /// Makes the stub of a policy.
    pub fn new(row: &'a AclPolicy) -> Self {
        let (hash, create_index, modify_index) = (row.hash.as_ref(), row.create_index, row.modify_index);
        Self { name: &row.name, description: &row.description, hash, create_index, modify_index }
    }
}

/// An ACL policy: its rules as text and in parsed form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PolicyView<'a> {
    name: &'a str,
    description: &'a str,
    rules: &'a str,
    #[serde(rename = "RulesJSON")]
    rules_json: Option<Written>,
    #[serde(rename = "JobACL")]
    job_acl: Option<&'a JobAcl>,
    hash: Option<&'a Blob>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> PolicyView<'a> {
    /// The policy, and its parsed rules if they can be parsed.
    pub fn new(row: &'a AclPolicy, rules: Option<Written>) -> Self {
        Self {
            name: &row.name,
            description: &row.description,
            rules: &row.rules,
            rules_json: rules,
            job_acl: row.job_acl.as_ref(),
            hash: row.hash.as_ref(),
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}

/// A one-time token, for its creator. It holds its secret, so it does not print.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct OneTimeTokenView {
    #[serde(rename = "OneTimeSecretID")]
    one_time_secret_id: String,
    #[serde(rename = "AccessorID")]
    accessor_id: AccessorId,
    expires_at: Option<Time>,
    create_index: u64,
    modify_index: u64,
}

impl OneTimeTokenView {
    /// The one-time token with its secret.
    pub fn new(row: &OneTimeToken) -> Self {
        Self {
            one_time_secret_id: row.one_time_secret_id.reveal(),
            accessor_id: row.accessor_id,
            expires_at: row.expires_at,
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}

/// Answer to the creation of a one-time token.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct OneTimeTokenUpsertResponse {
    /// The created one-time token.
    pub one_time_token: OneTimeTokenView,
    /// Index of the write.
    pub index: u64,
}

/// Answer to the exchange of a one-time token: the ACL token that it stands for.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct OneTimeTokenExchangeResponse<'a> {
    /// Token that the one-time token was exchanged for.
    pub token: TokenView<'a>,
    /// Index of the exchange.
    pub index: u64,
}

/// An auth method with its client secret redacted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AuthMethodView<'a> {
    #[serde(rename = "MaxTokenTTL")]
    max_token_ttl: Span,
    name: &'a str,
    #[serde(rename = "Type")]
    kind: &'a str,
    token_locality: &'a str,
    default: bool,
    config: Option<AuthMethodConfigView<'a>>,
    hash: Option<&'a Blob>,
    create_time: Time,
    modify_time: Time,
    create_index: u64,
    modify_index: u64,
}

/// Settings of an auth method with its client secret redacted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AuthMethodConfigView<'a> {
    expiration_leeway: Span,
    not_before_leeway: Span,
    clock_skew_leeway: Span,
    #[serde(rename = "JWTValidationPubKeys")]
    jwt_validation_pub_keys: Option<&'a [Str]>,
    #[serde(rename = "JWKSURL")]
    jwks_url: &'a str,
    #[serde(rename = "OIDCDiscoveryURL")]
    oidc_discovery_url: &'a str,
    #[serde(rename = "OIDCClientID")]
    oidc_client_id: &'a str,
    #[serde(rename = "OIDCClientSecret")]
    oidc_client_secret: &'static str,
    #[serde(rename = "OIDCScopes")]
    oidc_scopes: Option<&'a [Str]>,
    bound_audiences: Option<&'a [Str]>,
    bound_issuer: Option<&'a [Str]>,
    #[serde(rename = "AllowedRedirectURIs")]
    allowed_redirect_uris: Option<&'a [Str]>,
    discovery_ca_pem: Option<&'a [Str]>,
    #[serde(rename = "JWKSCACert")]
    jwks_ca_cert: &'a str,
    signing_algs: Option<&'a [Str]>,
    claim_mappings: Option<&'a BTreeMap<Str, Str>>,
    list_claim_mappings: Option<&'a BTreeMap<Str, Str>>,
}

impl<'a> AuthMethodView<'a> {
    /// The method, with its client secret redacted.
    pub fn new(row: &'a AclAuthMethod) -> Self {
        Self {
            max_token_ttl: Span(row.max_token_ttl),
            name: &row.name,
            kind: row.kind.as_str(),
            token_locality: row.token_locality.as_str(),
            default: row.default,
            config: row.config.as_ref().map(AuthMethodConfigView::new),
            hash: row.hash.as_ref(),
            create_time: row.create_time,
            modify_time: row.modify_time,
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}

impl<'a> AuthMethodConfigView<'a> {
    fn new(config: &'a AclAuthMethodConfig) -> Self {
        Self {
            expiration_leeway: Span(config.expiration_leeway),
            not_before_leeway: Span(config.not_before_leeway),
            clock_skew_leeway: Span(config.clock_skew_leeway),
            jwt_validation_pub_keys: config.jwt_validation_pub_keys.as_deref(),
            jwks_url: &config.jwks_url,
            oidc_discovery_url: &config.oidc_discovery_url,
            oidc_client_id: &config.oidc_client_id,
            oidc_client_secret: if config.oidc_client_secret.is_empty() { "" } else { REDACTED },
            oidc_scopes: config.oidc_scopes.as_deref(),
            bound_audiences: config.bound_audiences.as_deref(),
            bound_issuer: config.bound_issuer.as_deref(),
            allowed_redirect_uris: config.allowed_redirect_uris.as_deref(),
            discovery_ca_pem: config.discovery_ca_pem.as_deref(),
            jwks_ca_cert: &config.jwks_ca_cert,
            signing_algs: config.signing_algs.as_deref(),
            claim_mappings: config.claim_mappings.as_ref(),
            list_claim_mappings: config.list_claim_mappings.as_ref(),
        }
    }
}
