//! The block `client.template`.

use anyhow::{Context, bail};
use serde_json::Value;
use songline_client::{Retry, TemplateSettings};
use songline_model::WaitConfig;

use super::{Seen, each, flag, is_empty, network, number, span};

/// Prefix of keys in messages.
const BLOCK: &str = "client.template";

pub(super) fn block(value: &Value, told: &mut TemplateSettings, seen: &mut Seen) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        match key {
            "function_denylist" | "function_blacklist" => {
                told.denied = network::texts(key, value)?.into_iter().collect();
            }
            // Paths are confined in any case: the agent writes with the rights of root.
            "disable_file_sandbox" if flag(key, value)? => {
                bail!("{BLOCK}.{key}: files of templates are always confined to the allocation's directory")
            }
            "disable_file_sandbox" => {}
            "block_query_wait" => told.block_query_wait = span(BLOCK, key, value)?,
            "wait" => told.wait = wait("client.template.wait", value)?,
            "wait_bounds" => told.wait_bounds = wait("client.template.wait_bounds", value)?,
            "nomad_retry" => told.nomad_retry = retry("client.template.nomad_retry", value, told.nomad_retry)?,
            "consul_retry" => told.consul_retry = retry("client.template.consul_retry", value, told.consul_retry)?,
            "vault_retry" => told.vault_retry = retry("client.template.vault_retry", value, told.vault_retry)?,
            "max_stale" => seen.without_effect(&format!("{BLOCK}.{key}"), value),
            other => bail!("{BLOCK} unexpected keys {other}"),
        }
        Ok(())
    })
}

fn wait(block: &str, value: &Value) -> anyhow::Result<WaitConfig> {
    let mut wait = WaitConfig::default();
    each(value, &mut |key, value| {
        match key {
            "min" => wait.min = Some(span(block, key, value)?),
            "max" => wait.max = Some(span(block, key, value)?),
            other => bail!("{block} unexpected keys {other}"),
        }
        Ok(())
    })?;
    if let (Some(min), Some(max)) = (wait.min, wait.max)
        && min > max
    {
        bail!("{block}: min {min} is greater than max {max}");
    }
    Ok(wait)
}

fn retry(block: &str, value: &Value, mut retry: Retry) -> anyhow::Result<Retry> {
    each(value, &mut |key, value| {
        match key {
            "attempts" if is_empty(value) => retry.attempts = 0,
            "attempts" => {
                retry.attempts = u32::try_from(number(key, value)?).with_context(|| format!("{block}.{key}"))?;
            }
            "backoff" => retry.backoff = span(block, key, value)?,
            "max_backoff" => retry.backoff_max = span(block, key, value)?,
            other => bail!("{block} unexpected keys {other}"),
        }
        Ok(())
    })?;
    Ok(retry)
}
