//! Flags of `agent` for the blocks `consul` and `vault` of a configuration. The fields have the names of the keys.

use clap::Args;
use serde::Serialize;

/// Flags `-consul-..`.
#[derive(Args, Serialize)]
pub(super) struct Consul {
    /// Address of the Consul agent: `host:port`, or an URL.
    #[arg(id = "consul-address", long = "consul-address")]
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// `user:password` of HTTP basic authentication at Consul.
    #[arg(id = "consul-auth", long = "consul-auth", hide_env_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<String>,
    /// PEM file with the authorities of Consul's certificate.
    #[arg(id = "consul-ca-file", long = "consul-ca-file")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<String>,
    /// PEM file with the certificate that Consul is shown.
    #[arg(id = "consul-cert-file", long = "consul-cert-file")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cert_file: Option<String>,
    /// PEM file with the key of that certificate.
    #[arg(id = "consul-key-file", long = "consul-key-file")]
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<String>,
    /// Reach Consul over TLS.
    #[arg(id = "consul-ssl", long = "consul-ssl", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ssl: Option<bool>,
    /// Verify Consul's certificate.
    #[arg(id = "consul-verify-ssl", long = "consul-verify-ssl", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    verify_ssl: Option<bool>,
    /// Token of requests to Consul.
    #[arg(id = "consul-token", long = "consul-token", hide_env_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// Accepted and without effect: agents do not register themselves at Consul.
    #[arg(id = "consul-auto-advertise", long = "consul-auto-advertise", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_advertise: Option<bool>,
    /// Accepted and without effect, as `-consul-auto-advertise`.
    #[arg(id = "consul-checks-use-advertise", long = "consul-checks-use-advertise", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    checks_use_advertise: Option<bool>,
    /// Accepted and without effect: servers are not found by Consul.
    #[arg(id = "consul-client-auto-join", long = "consul-client-auto-join", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    client_auto_join: Option<bool>,
    /// Accepted and without effect, as `-consul-client-auto-join`.
    #[arg(id = "consul-server-auto-join", long = "consul-server-auto-join", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    server_auto_join: Option<bool>,
    /// Accepted and without effect, as `-consul-auto-advertise`.
    #[arg(id = "consul-client-service-name", long = "consul-client-service-name")]
    #[serde(skip_serializing_if = "Option::is_none")]
    client_service_name: Option<String>,
    /// Accepted and without effect, as `-consul-auto-advertise`.
    #[arg(id = "consul-server-service-name", long = "consul-server-service-name")]
    #[serde(skip_serializing_if = "Option::is_none")]
    server_service_name: Option<String>,
}

/// Flags `-vault-..`.
#[derive(Args, Serialize)]
pub(super) struct Vault {
    /// Jobs may use Vault.
    #[arg(id = "vault-enabled", long = "vault-enabled", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    /// URL of Vault.
    #[arg(id = "vault-address", long = "vault-address")]
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// The servers' own token, with which they create others.
    #[arg(id = "vault-token", long = "vault-token", hide_env_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// Role that tokens of tasks are created from.
    #[arg(id = "vault-create-from-role", long = "vault-create-from-role")]
    #[serde(skip_serializing_if = "Option::is_none")]
    create_from_role: Option<String>,
    /// Vault's namespace, for tasks that name none.
    #[arg(id = "vault-namespace", long = "vault-namespace")]
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// Jobs may name any policies.
    #[arg(id = "vault-allow-unauthenticated", long = "vault-allow-unauthenticated", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_unauthenticated: Option<bool>,
    /// PEM file with the authorities of Vault's certificate.
    #[arg(id = "vault-ca-file", long = "vault-ca-file")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<String>,
    /// Directory of PEM files with such authorities.
    #[arg(id = "vault-ca-path", long = "vault-ca-path")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_path: Option<String>,
    /// PEM file with the certificate that Vault is shown.
    #[arg(id = "vault-cert-file", long = "vault-cert-file")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cert_file: Option<String>,
    /// PEM file with the key of that certificate.
    #[arg(id = "vault-key-file", long = "vault-key-file")]
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<String>,
    /// Name that Vault's certificate has to have.
    #[arg(id = "vault-tls-server-name", long = "vault-tls-server-name")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<String>,
    /// Do not verify Vault's certificate.
    #[arg(id = "vault-tls-skip-verify", long = "vault-tls-skip-verify", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_skip_verify: Option<bool>,
}
