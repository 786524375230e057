//! Request bodies of auth methods, binding rules and logins, and the stubs of their lists. Single rows are in
//! `wire::acl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use songline_lang::{duration, go_json};
use songline_model::{AclAuthMethod, AclAuthMethodConfig, AclBindingRule, BindingRuleId, Blob, Dur, Secret, Str};

use super::acl::REDACTED;
use super::go_time::GoTime;

/// `ACLAuthMethod` in a request. Its empty type name is in the reference's error texts.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "", rename_all = "PascalCase")]
struct AuthMethodBody {
    name: Str,
    #[serde(rename = "Type")]
    kind: String,
    token_locality: String,
    #[serde(rename = "MaxTokenTTL")]
    max_token_ttl: Value,
    default: bool,
    config: Option<AuthMethodConfigBody>,
    #[serde(rename = "Hash")]
    _hash: Option<Blob>,
    #[serde(rename = "CreateTime")]
    _create_time: GoTime,
    #[serde(rename = "ModifyTime")]
    _modify_time: GoTime,
    #[serde(rename = "CreateIndex")]
    _create_index: u64,
    #[serde(rename = "ModifyIndex")]
    _modify_index: u64,
}

/// `ACLAuthMethodConfig` in a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "", rename_all = "PascalCase")]
struct AuthMethodConfigBody {
    expiration_leeway: Value,
    not_before_leeway: Value,
    clock_skew_leeway: Value,
    #[serde(rename = "JWTValidationPubKeys")]
    jwt_validation_pub_keys: Option<Vec<Str>>,
    #[serde(rename = "JWKSURL")]
    jwks_url: Str,
    #[serde(rename = "OIDCDiscoveryURL")]
    oidc_discovery_url: Str,
    #[serde(rename = "OIDCClientID")]
    oidc_client_id: Str,
    #[serde(rename = "OIDCClientSecret")]
    oidc_client_secret: Str,
    #[serde(rename = "OIDCScopes")]
    oidc_scopes: Option<Vec<Str>>,
    bound_audiences: Option<Vec<Str>>,
    bound_issuer: Option<Vec<Str>>,
    #[serde(rename = "AllowedRedirectURIs")]
    allowed_redirect_uris: Option<Vec<Str>>,
    discovery_ca_pem: Option<Vec<Str>>,
    #[serde(rename = "JWKSCACert")]
    jwks_ca_cert: Str,
    signing_algs: Option<Vec<Str>>,
    claim_mappings: Option<BTreeMap<Str, Str>>,
    list_claim_mappings: Option<BTreeMap<Str, Str>>,
}

/// Go's name of the type that the configuration is parsed with.
const CONFIG_GO_TYPE: &str = "struct { ExpirationLeeway interface {}; NotBeforeLeeway interface {}; ClockSkewLeeway interface {}; *structs.Alias }";

/// Parses an auth method. The error is the reference's text.
pub fn auth_method(body: &[u8]) -> Result<AclAuthMethod, String> {
    let names = go_json::Names {
        root: Some("struct { MaxTokenTTL interface {}; *structs.Alias }"),
        fields: &[(".Config", CONFIG_GO_TYPE)],
        ..go_json::Names::default()
    };
    let read: Result<AuthMethodBody, _> = go_json::from_slice_named(body, names);
    let body = read.map_err(|error| with_aliases(&error.to_string()))?;
    let config = body.config.map(AuthMethodConfigBody::into_config).transpose()?;
    let max_token_ttl = match &body.max_token_ttl {
        Value::String(text) => parse_duration(text)?,
        Value::Number(number) => nanos(number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Dur::ZERO,
    };
    Ok(AclAuthMethod {
        name: body.name,
        kind: body.kind.as_str().into(),
        token_locality: body.token_locality.as_str().into(),
        max_token_ttl,
        default: body.default,
        config,
        ..AclAuthMethod::default()
    })
}

/// Adapts error texts: the reference parses rows through nested alias types, which its texts show.
fn with_aliases(text: &str) -> String {
    let text = text.replace("Go struct field .Config.", "Go struct field .Alias.Config.Alias.");
    if text.contains("field .Alias.") { text } else { text.replace("Go struct field .", "Go struct field .Alias.") }
}

impl AuthMethodConfigBody {
    fn into_config(self) -> Result<AclAuthMethodConfig, String> {
        Ok(AclAuthMethodConfig {
            expiration_leeway: leeway("ExpirationLeeway", &self.expiration_leeway)?,
            not_before_leeway: leeway("NotBeforeLeeway", &self.not_before_leeway)?,
            clock_skew_leeway: leeway("ClockSkewLeeway", &self.clock_skew_leeway)?,
            jwt_validation_pub_keys: self.jwt_validation_pub_keys,
            jwks_url: self.jwks_url,
            oidc_discovery_url: self.oidc_discovery_url,
            oidc_client_id: self.oidc_client_id,
            oidc_client_secret: Secret::new(self.oidc_client_secret),
            oidc_scopes: self.oidc_scopes,
            bound_audiences: self.bound_audiences,
            bound_issuer: self.bound_issuer,
            allowed_redirect_uris: self.allowed_redirect_uris,
            discovery_ca_pem: self.discovery_ca_pem,
            jwks_ca_cert: self.jwks_ca_cert,
            signing_algs: self.signing_algs,
            claim_mappings: self.claim_mappings,
            list_claim_mappings: self.list_claim_mappings,
        })
    }
}

/// Keeps the client secret of `stored` when the request has the replacement that answers show.
pub fn keep_client_secret(method: &mut AclAuthMethod, stored: &AclAuthMethod) {
    if let (Some(config), Some(known)) = (&mut method.config, &stored.config)
        && config.oidc_client_secret.reveal() == REDACTED
    {
        config.oidc_client_secret = known.oidc_client_secret.clone();
    }
}

fn leeway(field: &str, value: &Value) -> Result<Dur, String> {
    match value {
        Value::Null => Ok(Dur::ZERO),
        Value::String(text) if text.is_empty() => Ok(Dur::ZERO),
        Value::String(text) => parse_duration(text),
        Value::Number(number) => Ok(nanos(number)),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(format!("unexpected {field} type: {}", in_go(value)))
        }
    }
}

