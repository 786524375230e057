//! Options of a task's `config` block: their names and types. Other modules give them their meaning.

use serde_json::Value;

use crate::driver::block::Block;

/// Type of an option.
#[derive(Debug, Clone, Copy)]
enum Type {
    Text,
    Flag,
    Number,
    Texts,
    /// A text, or a list of texts.
    TextOrTexts,
    /// Texts by name: an object, or the attributes of blocks.
    Map,
    /// Blocks with these options.
    Blocks(&'static [(&'static str, Type)]),
}

const VOLUME_OPTIONS: &[(&str, Type)] = &[
    ("driver_config", Type::Blocks(&[("name", Type::Text), ("options", Type::Map)])),
    ("labels", Type::Map),
    ("no_copy", Type::Flag),
];
const MOUNT: &[(&str, Type)] = &[
    ("bind_options", Type::Blocks(&[("propagation", Type::Text)])),
    ("readonly", Type::Flag),
    ("source", Type::Text),
    ("target", Type::Text),
    ("tmpfs_options", Type::Blocks(&[("mode", Type::Number), ("size", Type::Number)])),
    ("type", Type::Text),
    ("volume_options", Type::Blocks(VOLUME_OPTIONS)),
];
const AUTH: &[(&str, Type)] =
    &[("email", Type::Text), ("password", Type::Text), ("server_address", Type::Text), ("username", Type::Text)];
const DEVICE: &[(&str, Type)] =
    &[("cgroup_permissions", Type::Text), ("container_path", Type::Text), ("host_path", Type::Text)];
const LOGGING: &[(&str, Type)] = &[("config", Type::Map), ("driver", Type::Text), ("type", Type::Text)];

/// All options of a task.
const OPTIONS: &[(&str, Type)] = &[
    ("advertise_ipv6_address", Type::Flag),
    ("args", Type::Texts),
    ("auth", Type::Blocks(AUTH)),
    ("auth_soft_fail", Type::Flag),
    ("cap_add", Type::Texts),
    ("cap_drop", Type::Texts),
    ("command", Type::Text),
    ("cpu_cfs_period", Type::Number),
    ("cpu_hard_limit", Type::Flag),
    ("cpuset_cpus", Type::Text),
    ("devices", Type::Blocks(DEVICE)),
    ("dns_options", Type::Texts),
    ("dns_search_domains", Type::Texts),
    ("dns_servers", Type::Texts),
    ("entrypoint", Type::TextOrTexts),
    ("extra_hosts", Type::Texts),
    ("force_pull", Type::Flag),
    ("group_add", Type::Texts),
    ("healthchecks", Type::Blocks(&[("disable", Type::Flag)])),
    ("hostname", Type::Text),
    ("image", Type::Text),
    ("image_pull_timeout", Type::Text),
    ("init", Type::Flag),
    ("interactive", Type::Flag),
    ("ipc_mode", Type::Text),
    ("ipv4_address", Type::Text),
    ("ipv6_address", Type::Text),
    ("labels", Type::Map),
    ("load", Type::Text),
    ("logging", Type::Blocks(LOGGING)),
    ("mac_address", Type::Text),
    ("memory_hard_limit", Type::Number),
    ("mount", Type::Blocks(MOUNT)),
    ("mounts", Type::Blocks(MOUNT)),
    ("network_aliases", Type::Texts),
    ("network_mode", Type::Text),
    ("oom_score_adj", Type::Number),
    ("pid_mode", Type::Text),
    ("pids_limit", Type::Number),
    ("port_map", Type::Map),
    ("ports", Type::Texts),
    ("privileged", Type::Flag),
    ("readonly_rootfs", Type::Flag),
    ("runtime", Type::Text),
    ("security_opt", Type::Texts),
    ("shm_size", Type::Number),
    ("storage_opt", Type::Map),
    ("sysctl", Type::Map),
    ("tty", Type::Flag),
    ("ulimit", Type::Map),
    ("userns_mode", Type::Text),
    ("uts_mode", Type::Text),
    ("volume_driver", Type::Text),
    ("volumes", Type::Texts),
    ("work_dir", Type::Text),
];

/// Refuses a block with an unknown option, or with a value of another type. The texts are the reference's.
pub(super) fn validate(config: &Block) -> Result<(), String> {
    if !config.contains_key("image") && !config.contains_key("load") {
        return Err(
            "Missing required attribute: The attribute \"image\" is required, but no definition was found.".to_owned()
        );
    }
    check(config, OPTIONS)
}

