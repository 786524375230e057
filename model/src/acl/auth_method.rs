//! Auth methods: the external identity providers that logins are accepted from. The login itself is in another crate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hash::Hasher;
use super::{TtlBounds, is_acl_name, kinds};
use crate::job::Errors;
use crate::{Blob, Dur, Secret, Str, Time};

kinds!(
    /// Kind of proof that a login presents.
    AclAuthMethodKind { Oidc = "OIDC", Jwt = "JWT" }
);
kinds!(
    /// Scope of the token that a login creates: one region or all.
    TokenLocality { Local = "local", Global = "global" }
);

/// An external identity provider with the settings of its logins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclAuthMethod {
    pub name: Str,
    #[serde(rename = "Type")]
    pub kind: AclAuthMethodKind,
    pub token_locality: TokenLocality,
    /// Time to live of a token that a login creates.
    #[serde(rename = "MaxTokenTTL")]
    pub max_token_ttl: Dur,
    /// Whether a login without a method name uses this method. At most one method is the default.
    pub default: bool,
    pub config: Option<AclAuthMethodConfig>,
    pub hash: Option<Blob>,
    pub create_time: Time,
    pub modify_time: Time,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Settings of an auth method: keys, accepted issuers and audiences, leeways and claim mappings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclAuthMethodConfig {
    #[serde(rename = "JWTValidationPubKeys")]
    pub jwt_validation_pub_keys: Option<Vec<Str>>,
    #[serde(rename = "JWKSURL")]
    pub jwks_url: Str,
    #[serde(rename = "OIDCDiscoveryURL")]
    pub oidc_discovery_url: Str,
    #[serde(rename = "OIDCClientID")]
    pub oidc_client_id: Str,
    #[serde(rename = "OIDCClientSecret")]
    pub oidc_client_secret: Secret,
    #[serde(rename = "OIDCScopes")]
    pub oidc_scopes: Option<Vec<Str>>,
    pub bound_audiences: Option<Vec<Str>>,
    pub bound_issuer: Option<Vec<Str>>,
    #[serde(rename = "AllowedRedirectURIs")]
    pub allowed_redirect_uris: Option<Vec<Str>>,
    pub discovery_ca_pem: Option<Vec<Str>>,
    #[serde(rename = "JWKSCACert")]
    pub jwks_ca_cert: Str,
    pub signing_algs: Option<Vec<Str>>,
    /// Validity of a token without `exp`, counted from its start: 0 means 150 s, negative means none.
    pub expiration_leeway: Dur,
    /// Validity before its expiry of a token without `nbf` and `iat`: 0 means 150 s, negative means none.
    pub not_before_leeway: Dur,
    /// Tolerance for clock differences: 0 means 60 s, negative means none.
    pub clock_skew_leeway: Dur,
    /// Names for single-valued claims.
    pub claim_mappings: Option<BTreeMap<Str, Str>>,
    /// Names for multi-valued claims.
    pub list_claim_mappings: Option<BTreeMap<Str, Str>>,
}

impl AclAuthMethod {
    /// Hash of the method's content, including the client secret and every other field of the configuration. The order
    /// of maps does not matter.
    pub fn compute_hash(&self) -> Blob {
        let mut hasher = Hasher::default();
        hasher.texts([
            self.name.as_str(),
            self.kind.as_str(),
            self.token_locality.as_str(),
            &self.max_token_ttl.to_string(),
        ]);
        hasher.text(if self.default { "true" } else { "false" });
        if let Some(config) = &self.config {
            config.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns everything that is wrong with the method.
    pub fn validate(&self, TtlBounds { min, max }: TtlBounds) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if !is_acl_name(&self.name) {
            errors.push(format!("invalid name '{}'", self.name));
        }
        if let TokenLocality::Other(word) = &self.token_locality {
            errors.push(format!("invalid token locality '{word}'"));
        }
        if let AclAuthMethodKind::Other(word) = &self.kind {
            errors.push(format!("invalid token type '{word}'"));
        }
        if !(min..=max).contains(&self.max_token_ttl) {
            errors.push(format!(
                "invalid MaxTokenTTL value '{}' (should be between {min} and {max})",
                self.max_token_ttl
            ));
        }
        errors.into_result()
    }

    /// Takes the fields that an update leaves out from `stored`. The update always states `default`, and it replaces
    /// the configuration as a whole.
    #[must_use]
    pub fn merged_over(mut self, stored: &AclAuthMethod) -> Self {
        if self.kind.as_str().is_empty() {
            self.kind = stored.kind.clone();
        }
        if self.token_locality.as_str().is_empty() {
            self.token_locality = stored.token_locality.clone();
        }
        if self.max_token_ttl == Dur::ZERO {
            self.max_token_ttl = stored.max_token_ttl;
        }
        self.config = self.config.or_else(|| stored.config.clone());
        self
    }
}

impl AclAuthMethodConfig {
    fn hash(&self, hasher: &mut Hasher) {
        let texts = [
            ("JWKSCACert", self.jwks_ca_cert.as_str()),
            ("JWKSURL", &self.jwks_url),
            ("OIDCClientID", &self.oidc_client_id),
            ("OIDCClientSecret", self.oidc_client_secret.reveal()),
            ("OIDCDiscoveryURL", &self.oidc_discovery_url),
        ];
        for (name, text) in texts {
            hasher.field(name, [text]);
        }
        let lists = [
            ("AllowedRedirectURIs", &self.allowed_redirect_uris),
            ("BoundAudiences", &self.bound_audiences),
            ("BoundIssuer", &self.bound_issuer),
            ("DiscoveryCaPem", &self.discovery_ca_pem),
            ("JWTValidationPubKeys", &self.jwt_validation_pub_keys),
            ("OIDCScopes", &self.oidc_scopes),
            ("SigningAlgs", &self.signing_algs),
        ];
        for (name, list) in lists {
            hasher.field(name, list.iter().flatten().map(Str::as_str));
        }
        let spans = [
            ("ClockSkewLeeway", self.clock_skew_leeway),
            ("ExpirationLeeway", self.expiration_leeway),
            ("NotBeforeLeeway", self.not_before_leeway),
        ];
        for (name, span) in spans {
            hasher.field(name, [span.to_string().as_str()]);
        }
        for (name, map) in [("ClaimMappings", &self.claim_mappings), ("ListClaimMappings", &self.list_claim_mappings)] {
            hasher.field(name, map.iter().flatten().flat_map(|(claim, name)| [claim.as_str(), name.as_str()]));
        }
    }
}
