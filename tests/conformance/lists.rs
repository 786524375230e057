//! The two lists beside the cases: `known.txt`, what does not pass yet, and `deliberate.txt`, what is meant to differ.
//! Lines are `case: reason`; empty lines and lines that begin with `#` say nothing. Not here: running anything.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::text::shorten;

/// The reason of a case that was listed before it was ever replayed; gives way to a better one.
const UNTRIED: &str = "not replayed yet";
/// Longest reason that is written by itself, in characters.
const REASON_CHARS: usize = 160;
const KNOWN_HEAD: &str = "\
# Recorded cases that do not pass yet: `case: the route or the part that is missing`.
# A listed case that passes fails the test, so this list only shrinks. UPDATE_KNOWN=1 rewrites it and keeps the reasons.
";

/// Reasons by case.
pub type Reasons = BTreeMap<String, String>;

pub fn read(path: &Path) -> Result<Reasons> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text)
}

pub fn parse(text: &str) -> Result<Reasons> {
    let mut reasons = Reasons::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((case, reason)) = line.split_once(": ") else {
            bail!("a line of the list is not `case: reason`: {line}");
        };
        if reasons.insert(case.to_string(), reason.to_string()).is_some() {
            bail!("{case} is listed twice");
        }
    }
    Ok(reasons)
}

/// The list that says what failed now: old reasons stay, new ones are the first difference.
pub fn updated(old: &Reasons, failed: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = KNOWN_HEAD.to_string();
    for (case, differences) in failed {
        let first = differences.first().map_or("", String::as_str);
        let first = shorten(&first.replace(['\n', '\r'], " "), REASON_CHARS);
        let reason = match old.get(case) {
            Some(reason) if reason != UNTRIED => reason,
            _ => &first,
        };
        text.push_str(&format!("{case}: {reason}\n"));
    }
    text
}

/// What is wrong with a run, given what may fail; empty when all is as listed.
pub fn complaints(known: &Reasons, failed: &BTreeMap<String, Vec<String>>, passed: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (case, differences) in failed {
        if !known.contains_key(case) {
            complaints.push(format!("{case} differs:\n    {}", differences.join("\n    ")));
        }
    }
    for case in passed {
        if known.contains_key(case) {
            complaints.push(format!("{case} passes now: remove its line from known.txt"));
        }
    }
    for case in known.keys() {
        if !failed.contains_key(case) && !passed.contains(case) {
            complaints.push(format!("{case} is listed, but there is no such case"));
        }
    }
    complaints
}
