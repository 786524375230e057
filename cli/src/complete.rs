//! Completion of a command line: commands, flags, and names and ids that an agent knows. A shell runs this program with
//! the line in `COMP_LINE` and reads one candidate a line.

mod install;
mod scripts;

use std::time::Duration;

use clap::{Arg, Args, Command, FromArgMatches};
use serde_json::json;

pub(crate) use install::rewrite;
pub(crate) use scripts::Completion;

use crate::args::{dashed, find, name_of, takes_word};
use crate::client::text;
use crate::entry::{Entry, Kind};
use crate::general::General;
use crate::jobs::lists::items;
use crate::outln;

/// Longest time that an agent may take: nobody waits for a completion.
const WITHIN: Duration = Duration::from_secs(1);

/// Prints the candidates for the last word of a line that is cut at the cursor.
pub(crate) fn run(table: &[&Entry], line: &str, point: Option<usize>) {
    let line = point.and_then(|point| line.get(..point)).unwrap_or(line);
    let mut words: Vec<String> =
        line.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()).collect();
    if line.is_empty() || line.ends_with(char::is_whitespace) {
        words.push(String::new());
    }
    // The first word is the program.
    let words = words.get(1..).unwrap_or_default();
    let Some((part, before)) = words.split_last() else { return };
    for candidate in candidates(table, before, part) {
        outln!("{candidate}");
    }
}

/// Words that may stand in place of `part` behind `before`.
fn candidates(table: &[&Entry], before: &[String], part: &str) -> Vec<String> {
    let longest = table.iter().filter(|entry| entry.begins(before)).max_by_key(|entry| entry.words());
    let Some(entry) = longest else { return next_words(table, before, part) };
    let rest = &before[entry.words()..];
    let entry = match entry.kind {
        Kind::Alias(target) => table.iter().find(|entry| entry.path == target).unwrap_or(entry),
        Kind::Group | Kind::Prefix | Kind::Command { .. } => entry,
    };
    let Kind::Command { build, .. } = entry.kind else { return next_words(table, before, part) };
    let mut command = build(Command::new(entry.path).disable_help_flag(true).disable_help_subcommand(true));
    command.build();
    let (mut leaf, mut rest, mut path) = (&command, rest, entry.path.to_owned());
    while leaf.has_subcommands() {
        let Some(next) = rest.first().and_then(|word| leaf.find_subcommand(word)) else {
            let names =
                leaf.get_subcommands().filter(|below| !below.is_hide_set()).map(|below| below.get_name().to_owned());
            return matching(names.collect(), part);
        };
        path = format!("{path} {}", rest[0]);
        (leaf, rest) = (next, &rest[1..]);
    }
    of_command(leaf, &path, rest, part)
}

/// The next words of paths that begin so.
fn next_words(table: &[&Entry], before: &[String], part: &str) -> Vec<String> {
    let begins = |entry: &&&Entry| {
        let mut path = entry.path.split(' ');
        before.iter().all(|word| path.next() == Some(word))
    };
    let next = |entry: &&Entry| entry.path.split(' ').nth(before.len()).map(str::to_owned);
    matching(table.iter().filter(|entry| !entry.hidden).filter(begins).filter_map(next).collect(), part)
}

/// Sorted candidates that begin with `part`, each once.
fn matching(mut names: Vec<String>, part: &str) -> Vec<String> {
    names.retain(|name| name.starts_with(part));
    names.sort_unstable();
    names.dedup();
    names
}

