//! Empty values of a document: false, 0 and the empty text. As with the reference, they do not replace an earlier value,
//! except those of the keys below. Lists and blocks are never left out, however empty.

use serde_json::{Map, Value};

/// Settings and blocks in which an empty value replaces an earlier one. Some distinguish `absent` from `given` in the
/// reference; some are true by default, and a false could not be told otherwise; some are names of the user's own. Unlike
/// in the reference, 0 has a meaning of its own for `ports` (any free port), `bootstrap_expect` (join others, found no
/// cluster) and `log_retention_bytes`.
const REPLACED: &[&str] = &[
    "http_api_response_headers",
    "plugin",
    "ports",
    "ui.enabled",
    "limits.http_max_conns_per_client",
    "limits.rpc_max_conns_per_client",
    "client.meta",
    "client.options",
    "client.chroot_env",
    "client.no_host_uuid",
    "client.nomad_service_discovery",
    "client.bind_wildcard_default_host_network",
    "client.artifact.decompression_file_count_limit",
    "client.artifact.decompression_size_limit",
    "client.artifact.disable_filesystem_isolation",
    "client.artifact.set_environment_variables",
    "client.drain_on_shutdown.ignore_system_jobs",
    "client.drain_on_shutdown.force",
    "client.template.consul_retry.attempts",
    "client.template.nomad_retry.attempts",
    "client.template.vault_retry.attempts",
    "server.bootstrap_expect",
    "server.num_schedulers",
    "server.enable_event_broker",
    "server.event_buffer_size",
    "server.job_max_priority",
    "server.job_max_source_size",
    "server.job_tracked_versions",
    "server.log_retention_bytes",
    "server.allow_unauthenticated_peers",
    "server.plan_rejection_tracker.enabled",
    "server.default_scheduler_config.preemption_config.system_scheduler_enabled",
    "consul.ssl",
    "consul.verify_ssl",
    "vault.enabled",
    "vault.allow_unauthenticated",
    "vault.tls_skip_verify",
];

/// The document without the empty values that replace nothing, and a document of these alone if there are any.
pub(super) fn parted(document: &Value) -> (Value, Option<Value>) {
    part(&mut Vec::new(), document)
}

fn part(path: &mut Vec<String>, value: &Value) -> (Value, Option<Value>) {
    match value {
        Value::Object(members) => {
            let (mut kept, mut empty) = (Map::new(), Map::new());
            for (key, value) in members {
                path.push(key.to_lowercase());
                if REPLACED.contains(&path.join(".").as_str()) {
                    kept.insert(key.clone(), value.clone());
                } else if is_empty(path, value) {
                    empty.insert(key.clone(), value.clone());
                } else {
                    let (more, less) = part(path, value);
                    kept.insert(key.clone(), more);
                    empty.extend(less.map(|less| (key.clone(), less)));
                }
                path.pop();
            }
            (Value::Object(kept), (!empty.is_empty()).then_some(Value::Object(empty)))
        }
        // Several blocks of one kind.
        Value::Array(items) => {
            let (kept, empty): (Vec<Value>, Vec<Option<Value>>) = items.iter().map(|item| part(path, item)).unzip();
            let empty: Vec<Value> = empty.into_iter().flatten().collect();
            (Value::Array(kept), (!empty.is_empty()).then_some(Value::Array(empty)))
        }
        other => (other.clone(), None),
    }
}

/// Whether a value is empty. Numbers and booleans may be quoted, so that `"0"` is empty where a number is expected, and
/// a text elsewhere.
fn is_empty(path: &[String], value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) if text == "false" || text.parse::<f64>() == Ok(0.0) => super::is_number_or_flag(path),
        other => super::is_empty(other),
    }
}