/// A value in Go's print format.
fn in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(in_go).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let sorted: BTreeMap<&String, &Value> = members.iter().collect();
            let members: Vec<String> =
                sorted.into_iter().map(|(name, value)| format!("{name}:{}", in_go(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

fn parse_duration(text: &str) -> Result<Dur, String> {
    duration::parse(text).map(Dur).map_err(|error| error.to_string())
}

fn nanos(number: &serde_json::Number) -> Dur {
    Dur(number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as i64))
}

/// `ACLBindingRule` in a request: its id may be any text.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "ACLBindingRule", rename_all = "PascalCase")]
pub struct BindingRuleBody {
    #[serde(rename = "ID")]
    pub id: String,
    pub description: Str,
    pub auth_method: Str,
    pub selector: Str,
    #[serde(rename = "BindType")]
    pub bind_kind: String,
    pub bind_name: Str,
    #[serde(rename = "Hash")]
    _hash: Option<Blob>,
    #[serde(rename = "CreateTime")]
    _create_time: GoTime,
    #[serde(rename = "ModifyTime")]
    _modify_time: GoTime,
    #[serde(rename = "CreateIndex")]
    _create_index: u64,
    #[serde(rename = "ModifyIndex")]
    _modify_index: u64,
}

/// Body of a login with a JSON web token.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "ACLLoginRequest", rename_all = "PascalCase")]
pub struct LoginBody {
    pub auth_method_name: Str,
    /// Token that authenticates the user.
    pub login_token: Secret,
    pub region: String,
}

/// Body that asks for the address at which an OIDC login begins.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "ACLOIDCAuthURLRequest", rename_all = "PascalCase")]
pub struct AuthUrlBody {
    pub auth_method_name: Str,
    #[serde(rename = "RedirectURI")]
    pub redirect_uri: String,
    pub client_nonce: String,
    pub region: String,
}

/// Body that completes an OIDC login.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "ACLOIDCCompleteAuthRequest", rename_all = "PascalCase")]
pub struct CompleteAuthBody {
    pub auth_method_name: Str,
    #[serde(rename = "RedirectURI")]
    pub redirect_uri: String,
    pub client_nonce: String,
    pub state: String,
    /// Authorization code of the provider.
    pub code: Secret,
    pub region: String,
}

/// Answer with the address at which an OIDC login begins.
#[derive(Debug, Serialize)]
pub struct AuthUrlView {
    #[serde(rename = "AuthURL")]
    pub auth_url: String,
}

/// An auth method in lists: its public part.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AuthMethodStub<'a> {
    name: &'a str,
    #[serde(rename = "Type")]
    kind: &'a str,
    default: bool,
    hash: Option<&'a Blob>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> AuthMethodStub<'a> {
    /// Makes the stub of a row.
    pub fn new(row: &'a AclAuthMethod) -> Self {
        Self {
            name: &row.name,
            kind: row.kind.as_str(),
            default: row.default,
            hash: row.hash.as_ref(),
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}

/// A binding rule in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindingRuleStub<'a> {
    #[serde(rename = "ID")]
    id: BindingRuleId,
    description: &'a str,
    auth_method: &'a str,
    hash: Option<&'a Blob>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> BindingRuleStub<'a> {
    /// Makes the stub of a row.
    pub fn new(row: &'a AclBindingRule) -> Self {
        Self {
            id: row.id,
            description: &row.description,
            auth_method: &row.auth_method,
            hash: row.hash.as_ref(),
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}
