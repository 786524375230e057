//! The block `vault`.

use anyhow::bail;
use serde_json::Value;
use songline_model::Secret;

use super::certificates::Certificates;
use super::{Seen, each, flag, is_empty, set, span, text};
use crate::config::VaultConfig;

/// Prefix of keys in messages.
const BLOCK: &str = "vault";

pub(super) fn block(value: &Value, told: &mut VaultConfig, seen: &mut Seen) -> anyhow::Result<()> {
    let mut certificates = Certificates::default();
    each(value, &mut |key, value| {
        match key {
            "enabled" => told.enabled = flag(key, value)?,
            "address" => set(&mut told.address, text(key, value)?),
            "token" if !is_empty(value) => told.token = Secret::new(text(key, value)?),
            "token" => {}
            "create_from_role" => set(&mut told.create_from_role, text(key, value)?),
            "namespace" => set(&mut told.namespace, text(key, value)?),
            "task_token_ttl" if !is_empty(value) => {
                span(BLOCK, key, value)?;
                told.task_token_ttl = text(key, value)?;
            }
            "task_token_ttl" => {}
            // Jobs' own tokens are not checked, so a setting that asks for it must not be ignored.
            "allow_unauthenticated" if !flag(key, value)? => {
                bail!("{BLOCK}.allow_unauthenticated: only true is offered: tokens of jobs are not checked with Vault")
            }
            "allow_unauthenticated" => {}
            "tls_skip_verify" => told.trust.verify = !flag(key, value)?,
            "ca_file" | "cert_file" | "key_file" => certificates.take(key, value, &mut told.trust)?,
            "ca_path" | "tls_server_name" => seen.without_effect(&format!("{BLOCK}.{key}"), value),
            other => bail!("{BLOCK} unexpected keys {other}"),
        }
        Ok(())
    })?;
    certificates.end(BLOCK, &mut told.trust)?;
    if !(told.address.starts_with("http://") || told.address.starts_with("https://")) {
        bail!("{BLOCK}.address: {:?} is not an URL with http or https", told.address);
    }
    Ok(())
}
