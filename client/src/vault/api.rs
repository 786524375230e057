//! Requests to the HTTP API of Vault.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Method};
use serde::Deserialize;
use serde_json::{Value, json};
use songline_model::{Secret, Str, with_sources};

use super::lease::Lease;
use super::{Account, VaultSettings};
use crate::escape;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Largest text of a refusal that is kept, in bytes.
const REFUSAL_BYTES_MAX: usize = 512;
/// Number of redirections of one request that are followed: from a member that is on standby to the active one.
const REDIRECTIONS_MAX: usize = 2;

/// Reason why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// Vault gave no answer, is sealed, or has no active member: a later attempt may succeed.
    #[error("Vault at {address}: {reason}")]
    Away { address: Str, reason: String },
    /// Vault refused the request.
    #[error("Vault: {path}: status {status}: {text}")]
    Refused { path: String, status: u16, text: String },
}

/// A secret, or another answer of Vault.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Secrets {
    pub request_id: String,
    pub lease_id: String,
    /// In seconds.
    pub lease_duration: u64,
    pub renewable: bool,
    pub data: Option<serde_json::Map<String, Value>>,
    auth: Option<Auth>,
}

/// A token that an answer holds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Auth {
    client_token: Secret,
    lease_duration: u64,
    renewable: bool,
}

/// State of Vault, which it tells everybody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct SealStatus {
    pub version: String,
    pub cluster_name: String,
    pub cluster_id: String,
}

/// A mount of the engine `kv`, as Vault tells callers that may use it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Mount {
    path: String,
    /// Whether the engine keeps versions, which moves the data below `data/` and the lists below `metadata/`.
    versioned: bool,
}

/// Vault at an address. Clones share connections.
#[derive(Debug, Clone)]
pub(crate) struct Vault {
    http: Client,
    address: Str,
}

impl Vault {
    /// Reads the files of certificates; nothing is connected yet. The error says which setting is wrong.
    pub fn new(settings: &VaultSettings) -> Result<Self, String> {
        let http = settings.trust.http_client().map_err(|error| format!("vault: {}", with_sources(&error)))?;
        let http = http.no_proxy().timeout(TIMEOUT).redirect(Policy::custom(redirected)).build();
        let http = http.map_err(|error| format!("vault: {}", with_sources(&error)))?;
        Ok(Self { http, address: settings.address.trim_end_matches('/').into() })
    }

    /// The state of Vault.
    pub(super) async fn seal_status(&self) -> Result<SealStatus, CallError> {
        let body = self.ask(Method::GET, "sys/seal-status", None, None).await?;
        serde_json::from_slice(&body).map_err(|error| self.away(error.to_string()))
    }

    /// Takes the token out of a wrapping, which works once.
    pub(super) async fn unwrap(&self, wrapped: &Account) -> Result<(Secret, Lease), CallError> {
        let answer = self.write(wrapped, "sys/wrapping/unwrap", &json!({})).await?;
        let auth = answer.auth.filter(|auth| !auth.client_token.is_empty());
        let auth = auth.ok_or_else(|| self.away("the wrapping has no token".to_owned()))?;
        Ok((auth.client_token, Lease::new(auth.lease_duration, auth.renewable)))
    }

    /// Renews a token. Returns the time that it has now.
    pub(super) async fn renew(&self, account: &Account) -> Result<Lease, CallError> {
        let auth = self.write(account, "auth/token/renew-self", &json!({})).await?.auth.unwrap_or_default();
        Ok(Lease::new(auth.lease_duration, auth.renewable))
    }

    /// The time that a token still has.
    pub(super) async fn time_left(&self, account: &Account) -> Result<Lease, CallError> {
        let data = self.get(account, "auth/token/lookup-self").await?.data.unwrap_or_default();
        let number = |key: &str| data.get(key).and_then(Value::as_u64).unwrap_or_default();
        let renewable = data.get("renewable").and_then(Value::as_bool).unwrap_or_default();
        Ok(Lease::new(number("ttl"), renewable))
    }

