//! `acl auth-method create`, `update`, `delete`, `info`, `list`.

use clap::Args;
use serde_json::{Value, json};

use super::{field, listed, must_change, told};
use crate::client::{escape, text};
use crate::exit::{Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::layout::{block, heading};
use crate::values::{GoDuration, go_duration};
use crate::{Context, General, Run, input};

/// Settings of an auth method.
#[derive(Args)]
pub(crate) struct Settings {
    /// `OIDC` or `JWT`.
    #[arg(long = "type")]
    kind: Option<String>,
    /// Regions in which tokens are valid: `local` for this one, `global` for all.
    #[arg(long)]
    token_locality: Option<String>,
    /// Longest life of a token, such as `8h`.
    #[arg(long)]
    max_token_ttl: Option<GoDuration>,
    /// Used by logins that name no method.
    #[arg(long)]
    default: Option<bool>,
    /// Its configuration: JSON, `@FILE`, or `-` for standard input.
    #[arg(long)]
    config: Option<String>,
}

impl Settings {
    fn changes(&self) -> bool {
        let Self { kind, token_locality, max_token_ttl, default, config } = self;
        default.is_some()
            || max_token_ttl.is_some()
            || [kind, token_locality, config].iter().any(|given| given.is_some())
    }

    /// Puts what is said over what is there.
    fn over(&self, method: &mut Value) -> Result<(), Failure> {
        if let Some(kind) = &self.kind {
            if !["OIDC", "JWT"].contains(&kind.to_ascii_uppercase().as_str()) {
                return Err(Failure::new("ACL auth method type must be set to 'OIDC' or 'JWT'"));
            }
            method["Type"] = json!(kind.to_ascii_uppercase());
        }
        if let Some(locality) = &self.token_locality {
            if !["local", "global"].contains(&locality.as_str()) {
                return Err(Failure::new("Token locality must be set to either 'local' or 'global'"));
            }
            method["TokenLocality"] = json!(locality);
        }
        if let Some(GoDuration(ttl)) = self.max_token_ttl {
            method["MaxTokenTTL"] = json!(go_duration(ttl));
        }
        if let Some(default) = self.default {
            method["Default"] = json!(default);
        }
        if let Some(config) = &self.config {
            let source = match config.strip_prefix('@') {
                Some(file) => input::read(file)?,
                None if config == "-" => input::read("-")?,
                None => config.clone(),
            };
            let config: Value = serde_json::from_str(&source)
                .map_err(|error| Failure::new(format!("Unable to parse ACL auth method config: {error}")))?;
            method["Config"] = config;
        }
        Ok(())
    }
}

/// Arguments of `acl auth-method create`.
#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    settings: Settings,
    /// Name of the method.
    #[arg(long, default_value = "")]
    name: String,
}

impl Run for Create {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        for (given, sentence) in [
            (!self.name.is_empty(), "ACL auth method name must be specified using the -name flag"),
            (self.settings.token_locality.is_some(), "Token locality must be set to either 'local' or 'global'"),
            (
                self.settings.max_token_ttl.is_some(),
                "Max token TTL must be set to a value between min and max TTL configured for the server.",
            ),
            (self.settings.kind.is_some(), "ACL auth method type must be set to 'OIDC' or 'JWT'"),
            (self.settings.config.is_some(), "Must provide ACL auth method config in JSON format"),
        ] {
            if !given {
                return Err(Failure::arguments(sentence));
            }
        }
        let mut method = json!({ "Name": self.name });
        self.settings.over(&mut method)?;
        let client = self.general.client()?;
        let made = client.put("/v1/acl/auth-method", &method).await.tried("Error creating ACL auth method")?;
        told(&self.format, &made, words)
    }
}

/// Arguments of `acl auth-method update`.
#[derive(Args)]
pub(crate) struct Update {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    settings: Settings,
    /// Name of the method.
    name: String,
}

