//! Configuration files in the reference's language, HCL or JSON: the keys and the setting that each one changes.
//!
//! A key that the reference does not know is an error that names the key. A key that has no effect here gives a
//! warning.

mod certificates;
mod checked;
mod client;
mod consul;
mod network;
mod overlay;
mod template;
#[cfg(test)]
mod tests;
mod ui;
mod vault;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value;
use songline_api::{CORE_SCHEDULER, SCHEDULERS};
use songline_model::{Dur, SchedulerAlgorithm, Secret, Str};
use songline_server::config::{EncryptKey, ServerConfig};

pub use checked::{Checked, Effect, check};

use super::AgentConfig;

/// Reads a file, or the `*.hcl` and `*.json` files of a directory in alphabetical order, and overlays them on `config`.
/// Returns warnings.
pub fn load(path: &Path, config: &mut AgentConfig) -> anyhow::Result<Vec<String>> {
    let mut warnings = Vec::new();
    for file in files(path)? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("Error loading {}", file.display()))?;
        let document = document(&text).map_err(|error| anyhow!("Error loading {}: {error}", file.display()))?;
        let found = apply(&document, config).map_err(|error| anyhow!("Error loading {}: {error:#}", file.display()))?;
        warnings.extend(found.into_iter().map(|warning| format!("{}: {warning}", file.display())));
    }
    Ok(warnings)
}

/// The file itself, or the `*.hcl` and `*.json` files of a directory in alphabetical order.
pub(crate) fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| format!("reading {}", path.display()))? {
        let file = entry?.path();
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let temporary = name.ends_with('~') || name.starts_with(".#") || name.starts_with('#') && name.ends_with('#');
        if file.is_file() && !temporary && (name.ends_with(".hcl") || name.ends_with(".json")) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn document(text: &str) -> anyhow::Result<Value> {
    if text.trim_start().starts_with('{') {
        return Ok(serde_json::from_str(text)?);
    }
    songline_lang::config::parse(text).map_err(|error| anyhow!("{error}"))
}

/// Applies a document. An empty value (false, 0, an empty text) does not replace an earlier one, except for the keys in
/// `overlay.rs`. An error is one line, also when the keys and values in it have line breaks.
pub fn apply(document: &Value, config: &mut AgentConfig) -> anyhow::Result<Vec<String>> {
    apply_seen(document, config).map(|seen| seen.warnings())
}

fn apply_seen(document: &Value, config: &mut AgentConfig) -> anyhow::Result<Seen> {
    let (told, empty) = overlay::parted(document);
    let mut next = config.clone();
    let applied = apply_each(&told, &mut next).and_then(|mut seen| {
        // Empty values change nothing. Unknown keys and wrong values among them are refused all the same.
        if let Some(empty) = &empty {
            seen.without_effect.extend(apply_each(empty, &mut next.clone())?.without_effect);
        }
        Ok(seen)
    });
    let seen = applied.map_err(|error| {
        let text = format!("{error:#}");
        if text.contains(char::is_control) { anyhow!(super::one_line(&text)) } else { error }
    })?;
    *config = next;
    Ok(seen)
}

/// A value that is neither a number nor a boolean where one is expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotOfType(String);

/// Whether the setting at a path is a number or a boolean: it refuses a text that is neither.
fn is_number_or_flag(path: &[String]) -> bool {
    let text = Value::from("neither");
    let document =
        path.iter().rev().fold(text, |value, key| Value::Object([(key.clone(), value)].into_iter().collect()));
    apply_each(&document, &mut AgentConfig::default()).is_err_and(|error| error.is::<NotOfType>())
}

fn apply_each(document: &Value, config: &mut AgentConfig) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    each(document, &mut |key, value| {
        match key {
            "region" => set(&mut config.region, text(key, value)?),
            "datacenter" => set(&mut config.datacenter, text(key, value)?),
            "name" => set(&mut config.name, text(key, value)?),
            "data_dir" => {
                let dir = text(key, value)?;
                if !dir.is_empty() {
                    config.data_dir = Some(dir.into());
                }
            }
            "bind_addr" => set(&mut config.bind_addr, text(key, value)?),
            "log_level" => set(&mut config.log_level, text(key, value)?),
            "log_json" => config.log_json |= flag(key, value)?,
            "enable_debug" => config.enable_debug |= flag(key, value)?,
            "http_api_response_headers" => each(value, &mut |name, value| {
                config.response_headers.insert(name.to_owned(), text(name, value)?);
                Ok(())
            })?,
            "ports" => network::ports(value, config)?,
            "addresses" => network::addresses(key, value, &mut config.addresses)?,
            "advertise" => network::addresses(key, value, &mut config.advertise)?,
            "tls" => network::tls(value, &mut config.tls, &mut seen)?,
            "leave_on_interrupt" => config.leave_on_interrupt = flag(key, value)?,
            "leave_on_terminate" => config.leave_on_terminate = flag(key, value)?,
            "server" => server(value, config, &mut seen)?,
            "client" => client::block(value, config, &mut seen)?,
            "plugin" => client::plugins(value, config, &mut seen)?,
            "acl" => acl(value, config, &mut seen)?,
            "telemetry" => telemetry(value, config, &mut seen)?,
            "limits" => network::limits(value, config)?,
            "ui" => ui::block(value, &mut config.ui)?,
            "consul" => consul::block(value, &mut config.consul, &mut seen)?,
            "vault" => vault::block(value, &mut config.vault, &mut seen)?,
            "autopilot"
            | "audit"
            | "sentinel"
            | "plugin_dir"
            | "log_file"
            | "log_include_location"
            | "log_rotate_duration"
            | "log_rotate_bytes"
            | "log_rotate_max_files"
            | "enable_syslog"
            | "syslog_facility"
            | "disable_update_check"
            | "disable_anonymous_signature" => {
                seen.without_effect(key, value);
            }
            other => bail!("unexpected keys {other}"),
        }
        Ok(())
    })?;
    Ok(seen)
}

