//! Help texts: the list of commands, groups, one command.

use clap::{Arg, ArgAction, Command};

use crate::args::name_of;
use crate::entry::{Entry, Kind};
use crate::general::GENERAL;
use crate::outln;

/// Commands of the first block.
const COMMON: [&str; 7] = ["run", "stop", "status", "alloc", "job", "node", "agent"];

/// Prints the list of commands in two blocks.
pub(crate) fn commands(table: &[&Entry], program: &str) {
    outln!("Usage: {program} [-version] [-help] [-autocomplete-(un)install] <command> [args]\n");
    let mut rows: Vec<(&str, &str)> =
        table.iter().filter(|entry| !entry.hidden && entry.words() == 1).map(|entry| row(table, entry)).collect();
    rows.sort_unstable();
    rows.dedup_by_key(|(name, _)| *name);
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    outln!("Common commands:");
    for (name, about) in COMMON.iter().filter_map(|wanted| rows.iter().find(|(name, _)| name == wanted)) {
        outln!("    {name:<width$}    {about}");
    }
    outln!("\nOther commands:");
    for (name, about) in rows.iter().filter(|(name, _)| !COMMON.contains(name)) {
        outln!("    {name:<width$}    {about}");
    }
}

fn row<'e>(table: &[&'e Entry], entry: &'e Entry) -> (&'e str, &'e str) {
    let about = match entry.kind {
        Kind::Alias(target) => table.iter().find(|entry| entry.path == target).map_or("", |entry| entry.about),
        Kind::Group | Kind::Prefix | Kind::Command { .. } => entry.about,
    };
    (entry.path, about)
}

/// Prints the help of a group: its commands.
pub(crate) fn group(table: &[&Entry], program: &str, path: &str) {
    let entry = table.iter().find(|entry| entry.path == path);
    let rows = below(table, path);
    match entry.map(|entry| &entry.kind) {
        Some(Kind::Prefix) => outln!("{}", subcommands(rows)),
        Some(Kind::Group | Kind::Alias(_) | Kind::Command { .. }) | None => {
            print_group(program, path, entry.map_or("", |entry| entry.about), rows);
        }
    }
}

/// Prints the help of the commands of an enum, with entries below the same path.
pub(crate) fn tree(table: &[&Entry], command: &Command, program: &str, path: &str) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = table.iter().find(|entry| entry.path == path).map_or(about, |entry| entry.about.to_owned());
    let mut rows = below(table, path);
    for below in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        rows.push((below.get_name().to_owned(), below.get_about().map(ToString::to_string).unwrap_or_default()));
    }
    print_group(program, path, &about, rows);
}

/// Names and summaries one word below a path.
fn below(table: &[&Entry], path: &str) -> Vec<(String, String)> {
    let rest = |entry: &&&Entry| entry.path.strip_prefix(path).and_then(|rest| rest.strip_prefix(' ')).is_some();
    let mut rows: Vec<(String, String)> = Vec::new();
    for entry in table.iter().filter(|entry| !entry.hidden).filter(rest) {
        let name = entry.path[path.len() + 1..].split(' ').next().unwrap_or_default();
        let whole = entry.path.len() == path.len() + 1 + name.len();
        match rows.iter_mut().find(|(known, _)| known == name) {
            Some(row) if whole => row.1 = entry.about.to_owned(),
            Some(_) => {}
            None => rows.push((name.to_owned(), if whole { entry.about.to_owned() } else { String::new() })),
        }
    }
    rows
}

fn print_group(program: &str, path: &str, about: &str, rows: Vec<(String, String)>) {
    outln!("Usage: {program} {path} <subcommand> [options] [args]\n");
    if !about.is_empty() {
        outln!("  {}.\n", about.trim_end_matches('.'));
    }
    outln!("{}", subcommands(rows));
}

/// The list of the commands below a group.
fn subcommands(mut rows: Vec<(String, String)>) -> String {
    rows.sort_unstable();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::from("Subcommands:");
    for (name, about) in rows {
        out.push_str(&format!("\n    {name:<width$}    {about}"));
    }
    out
}

/// Prints the help of one command.
pub(crate) fn command(table: &[&Entry], command: &Command, program: &str, path: &str) {
    let mut usage = format!("Usage: {program} {path} [options]");
    for arg in command.get_positionals() {
        let many = if matches!(arg.get_action(), ArgAction::Append) { " .." } else { "" };
        let name = name_of(arg);
        usage.push_str(&if arg.is_required_set() { format!(" <{name}>{many}") } else { format!(" [{name}]{many}") });
    }
    outln!("{usage}");
    let alias = table.iter().find(|entry| !entry.hidden && matches!(entry.kind, Kind::Alias(target) if target == path));
    if let Some(alias) = alias {
        outln!("Alias: {program} {}", alias.path);
    }
    let own = table.iter().find(|entry| entry.path == path).map(|entry| entry.about.to_owned());
    let short = own.or_else(|| command.get_about().map(ToString::to_string)).unwrap_or_default();
    outln!("\n  {}.", short.trim_end_matches('.'));
    if let Some(long) = command.get_long_about().map(ToString::to_string).filter(|long| *long != short) {
        outln!("\n  {}", long.replace('\n', "\n  "));
    }
    let flags = |general: bool| {
        command
            .get_arguments()
            .filter(|arg| !arg.is_positional() && !arg.is_hide_set())
            .filter(|arg| (arg.get_help_heading() == Some(GENERAL)) == general)
            .collect::<Vec<_>>()
    };
    options("General", &flags(true));
    let mut title: Vec<char> = path.split(' ').next_back().unwrap_or_default().chars().collect();
    if let Some(first) = title.first_mut() {
        *first = first.to_ascii_uppercase();
    }
    options(&title.into_iter().collect::<String>(), &flags(false));
}

fn options(title: &str, args: &[&Arg]) {
    if args.is_empty() {
        return;
    }
    outln!("\n{title} Options:");
    for arg in args {
        let name = match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => long.to_owned(),
            (None, short) => short.map(String::from).unwrap_or_default(),
        };
        let value = if matches!(arg.get_action(), ArgAction::SetTrue) { "" } else { "=<value>" };
        outln!("\n  -{name}{value}");
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        outln!("    {}", about.replace('\n', "\n    "));
    }
}

/// The name that a mistyped one is close to.
pub(crate) fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let most = (typed.chars().count() / 3).max(1);
    names.map(|name| (distance(typed, name), name)).filter(|(far, _)| *far <= most).min().map(|(_, name)| name)
}

/// Number of letters to add, drop or replace.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[right.len()]
}
