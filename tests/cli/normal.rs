//! Normal form of a printed text: ids numbered in their order, times, ages, addresses and advice taken out. The rules
//! are those with which the transcripts were recorded.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use fancy_regex::{Captures, Regex};

use crate::transcript::Step;

fn rule(text: &str) -> Regex {
    Regex::new(text).expect("the rule is an expression")
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $($(#[$doc])* static $name: LazyLock<Regex> = LazyLock::new(|| rule($text));)*
    };
}

rules! {
    ESCAPES = "\x1b\\[[0-9;]*m";
    /// A whole id, or its first eight digits.
    IDS = r"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b|(?<![0-9A-Za-z_./+-])([0-9a-f]{8})(?![0-9A-Za-z_+-])";
    TIMES = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d(?: [A-Z]{3,4})?)|\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]{3,4}";
    AGES = r"(?<![\w.])(?:\d+(?:d|h|mo|m|s|y|ms|µs)){1,3} ago\b|\bless than a second ago|\ba second ago|\d+ (?:seconds?|minutes?) ago|\d+\.\d+(?:ms|s|µs) ago";
    INDEX = r#"(?i)(index["']?\s*[:=(]?\s*)([1-9]\d*)"#;
    NANOS = r#"(?i)((?:create|modify|submit)_?time"?\s*[:=]\s*)\d{10,}"#;
    ADDRESS = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])(:\d{1,5})?";
    SPACES = r"(?<=\S) {2,}";
    /// Words of a parser or of the operating system.
    WHY = r"(?m)((?:^|(?<=\())(?:Error parsing|Failed to parse|Failed to convert|Invalid -[\w-]+ value|invalid value|Error formatting the data|Error formatting output|Error initializing client)[^:\n]*: )\S.*$";
    /// Lines of advice, whose words are free.
    ADVICE = r"^\s*(For additional help try|When running the job with the check-index flag|job modify index given matches|changed, another user has modified|potentially invalid\.|Your provided check-index|server-side item was last updated|want to perform this operation|the positional arguments|To delete evaluations you must|After the deletion is complete)";
    OWN_NAME = r#"(?m)(?:^|(?<=[\s'"`]))songline(?= [a-z-])"#;
}

/// Facts that a session knows when it normalises.
pub struct Known<'s> {
    pub dir: &'s str,
    pub address: &'s str,
    pub token: &'s str,
    pub node: &'s str,
}

/// Normalises one text. `ids` has the numbers of the ids that were seen so far.
pub fn normal(
    text: &str,
    step: &Step,
    fill: &dyn Fn(&str) -> String,
    known: &Known<'_>,
    ids: &mut BTreeMap<String, usize>,
) -> Result<String> {
    let mut text = ESCAPES.replace_all(text, "").replace(known.dir, "<dir>");
    for (from, to) in &step.norm {
        let from = own_expression(&fill(from))?;
        text = from.replace_all(&text, replacement(to).as_str()).into_owned();
    }
    if let Some(after) = &step.after {
        let last = own_expression(after)?.find_iter(&text).filter_map(Result::ok).last().map(|found| found.end());
        text = text[last.unwrap_or(0)..].to_owned();
    }
    if !known.token.is_empty() {
        text = text.replace(known.token, "<token>");
    }
    text = text.replace(known.address, "<addr>");
    let text = TIMES.replace_all(&text, "<time>");
    let text = NANOS.replace_all(&text, "${1}<time>");
    let text = AGES.replace_all(&text, "<age>");
    let text = INDEX.replace_all(&text, "${1}<index>");
    let text = OWN_NAME.replace_all(&text, "nomad");
    let text = WHY.replace_all(&text, "${1}<why>");
    let address = |found: &Captures<'_>| if found.get(1).is_some() { "<ip>:<port>" } else { "<ip>" }.to_owned();
    let mut text = ADDRESS.replace_all(&text, address).into_owned();
    if !known.node.is_empty() {
        let node = rule(&format!(r"(?<![\w-]){}(?![\w-])", fancy_regex::escape(known.node)));
        text = node.replace_all(&text, "<node>").into_owned();
    }
    let (keep, drop) = (expression(&step.keep)?, expression(&step.drop)?);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let line = SPACES.replace_all(line, "  ");
        let line = line.trim_end();
        let is_kept = keep.as_ref().is_none_or(|keep| keep.is_match(line).unwrap_or(false));
        let is_dropped = drop.as_ref().is_some_and(|drop| drop.is_match(line).unwrap_or(false));
        if is_kept && !is_dropped && !ADVICE.is_match(line)? {
            lines.push(line.to_owned());
        }
    }
    let text = lines.join("\n");
    let number = |found: &Captures<'_>| {
        let whole = found.get(1);
        let id = whole.or(found.get(2)).map_or("", |id| id.as_str());
        let next = ids.len() + 1;
        let number = *ids.entry(id.get(..8).unwrap_or(id).to_owned()).or_insert(next);
        if whole.is_some() { format!("<uuid:{number}>") } else { format!("<id:{number}>") }
    };
    let text = IDS.replace_all(&text, number).into_owned();
    Ok(if step.sort { sorted(&text) } else { text })
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn expression(text: &Option<String>) -> Result<Option<Regex>> {
    text.as_deref().map(own_expression).transpose()
}

/// An expression of a transcript: each line has its own begin and end.
pub fn own_expression(text: &str) -> Result<Regex> {
    Regex::new(&format!("(?m){text}")).with_context(|| format!("the expression {text:?}"))
}

/// The recorder writes groups as `\1`.
fn replacement(text: &str) -> String {
    let text = text.replace('$', "$$");
    rule(r"\\(\d)").replace_all(&text, "$${${1}}").into_owned()
}
