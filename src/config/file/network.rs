//! Keys for addresses, certificates, connection limits and servers to join.

use anyhow::{Context, bail};
use serde_json::Value;
use songline_server::config::JoinConfig;

use super::{Seen, count, each, flag, number, span, text};
use crate::config::AgentConfig;
use crate::config::network::{Addresses, TlsConfig, TlsVersion};

pub(super) fn ports(value: &Value, config: &mut AgentConfig) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        let port = u16::try_from(number(key, value)?).with_context(|| format!("ports.{key}"))?;
        match key {
            // Port 0 is valid here and takes any free port.
            "http" => config.http_port = port,
            "rpc" => config.rpc_port = port,
            "serf" => config.serf_port = port,
            other => bail!("ports unexpected keys {other}"),
        }
        Ok(())
    })
}

/// `addresses` and `advertise`, which have the same keys.
pub(super) fn addresses(block: &str, value: &Value, told: &mut Addresses) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        let address = text(key, value)?;
        if address.is_empty() {
            return Ok(());
        }
        if address.contains("{{") {
            bail!("{block}.{key}: templates such as {address:?} are not offered: name the address");
        }
        match key {
            "http" => told.http = Some(address),
            "rpc" => told.rpc = Some(address),
            "serf" => told.serf = Some(address),
            other => bail!("{block} unexpected keys {other}"),
        }
        Ok(())
    })
}

pub(super) fn tls(value: &Value, told: &mut TlsConfig, seen: &mut Seen) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        let path = |value: &Value| anyhow::Ok(Some(text(key, value)?).filter(|path| !path.is_empty()).map(Into::into));
        match key {
            "http" => told.http = flag(key, value)?,
            "rpc" => told.rpc = flag(key, value)?,
            "verify_server_hostname" => told.verify_server_hostname = flag(key, value)?,
            "verify_https_client" => told.verify_https_client = flag(key, value)?,
            "rpc_upgrade_mode" => told.rpc_upgrade_mode = flag(key, value)?,
            "ca_file" => told.ca_file = path(value)?,
            "cert_file" => told.cert_file = path(value)?,
            "key_file" => told.key_file = path(value)?,
            "tls_min_version" => {
                told.min_version = match text(key, value)?.as_str() {
                    "" | "tls12" => TlsVersion::Tls12,
                    "tls13" => TlsVersion::Tls13,
                    other => bail!("tls.tls_min_version: {other:?} is not offered: tls12 or tls13"),
                }
            }
            // All cipher suites that are offered are safe; the peer's preference among them is followed.
            "tls_cipher_suites" | "tls_prefer_server_cipher_suites" => {
                seen.without_effect(&format!("tls.{key}"), value)
            }
            other => bail!("tls unexpected keys {other}"),
        }
        Ok(())
    })
}

pub(super) fn limits(value: &Value, config: &mut AgentConfig) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        match key {
            "http_max_conns_per_client" => config.http_max_conns_per_client = count(key, value)?,
            "https_handshake_timeout" => config.https_handshake_timeout = span("limits", key, value)?,
            "rpc_handshake_timeout" => config.rpc_handshake_timeout = span("limits", key, value)?,
            "rpc_max_conns_per_client" => config.rpc_max_conns_per_client = count(key, value)?,
            other => bail!("limits unexpected keys {other}"),
        }
        Ok(())
    })
}

/// `server_join`.
pub(super) fn join_block(block: &str, value: &Value, told: &mut JoinConfig, seen: &mut Seen) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        if !join_key(block, key, value, told, seen)? {
            bail!("{block} unexpected keys {key}");
        }
        Ok(())
    })
}

/// Applies a key of `server_join` that was allowed in `server` before that block existed. Returns whether `key` is
/// one of them.
pub(super) fn join_key(
    block: &str,
    key: &str,
    value: &Value,
    told: &mut JoinConfig,
    seen: &mut Seen,
) -> anyhow::Result<bool> {
    match key {
        "retry_join" => told.retry_join.extend(texts(key, value)?),
        "start_join" => told.start_join.extend(texts(key, value)?),
        // Servers are tried every two seconds, without an end.
        "retry_max" => {
            count(key, value)?;
            seen.without_effect(&format!("{block}.retry_max"), value);
        }
        "retry_interval" => {
            span(block, key, value)?;
            seen.without_effect(&format!("{block}.retry_interval"), value);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A list of texts; a single text is a list of one.
pub(super) fn texts(key: &str, value: &Value) -> anyhow::Result<Vec<String>> {
    match value {
        Value::Array(items) => items.iter().map(|item| text(key, item)).collect(),
        Value::Null => Ok(Vec::new()),
        one => Ok(vec![text(key, one)?]),
    }
}