    /// Revokes a token, and all that was made with it.
    pub(super) async fn revoke(&self, account: &Account) -> Result<(), CallError> {
        self.write(account, "auth/token/revoke-self", &json!({})).await.map(drop)
    }

    /// Reads a secret at a path, which may have a query such as `?version=2`. `None`: there is none. The path within a
    /// versioned engine may lack `data/`.
    pub async fn read(&self, account: &Account, path: &str) -> Result<Option<Secrets>, CallError> {
        let (bare, query) = path.split_once('?').map_or((path, None), |(bare, query)| (bare, Some(query)));
        let mount = self.mount(account, bare).await?;
        let place = mount.versioned.then(|| within(bare, &mount.path, "data")).flatten();
        let place = place.unwrap_or_else(|| bare.to_owned());
        let found = match query {
            Some(query) => self.get(account, &format!("{}?{query}", escape::path(&place))).await,
            None => self.get(account, &escape::path(&place)).await,
        };
        // A version that was deleted is answered with its metadata and without data.
        let gone = |found: &Secrets| {
            mount.versioned && matches!(&found.data, Some(data) if data.get("data") == Some(&Value::Null))
        };
        present(found).map(|found| found.filter(|found| found.data.is_some() && !gone(found)))
    }

    /// Names below a path; none if there is no such path.
    pub async fn list(&self, account: &Account, path: &str) -> Result<Vec<String>, CallError> {
        let mount = self.mount(account, path).await?;
        let place = mount.versioned.then(|| within(path, &mount.path, "metadata")).flatten();
        let place = escape::path(place.as_deref().unwrap_or(path));
        let found = present(self.get(account, &format!("{place}?list=true")).await)?;
        let keys = found.and_then(|found| found.data?.remove("keys"));
        let keys = keys.as_ref().and_then(Value::as_array).into_iter().flatten();
        Ok(keys.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Writes, and returns what the answer holds: engines issue certificates so. `None`: it holds nothing.
    pub async fn issue(
        &self,
        account: &Account,
        path: &str,
        data: &BTreeMap<String, String>,
    ) -> Result<Option<Secrets>, CallError> {
        let found = self.write(account, &escape::path(path), &json!(data)).await?;
        Ok(Some(found).filter(|found| found.data.is_some()))
    }

    /// Renews the lease of a secret.
    pub async fn renew_lease(&self, account: &Account, lease_id: &str) -> Result<Lease, CallError> {
        let renewed = self.write(account, "sys/leases/renew", &json!({ "lease_id": lease_id })).await?;
        Ok(Lease::new(renewed.lease_duration, renewed.renewable))
    }

    /// The mount that a path is in. A caller that may not see it, or a Vault that does not tell, has the path taken as it
    /// is.
    async fn mount(&self, account: &Account, path: &str) -> Result<Mount, CallError> {
        let told = match self.get(account, &format!("sys/internal/ui/mounts/{}", escape::path(path))).await {
            Ok(told) => told.data.map(Value::Object).unwrap_or_default(),
            Err(CallError::Refused { .. }) => return Ok(Mount::default()),
            Err(error) => return Err(error),
        };
        let versioned = told.pointer("/options/version").and_then(Value::as_str) == Some("2");
        let path = told.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Mount { versioned: versioned && !path.is_empty(), path })
    }

    async fn get(&self, account: &Account, path: &str) -> Result<Secrets, CallError> {
        let body = self.ask(Method::GET, path, Some(account), None).await?;
        self.parsed(&body)
    }

    async fn write(&self, account: &Account, path: &str, body: &Value) -> Result<Secrets, CallError> {
        let body = self.ask(Method::PUT, path, Some(account), Some(body)).await?;
        if body.is_empty() { Ok(Secrets::default()) } else { self.parsed(&body) }
    }

    fn parsed(&self, body: &[u8]) -> Result<Secrets, CallError> {
        // The error of the parser could quote a secret.
        serde_json::from_slice(body).map_err(|_| self.away("the answer is not what Vault answers".to_owned()))
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        account: Option<&Account>,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, CallError> {
        let failed = |error: reqwest::Error| self.away(with_sources(&error.without_url()));
        let mut request = self.http.request(method, format!("{}/v1/{path}", self.address));
        request = request.header("X-Vault-Request", "true");
        if let Some(account) = account {
            request = request.header("X-Vault-Token", account.token.reveal());
            if !account.namespace.is_empty() {
                request = request.header("X-Vault-Namespace", account.namespace.as_str());
            }
        }
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(failed)?;
        if status.is_success() {
            return Ok(body.to_vec());
        }
        let text = refusal(&body);
        Err(match status.as_u16() {
            // A redirection that was not followed, a member that is behind or on standby, too many requests, a failure.
            status @ (300..=399 | 412 | 429 | 472 | 473 | 500..) => self.away(format!("status {status}: {text}")),
            status => CallError::Refused { path: path.to_owned(), status, text },
        })
    }

    fn away(&self, reason: String) -> CallError {
        CallError::Away { address: self.address.clone(), reason }
    }
}

/// Decides on a redirection: the token must not leave over a less safe connection.
fn redirected(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let scheme = attempt.previous().first().map(|first| first.scheme().to_owned());
    let same = scheme.as_deref() == Some(attempt.url().scheme());
    if same && attempt.previous().len() <= REDIRECTIONS_MAX { attempt.follow() } else { attempt.stop() }
}

/// Messages of a refusal.
fn refusal(body: &[u8]) -> String {
    let errors = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let errors = errors.get("errors").and_then(Value::as_array).into_iter().flatten();
    let errors: Vec<&str> = errors.filter_map(Value::as_str).map(str::trim).collect();
    if !errors.is_empty() {
        return errors.join(", ");
    }
    String::from_utf8_lossy(&body[..body.len().min(REFUSAL_BYTES_MAX)]).trim().to_owned()
}

/// An answer, if it is not that there is nothing.
fn present(found: Result<Secrets, CallError>) -> Result<Option<Secrets>, CallError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(CallError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The place of a path in a versioned mount, below `part` unless the path says `data/` or `metadata/` itself. `None`: the
/// path is not in that mount.
fn within(path: &str, mount: &str, part: &str) -> Option<String> {
    let mount = mount.trim_end_matches('/');
    let rest = path.strip_prefix(mount)?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
    let itself = |name: &str| rest == name || rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
    match (part, rest) {
        _ if itself("metadata") || (part == "data" && itself("data")) => Some(path.to_owned()),
        (_, "") => Some(format!("{mount}/{part}")),
        // Lists of names are with the metadata, also where a template names the data.
        ("metadata", _) if itself("data") => Some(format!("{mount}/metadata{}", &rest["data".len()..])),
        _ => Some(format!("{mount}/{part}/{rest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_in_a_versioned_engine_leads_to_the_data_or_to_the_names() {
        for (path, data, metadata) in [
            ("secret/app/db", "secret/data/app/db", "secret/metadata/app/db"),
            ("secret/data/app/db", "secret/data/app/db", "secret/metadata/app/db"),
            ("secret/metadata/app", "secret/metadata/app", "secret/metadata/app"),
            ("secret/database", "secret/data/database", "secret/metadata/database"),
            ("secret", "secret/data", "secret/metadata"),
        ] {
            let of = |part: &str| within(path, "secret/", part).expect("is in the mount");
            assert_eq!((of("data").as_str(), of("metadata").as_str()), (data, metadata), "{path}");
        }
        assert_eq!(within("secrets/app", "secret/", "data"), None);
    }

    #[test]
    fn refusal_shows_vaults_messages() {
        assert_eq!(
            refusal(br#"{"errors":["1 error occurred:\n\t* permission denied\n\n"]}"#),
            "1 error occurred:\n\t* permission denied"
        );
        assert_eq!(refusal(b"no JSON"), "no JSON");
    }
}
