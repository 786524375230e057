//! Vault over HTTP: tokens for tasks, and the renewal of the server's own token.

use std::time::Duration;

use anyhow::Context;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use songline_model::{Secret, with_sources};
use songline_server::vault::{Created, TaskToken, Vault, VaultError};

use crate::config::VaultConfig;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Time within which a node has to take a token out of its wrapping.
const WRAP_TTL: &str = "5m";
/// Delay after a renewal that failed.
const RENEW_RETRY: Duration = Duration::from_secs(30);
/// Longest time between renewals.
const RENEW_MAX: Duration = Duration::from_secs(3600);
/// Largest text of a refusal that is kept, in bytes.
const REFUSAL_BYTES_MAX: usize = 512;

/// Vault at an address. Clones share connections.
#[derive(Debug, Clone)]
pub(crate) struct HttpVault {
    http: Client,
    config: VaultConfig,
}

impl HttpVault {
    /// Reads the files of certificates. Nothing is connected yet.
    pub fn new(config: &VaultConfig) -> anyhow::Result<Self> {
        let http = config.trust.http_client().context("vault")?.no_proxy().timeout(TIMEOUT);
        let http = http.redirect(reqwest::redirect::Policy::none()).build().context("vault")?;
        let address = config.address.trim_end_matches('/').to_owned();
        Ok(Self { http, config: VaultConfig { address, ..config.clone() } })
    }

    async fn create(&self, wanted: TaskToken) -> Result<Secret, VaultError> {
        let mut body = json!({
            "display_name": wanted.display_name,
            "policies": wanted.policies,
            "meta": wanted.meta,
            "renewable": true,
        });
        let role = &self.config.create_from_role;
        let path =
            if role.is_empty() { "/v1/auth/token/create".to_owned() } else { format!("/v1/auth/token/create/{role}") };
        if role.is_empty() {
            // With a role, the role says how long its tokens live.
            body["period"] = self.config.task_token_ttl.as_str().into();
        }
        let namespace = if wanted.namespace.is_empty() { &self.config.namespace } else { wanted.namespace.as_str() };
        let request = self.post(&path, namespace).header("X-Vault-Wrap-TTL", WRAP_TTL).body(body.to_string());
        let answer = self.answer(request.send().await).await?;
        match answer.pointer("/wrap_info/token").and_then(Value::as_str) {
            Some(token) => Ok(Secret::new(token)),
            None => Err(self.away("the answer has no wrapped token".to_owned())),
        }
    }

    fn post(&self, path: &str, namespace: &str) -> RequestBuilder {
        let request = self.http.post(format!("{}{path}", self.config.address));
        let request = request.header("X-Vault-Token", self.config.token.reveal()).header("X-Vault-Request", "true");
        let request = request.header("Content-Type", "application/json");
        if namespace.is_empty() { request } else { request.header("X-Vault-Namespace", namespace) }
    }

    async fn answer(&self, sent: Result<Response, reqwest::Error>) -> Result<Value, VaultError> {
        let away = |error: reqwest::Error| self.away(with_sources(&error.without_url()));
        let response = sent.map_err(away)?;
        let status = response.status();
        let body = response.bytes().await.map_err(away)?;
        let text = || String::from_utf8_lossy(&body[..body.len().min(REFUSAL_BYTES_MAX)]).trim().to_owned();
        if status.is_server_error() || status.as_u16() == 429 {
            return Err(self.away(format!("status {}: {}", status.as_u16(), text())));
        }
        if !status.is_success() {
            return Err(VaultError::Refused { status: status.as_u16(), text: text() });
        }
        serde_json::from_slice(&body).map_err(|error| self.away(error.to_string()))
    }

    fn away(&self, reason: String) -> VaultError {
        VaultError::Away { address: self.config.address.clone(), reason }
    }

    /// Renews the server's own token at half of its time, until the future is dropped. A token without an end, such as
    /// a root token, is looked at again each hour.
    pub async fn keep_token(self) {
        loop {
            let renewed = self.post("/v1/auth/token/renew-self", &self.config.namespace).body("{}").send().await;
            let wait = match self.answer(renewed).await {
                Ok(answer) => {
                    let ttl = answer.pointer("/auth/lease_duration").and_then(Value::as_u64).unwrap_or(0);
                    if ttl == 0 { RENEW_MAX } else { Duration::from_secs((ttl / 2).max(1)).min(RENEW_MAX) }
                }
                // Vault says so of tokens that never end.
                Err(VaultError::Refused { status: 400, .. }) => RENEW_MAX,
                Err(error) => {
                    tracing::warn!(%error, "renewing the server's token of Vault");
                    RENEW_RETRY
                }
            };
            tokio::time::sleep(wait).await;
        }
    }
}

impl Vault for HttpVault {
    fn create_token(&self, wanted: TaskToken) -> Created<'_> {
        Box::pin(self.create(wanted))
    }
}

#[cfg(test)]
mod tests;
