//! Capabilities of a task with a root of its own: those that its job adds and drops, within those that the node allows.

use serde_json::{Map, Value};

use crate::config::ClientConfig;
use crate::driver::texts;
use crate::executor::capabilities::{Capabilities, Set, union};

/// Capabilities that this node lets tasks of a driver hold, from `plugin "DRIVER" { config { allow_caps = [..] } }`; the
/// default set where the option is absent.
pub(super) fn allowed(config: &ClientConfig, driver: &str) -> Result<Set, String> {
    match config.plugins.get(driver) {
        Some(options) if options.contains_key("allow_caps") => names(options, "allow_caps"),
        Some(_) | None => Ok(Set::DEFAULT),
    }
}

/// The capabilities of a task: those of `usual` that are allowed, without `cap_drop`, with `cap_add`. A user other than
/// root holds only what `cap_add` names. The errors are in the reference's words.
pub(super) fn wanted(task: &Map<String, Value>, usual: Set, allowed: Set) -> Result<Capabilities, String> {
    let told = |error| format!("failed driver config validation: {error}");
    let (add, drop) = (names(task, "cap_add").map_err(told)?, names(task, "cap_drop").map_err(told)?);
    let refused = add.without(allowed);
    if refused != Set::EMPTY {
        return Err(format!("driver does not allow the following capabilities: {}", refused.names().join(", ")));
    }
    let bounding = usual.and(allowed).without(drop).or(add);
    Ok(Capabilities { bounding, ambient: add })
}

fn names(config: &Map<String, Value>, key: &str) -> Result<Set, String> {
    union(&texts(config, key)).map_err(|unknown| {
        format!("{key} configured with capabilities not supported by system: {}", unknown.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(allow: Option<Value>, task: Value) -> String {
        let mut config = ClientConfig::default();
        if let Some(allow) = allow {
            let options = Map::from_iter([("allow_caps".to_owned(), allow)]);
            config.plugins.insert("exec".into(), options);
        }
        let task = task.as_object().cloned().unwrap_or_default();
        match allowed(&config, "exec").and_then(|allowed| wanted(&task, Set::DEFAULT, allowed)) {
            Ok(Capabilities { bounding, ambient }) => format!("bounding {:x}, ambient {:x}", bounding.0, ambient.0),
            Err(error) => error,
        }
    }

    #[test]
    fn task_gets_an_added_capability_only_if_the_node_allows_it() {
        let story = [
            check(None, json!({})),
            check(None, json!({"cap_drop": ["all"]})),
            check(None, json!({"cap_drop": ["all"], "cap_add": ["chown", "CAP_KILL"]})),
            check(None, json!({"cap_add": ["sys_time", "net_raw"]})),
            check(None, json!({"cap_add": ["odd"]})),
            check(Some(json!(["net_raw", "chown"])), json!({})),
            check(Some(json!(["net_raw", "chown"])), json!({"cap_add": ["NET_RAW"]})),
            check(Some(json!(["all"])), json!({})),
            check(Some(json!(["all"])), json!({"cap_add": ["all"]})),
            check(Some(json!([])), json!({})),
            check(Some(json!(["odd"])), json!({})),
        ];
        expect_test::expect![[r#"
            bounding a80405fb, ambient 0
            bounding 0, ambient 0
            bounding 21, ambient 21
            driver does not allow the following capabilities: net_raw, sys_time
            failed driver config validation: cap_add configured with capabilities not supported by system: odd
            bounding 1, ambient 0
            bounding 2001, ambient 2000
            bounding a80405fb, ambient 0
            bounding 1ffffffffff, ambient 1ffffffffff
            bounding 0, ambient 0
            allow_caps configured with capabilities not supported by system: odd"#]]
        .assert_eq(&story.join("\n"));
    }
}
