//! The user who writes the objects that all regions share, by way of any region, and local tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::RngExt;
use serde_json::{Value, json};

use super::super::callers::MANAGEMENT;
use super::LocalTokens;
use super::asker::Asker;

/// Number of names of each kind of object.
const NAMES: u32 = 4;
/// Name of the tokens that the user makes, and deletes again.
const TOKEN: &str = "kept";

/// The user.
pub(super) struct Keeper {
    asker: Asker,
    authoritative: usize,
    local_tokens: LocalTokens,
    enough: Arc<AtomicBool>,
}

impl Keeper {
    /// A user who notes the local tokens, and ends when there is enough.
    pub(super) fn new(
        asker: Asker,
        authoritative: usize,
        local_tokens: &LocalTokens,
        enough: &Arc<AtomicBool>,
    ) -> Self {
        Self { asker, authoritative, local_tokens: Arc::clone(local_tokens), enough: Arc::clone(enough) }
    }

    /// Bootstraps the ACLs, and writes until there is enough.
    pub(super) async fn run(mut self) {
        while !self.bootstrap().await {
            self.asker.pause(1000).await;
        }
        while !self.enough.load(Ordering::Relaxed) {
            self.asker.pause(5000).await;
            match self.asker.rng.random_range(0..26) {
                0..5 => self.write_policy().await,
                5..7 => self.delete("policy", "/v1/acl/policy/p").await,
                7..10 => self.write_namespace().await,
                10 => self.delete("namespace", "/v1/namespace/n").await,
                11..13 => self.write_quota().await,
                13 => self.delete("quota", "/v1/quota/q").await,
                14..16 => self.write_role().await,
                16 => self.delete_listed("roles", "/v1/acl/roles", "/v1/acl/role", "ID").await,
                17..20 => self.write_token().await,
                20 => self.delete_listed("tokens", "/v1/acl/tokens", "/v1/acl/token", "AccessorID").await,
                21..23 => self.write_local_token().await,
                23 => self.write_pool().await,
                24 => self.delete("node pool", "/v1/node/pool/l").await,
                _ => self.write_auth_method().await,
            }
        }
    }

    async fn bootstrap(&mut self) -> bool {
        let place = self.asker.any_region();
        let request = ("bootstrap ACLs", "PUT", "/v1/acl/bootstrap");
        let answer = self.asker.ask(place, request, &json!({ "BootstrapSecret": MANAGEMENT })).await;
        answer.is_some_and(|(status, _)| status == 200 || status == 400)
    }

    /// A number that is part of names, or of contents.
    fn number(&mut self) -> u32 {
        self.asker.rng.random_range(0..NAMES)
    }

    /// Writes an object. The tables show what came of it.
    async fn write(&mut self, what: &str, path: &str, body: &Value) {
        let place = self.asker.any_region();
        self.asker.ask(place, (what, "PUT", path), body).await;
    }

    async fn write_policy(&mut self) {
        let (name, right) =
            (format!("p{}", self.number()), if self.asker.rng.random_bool(0.5) { "read" } else { "write" });
        let body = json!({
            "Name": name,
            "Description": self.asker.rng.random_range(0..100).to_string(),
            "Rules": format!("namespace \"default\" {{ policy = \"{right}\" }}"),
        });
        self.write(&format!("write policy {name}"), &format!("/v1/acl/policy/{name}"), &body).await;
    }

    async fn write_namespace(&mut self) {
        let name = format!("n{}", self.number());
        let quota = if self.asker.rng.random_bool(0.4) { format!("q{}", self.number()) } else { String::new() };
        let description = self.asker.rng.random_range(0..100).to_string();
        let body = json!({ "Name": name, "Description": description, "Quota": quota });
        self.write(&format!("write namespace {name} of quota {quota:?}"), "/v1/namespace", &body).await;
    }

