//! The lists beside the cases: `known.txt` (cases that do not pass yet), `deliberate.txt` (steps that deliberately
//! differ) and `defects.txt` (defects whose recordings are not among the cases). Lines are `case: reason`, or `case
//! steps [fields]: reason` for steps; empty lines and lines that begin with `#` are ignored. Not here: running
//! anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::case::{Case, Path as Field};
use crate::text::shorten;

/// Reason of a case that was listed before its first replay; replaced by a better one.
const UNTRIED: &str = "not replayed yet";
/// Longest generated reason, in characters.
const REASON_CHARS: usize = 160;
/// Number of cases that may pass only at their second try, each on a new agent. A larger number indicates a defect of
/// cases or agent.
const SECOND_TRIES_MAX: usize = 3;
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

/// Steps of a case that deliberately differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    pub steps: Vec<usize>,
    /// Values of the answer that differ. Empty: the whole answer differs.
    pub fields: Vec<Field>,
    pub reason: String,
}

/// Masks by case.
pub type Masks = BTreeMap<String, Vec<Mask>>;

pub fn read_masks(path: &Path) -> Result<Masks> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse_masks(&text)
}

pub fn parse_masks(text: &str) -> Result<Masks> {
    let mut masks = Masks::new();
    for (what, reason) in parse(text)? {
        let mut words = what.split_whitespace();
        let (Some(case), Some(steps)) = (words.next(), words.next()) else {
            bail!("a line of the list is not `case steps [fields]: reason`: {what}");
        };
        let steps = steps.split(',').map(range).collect::<Result<Vec<_>>>().with_context(|| what.clone())?.concat();
        let fields = words.map(Field::parse).collect();
        masks.entry(case.to_string()).or_default().push(Mask { steps, fields, reason });
    }
    Ok(masks)
}

/// Parses `3` or `3-5`, both ends included.
fn range(text: &str) -> Result<Vec<usize>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (usize, usize) = (first.parse()?, last.parse()?);
    ensure!(first <= last, "{text} is no range");
    Ok((first..=last).collect())
}

/// Applies masks to their cases. Returns the number of masked steps.
pub fn mask(cases: &mut [Case], masks: &Masks) -> Result<usize> {
    let mut masked = BTreeSet::new();
    for (name, masks) in masks {
        let case = cases.iter_mut().find(|case| case.name == *name);
        let case = case.with_context(|| format!("{name} is to be masked, but there is no such case"))?;
        for mask in masks {
            for nth in &mask.steps {
                let step =
                    case.steps.get_mut(*nth).with_context(|| format!("{name} has no step {nth} to be masked"))?;
                step.masked |= mask.fields.is_empty();
                step.ignore.extend(mask.fields.iter().cloned());
                masked.insert((name, *nth));
            }
        }
    }
    Ok(masked.len())
}

/// The updated list of failing cases: old reasons stay, new ones are the first difference.
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

/// Deviations of a run from the lists; empty when there are none. `second` are the cases that passed at their second
/// try.
pub fn complaints(
    known: &Reasons,
    failed: &BTreeMap<String, Vec<String>>,
    passed: &[String],
    second: &[&str],
) -> Vec<String> {
    let mut complaints = Vec::new();
    if second.len() > SECOND_TRIES_MAX {
        complaints.push(format!("{} cases passed only at their second try: {}", second.len(), second.join(", ")));
    }
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