/// Settings without effect that were read.
#[derive(Debug, Default)]
struct Seen {
    /// Blocks and key, joined by dots, and whether the value is empty.
    without_effect: Vec<(String, bool)>,
}

impl Seen {
    fn without_effect(&mut self, key: &str, value: &Value) {
        self.without_effect.push((key.to_owned(), is_empty(value)));
    }

    /// Warnings about all that are not empty.
    fn warnings(&self) -> Vec<String> {
        let told = self.without_effect.iter().filter(|(_, is_empty)| !is_empty);
        told.map(|(key, _)| format!("{key} is accepted and has no effect yet")).collect()
    }

    /// Whether the setting at a path, or a block that it is in, has no effect.
    fn is_without_effect(&self, path: &str) -> bool {
        let path = path.to_lowercase();
        let is_within = |key: &String| {
            path.strip_prefix(&key.to_lowercase()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.without_effect.iter().any(|(key, _)| is_within(key))
    }
}

fn server(value: &Value, config: &mut AgentConfig, seen: &mut Seen) -> anyhow::Result<()> {
    let mut told = config.server.clone().unwrap_or_else(|| std::mem::take(&mut config.not_enabled.server));
    let mut enabled = config.server.is_some();
    each(value, &mut |key, value| {
        match key {
            "enabled" => enabled |= flag(key, value)?,
            "num_schedulers" => told.num_schedulers = count(key, value)?,
            "enabled_schedulers" => told.enabled_schedulers = schedulers(value)?,
            "heartbeat_grace" => told.heartbeats.grace = span("server", key, value)?,
            "min_heartbeat_ttl" => told.heartbeats.min_ttl = span("server", key, value)?,
            "failover_heartbeat_ttl" => told.heartbeats.failover_ttl = span("server", key, value)?,
            "max_heartbeats_per_second" => {
                told.heartbeats.per_second_max = u32::try_from(number(key, value)?).unwrap_or(u32::MAX)
            }
            "node_gc_threshold" => told.gc.node = span("server", key, value)?,
            "job_gc_interval" => told.gc_interval = span("server", key, value)?,
            "job_gc_threshold" => told.gc.job = span("server", key, value)?,
            "eval_gc_threshold" => told.gc.eval = span("server", key, value)?,
            "batch_eval_gc_threshold" => told.gc.batch_eval = span("server", key, value)?,
            "acl_token_gc_threshold" => told.gc.acl_token = span("server", key, value)?,
            "deployment_gc_threshold" => told.gc.deployment = span("server", key, value)?,
            "csi_volume_claim_gc_interval" => told.csi_volume_gc_interval = span("server", key, value)?,
            "csi_volume_claim_gc_threshold" => told.gc.csi_volume = span("server", key, value)?,
            "csi_plugin_gc_threshold" => told.gc.csi_plugin = span("server", key, value)?,
            "root_key_gc_interval" => told.root_key_gc_interval = span("server", key, value)?,
            "root_key_gc_threshold" => told.root_keys.gc = span("server", key, value)?,
            "root_key_rotation_threshold" => told.root_keys.rotation = span("server", key, value)?,
            "enable_event_broker" => told.enable_event_broker = flag(key, value)?,
            "event_buffer_size" => told.event_buffer_size = count(key, value)?,
            "event_sink_dir" => {
                let dir = text(key, value)?;
                told.event_sink_dir = if dir.is_empty() { None } else { Some(dir.into()) };
            }
            "job_max_priority" => told.job_max_priority = number(key, value)?,
            "job_tracked_versions" => told.job_tracked_versions = count(key, value)? as u64,
            "job_max_source_size" => told.job_max_source_bytes = size(key, value)?,
            "log_retention_age" => told.log_retention_age = span("server", key, value)?,
            "log_retention_bytes" => told.log_retention_bytes = size(key, value)?,
            "default_scheduler_config" => scheduler(value, &mut told)?,
            "plan_rejection_tracker" => plan_rejections(value, &mut told)?,
            "bootstrap_expect" => told.bootstrap_expect = Some(count(key, value)?),
            "server_join" => network::join_block("server.server_join", value, &mut told.join, seen)?,
            "encrypt" => {
                let key = text(key, value)?;
                told.encrypt = if key.is_empty() { None } else { Some(EncryptKey::parse(&key)?) };
            }
            "allow_unauthenticated_peers" => told.allow_unauthenticated_peers = flag(key, value)?,
            "non_voting_server" => told.non_voting_server = flag(key, value)?,
            "authoritative_region" => {
                let region = text(key, value)?;
                if !region.is_empty() {
                    told.authoritative_region = Some(region);
                }
            }
            "rejoin_after_leave" => told.rejoin_after_leave = flag(key, value)?,
            "data_dir"
            | "protocol_version"
            | "raft_protocol"
            | "raft_multiplier"
            | "redundancy_zone"
            | "upgrade_version"
            | "license_path"
            | "deploy_query_rate_limit"
            | "raft_snapshot_threshold"
            | "raft_snapshot_interval"
            | "raft_trailing_logs"
            | "job_default_priority"
            | "search"
            | "raft_boltdb" => {
                seen.without_effect(&format!("server.{key}"), value);
            }
            other => {
                if !network::join_key("server", other, value, &mut told.join, seen)? {
                    bail!("server unexpected keys {other}");
                }
            }
        }
        Ok(())
    })?;
    if enabled {
        config.server = Some(told);
    } else {
        config.not_enabled.server = told;
    }
    Ok(())
}

/// Types of evaluations by name. The servers' own chores always belong to them.
fn schedulers(value: &Value) -> anyhow::Result<Vec<&'static str>> {
    let mut enabled = Vec::new();
    for name in network::texts("enabled_schedulers", value)? {
        let known = SCHEDULERS.into_iter().find(|known| *known == name);
        enabled.push(known.with_context(|| format!("server.enabled_schedulers: unknown scheduler {name:?}"))?);
    }
    if !enabled.contains(&CORE_SCHEDULER) {
        enabled.push(CORE_SCHEDULER);
    }
    Ok(enabled)
}

fn plan_rejections(value: &Value, told: &mut ServerConfig) -> anyhow::Result<()> {
    let limits = &mut told.plan_rejections;
    each(value, &mut |key, value| {
        match key {
            "enabled" => limits.enabled = flag(key, value)?,
            "node_threshold" => limits.node_threshold = u32::try_from(count(key, value)?).unwrap_or(u32::MAX),
            "node_window" => limits.node_window = span("server.plan_rejection_tracker", key, value)?,
            other => bail!("plan_rejection_tracker unexpected keys {other}"),
        }
        Ok(())
    })
}

fn scheduler(value: &Value, told: &mut ServerConfig) -> anyhow::Result<()> {
    let config = &mut told.default_scheduler_config;
    each(value, &mut |key, value| {
        match key {
            "scheduler_algorithm" => {
                let word = text(key, value)?;
                if !word.is_empty() {
                    config.scheduler_algorithm = SchedulerAlgorithm::from_word(&word)
                        .ok_or_else(|| anyhow!("invalid scheduler algorithm: {word}"))?;
                }
            }
            "memory_oversubscription_enabled" => config.memory_oversubscription_enabled = flag(key, value)?,
            "reject_job_registration" => config.reject_job_registration = flag(key, value)?,
            "pause_eval_broker" => config.pause_eval_broker = flag(key, value)?,
            "preemption_config" => {
                let preemption = &mut config.preemption_config;
                each(value, &mut |key, value| {
                    match key {
                        "system_scheduler_enabled" => preemption.system_scheduler_enabled = flag(key, value)?,
                        "sysbatch_scheduler_enabled" => preemption.sys_batch_scheduler_enabled = flag(key, value)?,
                        "batch_scheduler_enabled" => preemption.batch_scheduler_enabled = flag(key, value)?,
                        "service_scheduler_enabled" => preemption.service_scheduler_enabled = flag(key, value)?,
                        other => bail!("preemption_config unexpected keys {other}"),
                    }
                    Ok(())
                })?;
            }
            other => bail!("default_scheduler_config unexpected keys {other}"),
        }
        Ok(())
    })
}

fn acl(value: &Value, config: &mut AgentConfig, seen: &mut Seen) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        match key {
            "enabled" => config.acl.enabled = flag(key, value)?,
            "token_min_expiration_ttl" => config.acl.token_ttl.min = span("acl", key, value)?,
            "token_max_expiration_ttl" => config.acl.token_ttl.max = span("acl", key, value)?,
            "replication_token" => {
                let secret = text(key, value)?;
                if !secret.is_empty() {
                    config.replication_token = Secret::new(secret);
                }
            }
            // Tokens and policies are looked up in the state at every request: no cache could become stale.
            "token_ttl" | "policy_ttl" | "role_ttl" => {
                seen.without_effect(&format!("acl.{key}"), value);
            }
            other => bail!("acl unexpected keys {other}"),
        }
        Ok(())
    })
}

