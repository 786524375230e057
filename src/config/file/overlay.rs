//! Empty values of a document: false, 0 and the empty text. As with the reference, they do not replace an earlier value,
//! except those of the keys below. Lists and blocks are never left out, however empty.

use serde_json::Value;

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

/// A copy of the document without the empty values that replace nothing.
pub(super) fn without_empty(document: &Value) -> Value {
    kept("", document)
}

fn kept(path: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter_map(|(key, value)| {
                let path = if path.is_empty() { key.to_lowercase() } else { format!("{path}.{}", key.to_lowercase()) };
                if REPLACED.contains(&path.as_str()) {
                    return Some((key.clone(), value.clone()));
                }
                (!is_empty(value)).then(|| (key.clone(), kept(&path, value)))
            });
            Value::Object(kept.collect())
        }
        // Several blocks of one kind.
        Value::Array(items) => items.iter().map(|item| kept(path, item)).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    !value.is_array() && !value.is_object() && super::is_empty(value)
}