/// Flags of a command, values of its flags, and its arguments.
fn of_command(command: &Command, path: &str, before: &[String], part: &str) -> Vec<String> {
    if let Some(flag) = before.last().and_then(|word| dashed(word)).filter(|name| !name.contains('='))
        && takes_word(command, flag)
    {
        return context_of(path, flag).map_or_else(Vec::new, |context| known(command, before, context, part));
    }
    if part.starts_with('-') {
        let dashes = if part.starts_with("--") { "--" } else { "-" };
        let flags = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
        let name = |arg: &Arg| match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => Some(format!("{dashes}{long}")),
            (None, short) => short.map(|letter| format!("{dashes}{letter}")),
        };
        return matching(flags.filter_map(name).collect(), part);
    }
    let mut at = 0;
    let mut words = before.iter();
    while let Some(word) = words.next() {
        match dashed(word) {
            Some(name) if !name.contains('=') && takes_word(command, name) => {
                words.next();
            }
            Some(_) => {}
            None => at += 1,
        }
    }
    let last = command.get_positionals().last();
    let argument =
        command.get_positionals().nth(at).or(last.filter(|arg| arg.get_num_args().is_some_and(|n| n.max_values() > 1)));
    let Some(argument) = argument else { return Vec::new() };
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        return matching(possible.iter().map(|value| value.get_name().to_owned()).collect(), part);
    }
    context_of(path, &name_of(argument)).map_or_else(Vec::new, |context| known(command, before, context, part))
}

/// The search context of an argument or of a flag's value.
fn context_of(path: &str, name: &str) -> Option<&'static str> {
    Some(match (name, path.split(' ').next().unwrap_or_default()) {
        ("job" | "jobs", _) => "jobs",
        ("alloc", _) => "allocs",
        ("eval", _) => "evals",
        ("node" | "node-id", _) => "nodes",
        ("pool" | "node-pool", _) => "node_pools",
        ("namespace", _) => "namespaces",
        ("volume", _) => "volumes",
        ("plugin", _) => "plugins",
        ("path", "var") => "vars",
        ("deployment" | "id", "deployment") => "deployment",
        ("policy" | "id", "scaling") => "scaling_policy",
        ("name", "namespace") => "namespaces",
        ("name" | "quota", "quota") => "quotas",
        _ => return None,
    })
}

/// Names and ids of a context that an agent knows. An agent that does not answer knows nothing.
fn known(command: &Command, before: &[String], context: &str, part: &str) -> Vec<String> {
    let asked = async {
        let client = general(command, before)?.client().ok()?;
        let body = json!({ "Prefix": part, "Context": context });
        let answer = tokio::time::timeout(WITHIN, client.put("/v1/search", &body)).await.ok()?.ok()?;
        Some(items(&answer["Matches"][context]).iter().map(|found| text(found).to_owned()).collect())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    matching(runtime.ok().and_then(|runtime| runtime.block_on(asked)).unwrap_or_default(), part)
}

/// General options among the words: where the agent is.
fn general(command: &Command, before: &[String]) -> Option<General> {
    let own = General::augment_args(Command::new("general").no_binary_name(true));
    let mut given = Vec::new();
    let mut words = before.iter();
    while let Some(word) = words.next() {
        let Some(name) = dashed(word) else { continue };
        let bare = name.split('=').next().unwrap_or(name);
        let value = if !name.contains('=') && takes_word(command, name) { words.next() } else { None };
        if find(&own, bare).is_some() {
            given.push(match value {
                Some(value) => format!("--{bare}={value}"),
                None => format!("--{name}"),
            });
        }
    }
    General::from_arg_matches(&own.try_get_matches_from(given).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let table: Vec<&Entry> = crate::AREAS.iter().copied().flatten().collect();
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let part = words.pop().expect("a line has a last word");
        assert_eq!(candidates(&table, &words, &part).join(" "), expected, "{line}");
    }

    #[test]
    fn commands_groups_and_aliases_complete_by_words() {
        check("scal", "scaling");
        check("job sta", "status");
        check("operator snapshot ", "restore save");
        check("node-st", "");
        check("nope ", "");
        check("event ", "follow sink");
    }

    #[test]
    fn flags_complete_with_the_dashes_that_were_typed() {
        check("job status -sh", "-short");
        check("status -verb", "-verbose");
        check("logs --tai", "--tail");
        check("job run -namespace x -det", "-detach");
    }

    #[test]
    fn possible_values_of_an_argument_complete() {
        check("history nod", "node node_pool");
    }
}