fn telemetry(value: &Value, config: &mut AgentConfig, seen: &mut Seen) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        match key {
            "prometheus_metrics" => config.prometheus_metrics |= flag(key, value)?,
            "disable_dispatched_job_summary_metrics" => config.dispatched_metrics &= !flag(key, value)?,
            "disable_rpc_rate_metrics_labels" => config.rpc_rate_labels &= !flag(key, value)?,
            "publish_allocation_metrics" => config.publish.allocs |= flag(key, value)?,
            "publish_node_metrics" => config.publish.node |= flag(key, value)?,
            "collection_interval" => {
                let interval = span("telemetry", key, value)?;
                ensure!(
                    interval > Dur::ZERO || is_empty(value),
                    "telemetry: collection_interval must be longer than 0"
                );
                config.publish.interval = interval;
            }
            "disable_hostname" | "use_node_name" | "filter_default" | "prefix_filter" | "statsite_address"
            | "statsd_address" | "datadog_address" | "datadog_tags" => {
                seen.without_effect(&format!("telemetry.{key}"), value);
            }
            other if other.starts_with("circonus_") => seen.without_effect(&format!("telemetry.{other}"), value),
            other => bail!("telemetry unexpected keys {other}"),
        }
        Ok(())
    })
}

/// Calls `then` for every member of a block. A block may be an object or a list of objects, and several blocks are
/// merged.
fn each(value: &Value, then: &mut dyn FnMut(&str, &Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
    each_named(value, &mut |key, value| then(&key.to_lowercase(), value))
}

/// Like [`each`], with the members' names as they are written: names of the user's own.
fn each_named(value: &Value, then: &mut dyn FnMut(&str, &Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
    match value {
        Value::Object(members) => members.iter().try_for_each(|(key, value)| then(key, value)),
        Value::Array(blocks) => blocks.iter().try_for_each(|block| each_named(block, then)),
        Value::Null => Ok(()),
        other => bail!("expected a block, got {other}"),
    }
}

fn pairs(value: &Value, then: &mut dyn FnMut(Str, Str)) -> anyhow::Result<()> {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                then(key.as_str().into(), text(key, value)?.into());
            }
            Ok(())
        }
        Value::Array(blocks) => blocks.iter().try_for_each(|block| pairs(block, then)),
        other => bail!("expected a block, got {other}"),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(members) => members.values().all(is_empty),
    }
}

