//! The block `consul`.

use anyhow::bail;
use serde_json::Value;
use songline_client::ConsulSettings;
use songline_model::{Secret, Str};

use super::certificates::Certificates;
use super::{Seen, each, flag, is_empty, span, text};

/// Prefix of keys in messages.
const BLOCK: &str = "consul";

pub(super) fn block(value: &Value, told: &mut ConsulSettings, seen: &mut Seen) -> anyhow::Result<()> {
    let mut certificates = Certificates::default();
    each(value, &mut |key, value| {
        match key {
            "address" if !is_empty(value) => told.address = address(text(key, value)?)?,
            "token" if !is_empty(value) => told.token = Secret::new(text(key, value)?),
            "auth" if !is_empty(value) => told.auth = auth(&text(key, value)?)?,
            "address" | "token" | "auth" => {}
            "ssl" => told.ssl = flag(key, value)?,
            "verify_ssl" => told.trust.verify = flag(key, value)?,
            "ca_file" | "cert_file" | "key_file" => certificates.take(key, value, &mut told.trust)?,
            "timeout" => told.timeout = span(BLOCK, key, value)?,
            "grpc_address"
            | "grpc_ca_file"
            | "share_ssl"
            | "namespace"
            | "allow_unauthenticated"
            | "auto_advertise"
            | "server_auto_join"
            | "client_auto_join"
            | "checks_use_advertise"
            | "server_service_name"
            | "client_service_name"
            | "server_http_check_name"
            | "server_rpc_check_name"
            | "server_serf_check_name"
            | "client_http_check_name"
            | "tags" => seen.without_effect(&format!("{BLOCK}.{key}"), value),
            other => bail!("{BLOCK} unexpected keys {other}"),
        }
        Ok(())
    })?;
    certificates.end(BLOCK, &mut told.trust)
}

fn address(text: String) -> anyhow::Result<Str> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        None | Some("http" | "https") => Ok(text.into()),
        Some(_) => bail!("{BLOCK}.address: {text:?} is not host:port, nor an URL with http or https"),
    }
}

/// `user:password`.
fn auth(text: &str) -> anyhow::Result<Secret> {
    // The value is a secret, so the message does not show it.
    if !text.contains(':') {
        bail!("{BLOCK}.auth: expected user:password");
    }
    Ok(Secret::new(text))
}
