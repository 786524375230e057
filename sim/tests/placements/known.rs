//! The list of scenarios that do not match yet. Lines are `scenario: reason`; empty lines and lines that begin with
//! `#` are ignored.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::Verdicts;

/// Longest generated reason, in characters.
const REASON_CHARS: usize = 160;
const HEAD: &str = "\
# Recorded placements that do not match yet: `scenario: what is missing or differs`.
# A listed scenario that matches fails the test, so this list only shrinks. UPDATE_KNOWN=1 rewrites it and keeps the
# reasons.
";

/// Reasons by scenario.
pub type Reasons = BTreeMap<String, String>;

/// Reads the list.
pub fn read(path: &Path) -> Result<Reasons> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut reasons = Reasons::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((scenario, reason)) = line.split_once(": ") else {
            bail!("a line of the list is not `scenario: reason`: {line}");
        };
        if reasons.insert(scenario.to_owned(), reason.to_owned()).is_some() {
            bail!("{scenario} is listed twice");
        }
    }
    Ok(reasons)
}

/// The updated list: old reasons stay, new ones are the first difference.
pub fn updated(listed: &Reasons, verdicts: &Verdicts) -> String {
    let mut text = HEAD.to_owned();
    for (name, differences) in verdicts {
        let Some(first) = differences.first() else { continue };
        let first = || first.replace('\n', " ").chars().take(REASON_CHARS).collect();
        let reason = listed.get(name).cloned().unwrap_or_else(first);
        text.push_str(&format!("{name}: {reason}\n"));
    }
    text
}

/// Deviations of a run from the list; empty when there are none.
pub fn complaints(listed: &Reasons, verdicts: &Verdicts) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, differences) in verdicts {
        match (differences.is_empty(), listed.contains_key(name)) {
            (false, false) => complaints.push(crate::told(name, differences)),
            (true, true) => complaints.push(format!("{name} matches now: remove its line from known.txt")),
            (true, false) | (false, true) => {}
        }
    }
    let unknown = listed.keys().filter(|name| !verdicts.contains_key(*name));
    complaints.extend(unknown.map(|name| format!("{name} is listed, but there is no such scenario")));
    complaints
}