impl Run for Update {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        must_change(self.settings.changes(), "ACL auth method")?;
        let client = self.general.client()?;
        let path = format!("/v1/acl/auth-method/{}", escape(&self.name));
        let mut method = client.get(&path).await.tried("Error reading ACL auth method")?;
        self.settings.over(&mut method)?;
        let changed = client.put(&path, &method).await.tried("Error updating ACL auth method")?;
        told(&self.format, &changed, words)
    }
}

/// Arguments of `acl auth-method delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Name of the method.
    name: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/acl/auth-method/{}", escape(&self.name));
        self.general
            .delete(
                &path,
                "Error deleting ACL auth method",
                &format!("ACL auth method {} successfully deleted", self.name),
            )
            .await
    }
}

/// Arguments of `acl auth-method info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Name of the method.
    name: String,
}

impl Run for Info {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let path = format!("/v1/acl/auth-method/{}", escape(&self.name));
        let method = self.general.client()?.get(&path).await.tried("Error reading ACL auth method")?;
        told(&self.format, &method, words)
    }
}

/// Arguments of `acl auth-method list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        let headings = ["Name", "Type", "Default"];
        let row = |one: &Value| ["Name", "Type", "Default"].map(|key| field(one, key));
        let what = ("/v1/acl/auth-methods", "ACL auth methods");
        listed((&self.general, &self.format), what, "No ACL auth methods found", headings, row).await
    }
}

fn words(method: &Value) -> String {
    let config = &method["Config"];
    let about = block(&[
        ("Name", field(method, "Name")),
        ("Type", field(method, "Type")),
        ("Locality", field(method, "TokenLocality")),
        ("Max Token TTL", duration(&method["MaxTokenTTL"])),
        ("Default", field(method, "Default")),
        ("Create Index", field(method, "CreateIndex")),
        ("Modify Index", field(method, "ModifyIndex")),
    ]);
    let config = block(&[
        ("JWT Validation Public Keys", texts(&config["JWTValidationPubKeys"])),
        ("JWKS URL", field(config, "JWKSURL")),
        ("OIDC Discovery URL", field(config, "OIDCDiscoveryURL")),
        ("OIDC Client ID", field(config, "OIDCClientID")),
        ("OIDC Client Secret", field(config, "OIDCClientSecret")),
        ("OIDC Scopes", texts(&config["OIDCScopes"])),
        ("Bound audiences", texts(&config["BoundAudiences"])),
        ("Bound issuer", texts(&config["BoundIssuer"])),
        ("Allowed redirects URIs", texts(&config["AllowedRedirectURIs"])),
        ("Discovery CA pem", texts(&config["DiscoveryCaPem"])),
        ("JWKS CA cert", field(config, "JWKSCACert")),
        ("Signing algorithms", texts(&config["SigningAlgs"])),
        ("Expiration Leeway", duration(&config["ExpirationLeeway"])),
        ("NotBefore Leeway", duration(&config["NotBeforeLeeway"])),
        ("ClockSkew Leeway", duration(&config["ClockSkewLeeway"])),
        ("Claim mappings", mappings(&config["ClaimMappings"])),
        ("List claim mappings", mappings(&config["ListClaimMappings"])),
    ]);
    format!("{about}\n\n{}\n\n{config}", heading("Auth Method Config"))
}

/// A duration, which answers have as text or in nanoseconds.
fn duration(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        other => go_duration(other.as_i64().unwrap_or(0)),
    }
}

fn texts(list: &Value) -> String {
    items(list).iter().map(text).collect::<Vec<_>>().join(",")
}

/// Pairs of claims and their names: `{a: b}; {c: d}`.
fn mappings(map: &Value) -> String {
    let mut pairs: Vec<String> =
        map.as_object().into_iter().flatten().map(|(from, to)| format!("{{{from}: {}}}", text(to))).collect();
    pairs.sort_unstable();
    pairs.join("; ")
}