    async fn write_quota(&mut self) {
        let name = format!("q{}", self.number());
        let limits = json!([{ "Region": "east", "RegionLimit": { "CPU": self.asker.rng.random_range(1..2000) } }]);
        let body = json!({ "Name": name, "Description": "", "Limits": limits });
        self.write(&format!("write quota {name}"), "/v1/quota", &body).await;
    }

    async fn write_pool(&mut self) {
        let name = format!("l{}", self.number());
        let body = json!({ "Name": name, "Description": self.asker.rng.random_range(0..100).to_string() });
        self.write(&format!("write node pool {name}"), "/v1/node/pools", &body).await;
    }

    async fn write_role(&mut self) {
        let (name, policy) = (format!("r{}", self.number()), format!("p{}", self.number()));
        let body = json!({ "Name": name, "Policies": [{ "Name": policy }] });
        self.write(&format!("write role {name} of {policy}"), "/v1/acl/role", &body).await;
    }

    async fn write_auth_method(&mut self) {
        let name = format!("m{}", self.number());
        let method = json!({
            "Name": name,
            "Type": "JWT",
            "TokenLocality": "local",
            "MaxTokenTTL": format!("{}h", self.asker.rng.random_range(1..20)),
            "Default": self.asker.rng.random_bool(0.3),
            "Config": { "JWKSURL": "http://127.0.0.1:1", "BoundAudiences": ["a"] },
        });
        self.write(&format!("write auth method {name}"), "/v1/acl/auth-method", &method).await;
        let rule = json!({ "AuthMethod": name, "BindType": "policy", "BindName": format!("p{}", self.number()) });
        self.write(&format!("write binding rule of {name}"), "/v1/acl/binding-rule", &rule).await;
        if self.asker.rng.random_bool(0.3) {
            self.delete("auth method", "/v1/acl/auth-method/m").await;
        }
    }

    async fn write_token(&mut self) {
        let body = self.token(true);
        self.write("make a global token", "/v1/acl/token", &body).await;
    }

    fn token(&mut self, global: bool) -> Value {
        json!({ "Name": TOKEN, "Type": "client", "Policies": [format!("p{}", self.number())], "Global": global })
    }

    async fn write_local_token(&mut self) {
        let (place, body) = (self.asker.any_region(), self.token(false));
        let answer = self.asker.ask(place, ("make a local token", "PUT", "/v1/acl/token"), &body).await;
        let made = answer.filter(|(status, _)| *status == 200);
        let made: Option<Value> = made.and_then(|(_, body)| serde_json::from_slice(&body).ok());
        if let Some(accessor) = made.as_ref().and_then(|made| made["AccessorID"].as_str()) {
            self.local_tokens.lock()[place].insert(accessor.to_owned());
        }
    }

    async fn delete(&mut self, kind: &str, path: &str) {
        let (place, number) = (self.asker.any_region(), self.number());
        let path = format!("{path}{number}");
        self.asker.ask(place, (&format!("delete {kind} {number}"), "DELETE", &path), &Value::Null).await;
    }

    /// Deletes one of the listed objects of the authoritative region that this user has made.
    async fn delete_listed(&mut self, kind: &str, list: &str, path: &str, key: &str) {
        let answer = self.asker.ask(self.authoritative, (&format!("list {kind}"), "GET", list), &Value::Null).await;
        let rows: Vec<Value> = answer.and_then(|(_, body)| serde_json::from_slice(&body).ok()).unwrap_or_default();
        let may_go = |row: &&Value| kind != "tokens" || row["Global"] == true && row["Name"] == TOKEN;
        let rows: Vec<&Value> = rows.iter().filter(may_go).collect();
        if rows.is_empty() {
            return;
        }
        let row = rows[self.asker.rng.random_range(0..rows.len())];
        let Some(id) = row[key].as_str() else { return };
        let place = self.asker.any_region();
        let what = format!("delete one of the {kind}");
        self.asker.ask(place, (&what, "DELETE", &format!("{path}/{id}")), &Value::Null).await;
    }
}