fn set(field: &mut String, text: String) {
    if !text.is_empty() {
        *field = text;
    }
}

fn text(key: &str, value: &Value) -> anyhow::Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        other => bail!("{key}: expected a text, got {other}"),
    }
}

fn flag(key: &str, value: &Value) -> anyhow::Result<bool> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(word) => match word.as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            other => bail!(NotOfType(format!("{key}: decodeBool: Unknown value for boolean: {other:?}"))),
        },
        other => bail!("{key}: expected true or false, got {other}"),
    }
}

fn number(key: &str, value: &Value) -> anyhow::Result<i64> {
    match value {
        Value::Number(number) => number.as_i64().ok_or_else(|| anyhow!("{key}: expected a whole number, got {number}")),
        Value::String(text) => {
            text.parse().with_context(|| NotOfType(format!("{key}: expected a whole number, got {text:?}")))
        }
        other => bail!("{key}: expected a whole number, got {other}"),
    }
}

fn count(key: &str, value: &Value) -> anyhow::Result<usize> {
    usize::try_from(number(key, value)?).with_context(|| format!("{key} must not be negative"))
}

/// A duration. An empty text is a valid value, which `overlay.rs` leaves out.
fn span(block: &str, key: &str, value: &Value) -> anyhow::Result<Dur> {
    let word = text(key, value)?;
    if word.is_empty() {
        return Ok(Dur::ZERO);
    }
    songline_lang::duration::parse(&word)
        .map(Dur)
        .map_err(|_| anyhow!("{block}.{key} can't parse time duration {word}"))
}

/// A size in bytes: a number, or a number with a decimal unit such as `1M`.
fn size(key: &str, value: &Value) -> anyhow::Result<u64> {
    let word = text(key, value)?;
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match word[digits.len()..].trim_end_matches(['B', 'b']) {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        other => bail!("{key}: unknown unit {other:?}"),
    };
    let number: u64 = digits.trim().parse().with_context(|| format!("{key}: expected a size, got {word:?}"))?;
    number.checked_mul(unit).ok_or_else(|| anyhow!("{key}: {word:?} is more than can be counted"))
}
