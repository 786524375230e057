//! Effect of each setting of a file. The rules are those that an agent reads files by: a setting is refused if files
//! are accepted without it, and has no effect if they are read with that warning.

use std::collections::BTreeMap;

use anyhow::anyhow;
use serde_json::{Map, Value};
use songline_lang::config::{Setting, settings};

use super::{Seen, apply_seen};
use crate::config::AgentConfig;

/// Effect of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The setting changes the agent.
    Works,
    /// The setting is accepted and changes nothing.
    Ignored,
    /// The agent does not start with it, for this reason.
    Refused(String),
}

/// A setting and its effect.
#[derive(Debug)]
pub struct Checked {
    /// Keys and labels, joined by dots.
    pub path: String,
    /// Line in the file, if it is known.
    pub line: Option<usize>,
    /// The effect.
    pub effect: Effect,
}

/// Checks the settings of a file in order, and applies those that are accepted to `config`.
///
/// # Errors
/// The text cannot be parsed, or is refused for a reason that is not one of its settings.
pub fn check(text: &str, config: &mut AgentConfig) -> anyhow::Result<Vec<Checked>> {
    let settings = settings(text).map_err(|error| anyhow!("{error}"))?;
    let mut refused: BTreeMap<usize, String> = BTreeMap::new();
    let (read, seen) = loop {
        let kept: Vec<usize> = (0..settings.len()).filter(|at| !refused.contains_key(at)).collect();
        match attempt(&settings, &kept, config) {
            Ok(read) => break read,
            Err(reason) => match culprit(&settings, &kept, config, &reason) {
                Some(at) => refused.insert(at, reason),
                None => return Err(anyhow!(reason)),
            },
        };
    };
    *config = read;
    let checked = settings.iter().enumerate().map(|(at, setting)| {
        let path = setting.path.join(".");
        let effect = match refused.remove(&at) {
            Some(reason) => Effect::Refused(reason),
            None if seen.is_without_effect(&path) => Effect::Ignored,
            None => Effect::Works,
        };
        Checked { path, line: setting.line, effect }
    });
    Ok(checked.collect())
}

/// The configuration with some of the settings, or the reason why they are refused.
fn attempt(settings: &[Setting], kept: &[usize], config: &AgentConfig) -> Result<(AgentConfig, Seen), String> {
    let mut document = Map::new();
    kept.iter().for_each(|at| put(&mut document, &settings[*at].path, &settings[*at].value));
    let mut config = config.clone();
    let seen = apply_seen(&Value::Object(document), &mut config).map_err(|error| format!("{error:#}"))?;
    Ok((config, seen))
}

/// The setting that is refused for a reason: alone, or beside an earlier one that it contradicts, or the first without
/// which the others are accepted.
fn culprit(settings: &[Setting], kept: &[usize], config: &AgentConfig, reason: &str) -> Option<usize> {
    let fails = |some: &[usize]| attempt(settings, some, config).is_err_and(|other| other == reason);
    let alone = kept.iter().copied().find(|at| fails(&[*at]));
    let beside = || kept.iter().copied().find(|at| kept.iter().any(|earlier| earlier < at && fails(&[*earlier, *at])));
    let without = || {
        kept.iter().copied().find(|without| {
            let others: Vec<usize> = kept.iter().copied().filter(|at| at != without).collect();
            attempt(settings, &others, config).is_ok()
        })
    };
    alone.or_else(beside).or_else(without)
}

/// Puts a value at a path. Of two values at one path the last one stays.
fn put(document: &mut Map<String, Value>, path: &[String], value: &Value) {
    let Some((key, rest)) = path.split_first() else { return };
    let member = document.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
    match (rest, member) {
        ([], member) => *member = value.clone(),
        (rest, Value::Object(members)) => put(members, rest, value),
        (rest, member) => {
            let mut members = Map::new();
            put(&mut members, rest, value);
            *member = Value::Object(members);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: &Expect) {
        let checked = super::check(text, &mut AgentConfig::default()).expect("it is read");
        let line = |one: &Checked| {
            let line = one.line.map_or_else(|| "-".to_owned(), |line| line.to_string());
            format!("{line} {} {:?}\n", one.path, one.effect)
        };
        expected.assert_eq(&checked.iter().map(line).collect::<String>());
    }

    #[test]
    fn each_setting_works_or_is_ignored_or_is_refused_with_its_reason() {
        check(
            r#"
region = "eu"
log_file = ""
server {
  enabled = true
  raft_multiplier = 5
  bootstrap_expect = "many"
  heartbeat_grace = "soon"
}
client {
  meta { rack = "r1" }
  nope = 1
  host_volume "scratch" { path = "/tmp" }
}
autopilot { cleanup_dead_servers = true }
consul { cert_file = "c.pem" }
nope = 2
"#,
            &expect![[r#"
                2 region Works
                3 log_file Ignored
                5 server.enabled Works
                6 server.raft_multiplier Ignored
                7 server.bootstrap_expect Refused("bootstrap_expect: expected a whole number, got \"many\": invalid digit found in string")
                8 server.heartbeat_grace Refused("server.heartbeat_grace can't parse time duration soon")
                11 client.meta.rack Works
                12 client.nope Refused("client unexpected keys nope")
                13 client.host_volume.scratch.path Works
                15 autopilot.cleanup_dead_servers Ignored
                16 consul.cert_file Refused("consul: cert_file and key_file belong together")
                17 nope Refused("unexpected keys nope")
            "#]],
        );
    }

    #[test]
    fn settings_that_belong_together_are_not_refused_for_each_other() {
        check(
            r#"{"consul": {"cert_file": "c.pem", "key_file": "k.pem"}, "client": {"template": {"wait": {"min": "9s", "max": "1s"}}}}"#,
            &expect![[r#"
                - consul.cert_file Works
                - consul.key_file Works
                - client.template.wait.min Works
                - client.template.wait.max Refused("client.template.wait: min 9s is greater than max 1s")
            "#]],
        );
        let error = super::check("server {", &mut AgentConfig::default()).expect_err("it has no end");
        assert!(error.to_string().starts_with("At 1:"), "{error}");
    }
}