fn check(config: &Block, known: &[(&str, Type)]) -> Result<(), String> {
    for (key, value) in config {
        let Some((_, wanted)) = known.iter().find(|(name, _)| name == key) else {
            return Err(format!("Invalid label: No argument or block type is named {key:?}."));
        };
        if let Type::Blocks(inner) = wanted {
            parts(value).into_iter().filter_map(Value::as_object).try_for_each(|block| check(block, inner))?;
        }
        if !value.is_null() && !fits(value, *wanted) {
            let wanted = described(*wanted);
            return Err(format!(
                "Incorrect attribute value type: Inappropriate value for attribute {key:?}: {wanted} required."
            ));
        }
    }
    Ok(())
}

/// The blocks of a name: one object, or a list.
fn parts(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |list| list.iter().collect())
}

fn fits(value: &Value, wanted: Type) -> bool {
    let is_plain = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    let all_plain = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(is_plain));
    match wanted {
        Type::Text => is_plain(value),
        Type::Flag => {
            value.is_boolean() || value.as_str().is_some_and(|text| matches!(text, "true" | "false" | "1" | "0"))
        }
        Type::Number => value.is_number() || value.as_str().is_some_and(|text| text.parse::<f64>().is_ok()),
        Type::Texts => all_plain(value),
        Type::TextOrTexts => is_plain(value) || all_plain(value),
        Type::Map => {
            parts(value).into_iter().all(|block| block.as_object().is_some_and(|block| block.values().all(is_plain)))
        }
        Type::Blocks(_) => parts(value).into_iter().all(Value::is_object),
    }
}

fn described(wanted: Type) -> &'static str {
    match wanted {
        Type::Text => "string",
        Type::Flag => "bool",
        Type::Number => "number",
        Type::Texts | Type::TextOrTexts => "list of string",
        Type::Map => "map of string",
        Type::Blocks(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(config: Value) -> String {
        let block = config.as_object().cloned().unwrap_or_default();
        let answer = validate(&block).err().unwrap_or_else(|| "fine".to_owned());
        format!("{config}: {answer}")
    }

    #[test]
    fn config_block_is_refused_by_its_first_fault() {
        let story = [
            check(json!({})),
            check(json!({"image": "a:1", "labels": [{"x": "1"}], "mount": [{"type": "bind", "readonly": true}]})),
            check(json!({"image": "a:1", "labels": {"x": 1}, "pids_limit": "5", "privileged": "true"})),
            check(json!({"image": "a:1", "imgae": "b"})),
            check(json!({"image": "a:1", "mount": [{"kind": "bind"}]})),
            check(json!({"image": "a:1", "args": "x"})),
            check(json!({"image": "a:1", "privileged": "maybe"})),
            check(json!({"image": "a:1", "shm_size": "much"})),
            check(json!({"image": "a:1", "ulimit": "nofile=1"})),
            check(json!({"image": ["a"]})),
        ];
        expect_test::expect![[r#"
            {}: Missing required attribute: The attribute "image" is required, but no definition was found.
            {"image":"a:1","labels":[{"x":"1"}],"mount":[{"type":"bind","readonly":true}]}: fine
            {"image":"a:1","labels":{"x":1},"pids_limit":"5","privileged":"true"}: fine
            {"image":"a:1","imgae":"b"}: Invalid label: No argument or block type is named "imgae".
            {"image":"a:1","mount":[{"kind":"bind"}]}: Invalid label: No argument or block type is named "kind".
            {"image":"a:1","args":"x"}: Incorrect attribute value type: Inappropriate value for attribute "args": list of string required.
            {"image":"a:1","privileged":"maybe"}: Incorrect attribute value type: Inappropriate value for attribute "privileged": bool required.
            {"image":"a:1","shm_size":"much"}: Incorrect attribute value type: Inappropriate value for attribute "shm_size": number required.
            {"image":"a:1","ulimit":"nofile=1"}: Incorrect attribute value type: Inappropriate value for attribute "ulimit": map of string required.
            {"image":["a"]}: Incorrect attribute value type: Inappropriate value for attribute "image": string required."#]]
        .assert_eq(&story.join("\n"));
    }
}
