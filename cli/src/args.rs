//! The reference's way to write flags, turned into clap's: one or two dashes, joined or separate values, boolean
//! values, the last of repeated flags, flags after arguments.

use std::any::TypeId;
use std::collections::BTreeMap;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use songline_model::quote;

use crate::exit::Failure;

/// Words of a command, in clap's order: flags, `--`, arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) flags: Vec<String>,
    pub(crate) arguments: Vec<String>,
}

/// Whether the words ask for help: before `--`, and before the rest that belongs to another program.
pub(crate) fn asks_for_help(command: &Command, words: &[String]) -> bool {
    let rest_is_foreign = takes_foreign_rest(command);
    let mut expects_value = false;
    for word in words {
        if word == "--" {
            return false;
        }
        if is_help(word) {
            return true;
        }
        let is_flag = dashed(word).is_some();
        if rest_is_foreign && !is_flag && !expects_value {
            // The first argument is this command's own, what follows is not.
            return false;
        }
        expects_value = is_flag && !word.contains('=') && dashed(word).is_some_and(|name| takes_word(command, name));
    }
    false
}

/// Whether a word is one of the flags that ask for help.
pub(crate) fn is_help(word: &str) -> bool {
    matches!(word, "-h" | "-help" | "--help" | "--h")
}

/// Separates flags from arguments.
///
/// # Errors
/// An unknown flag, a missing or a bad value, in Go's words.
pub(crate) fn separate(command: &Command, words: &[String]) -> Result<Words, Failure> {
    let mut flags = Given::default();
    let mut arguments = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" && (!takes_foreign_rest(command) || arguments.is_empty()) {
            arguments.extend(words.cloned());
            break;
        }
        let flag = dashed(word).filter(|_| !is_number(word) || arguments.is_empty());
        let Some(text) = flag else {
            arguments.push(word.clone());
            if takes_foreign_rest(command) {
                arguments.extend(words.cloned());
                break;
            }
            continue;
        };
        let (name, joined) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(Failure::flags(format!("bad flag syntax: {word}")));
        }
        let arg =
            find(command, name).ok_or_else(|| Failure::flags(format!("flag provided but not defined: -{name}")))?;
        let value = match joined {
            Some(value) => value,
            None if is_boolean(arg) => "true".to_owned(),
            None => words.next().cloned().ok_or_else(|| Failure::flags(format!("flag needs an argument: -{name}")))?,
        };
        flags.add(arg, name, value)?;
    }
    Ok(Words { flags: flags.written(), arguments })
}

/// Values of flags by the id of their argument, in order of appearance.
#[derive(Default)]
struct Given {
    order: Vec<String>,
    values: BTreeMap<String, (String, bool, Vec<String>)>,
}

impl Given {
    fn add(&mut self, arg: &Arg, name: &str, value: String) -> Result<(), Failure> {
        let switch = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse);
        let value = if is_boolean(arg) {
            let Some(truth) = boolean(&value) else {
                return Err(Failure::flags(format!(
                    "invalid boolean value {} for -{name}: parse error",
                    quote(&value)
                )));
            };
            truth.to_string()
        } else if is_integer(arg) {
            let Some(number) = integer(&value) else {
                return Err(Failure::flags(format!("invalid value {} for flag -{name}: parse error", quote(&value))));
            };
            number.to_string()
        } else {
            value
        };
        let id = arg.get_id().to_string();
        let written = match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(short)) => format!("-{short}"),
            (None, None) => return Ok(()),
        };
        let entry = self.values.entry(id.clone()).or_insert_with(|| {
            self.order.push(id);
            (written, switch, Vec::new())
        });
        if !matches!(arg.get_action(), ArgAction::Append) {
            entry.2.clear();
        }
        entry.2.push(value);
        Ok(())
    }

    fn written(&self) -> Vec<String> {
        let mut out = Vec::new();
        for id in &self.order {
            let (written, switch, values) = &self.values[id];
            for value in values {
                match (switch, value == "true") {
                    (true, true) => out.push(written.clone()),
                    (true, false) => {}
                    (false, _) => out.push(format!("{written}={value}")),
                }
            }
        }
        out
    }
}

/// Name, and value if joined, of a word that is a flag.
pub(crate) fn dashed(word: &str) -> Option<&str> {
    if word.len() < 2 {
        return None;
    }
    word.strip_prefix("--").or_else(|| word.strip_prefix('-'))
}

/// The flag with this name.
pub(crate) fn find<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    let mut letters = name.chars();
    let letter = letters.next().filter(|_| letters.next().is_none());
    command.get_arguments().filter(|arg| !arg.is_positional()).find(|arg| {
        arg.get_long() == Some(name)
            || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
            || letter.is_some_and(|letter| {
                arg.get_short() == Some(letter)
                    || arg.get_all_short_aliases().is_some_and(|aliases| aliases.contains(&letter))
            })
    })
}

/// Whether the next word is this flag's value.
pub(crate) fn takes_word(command: &Command, name: &str) -> bool {
    find(command, name).is_some_and(|arg| !is_boolean(arg))
}

fn is_boolean(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse)
        || arg.get_value_parser().type_id() == TypeId::of::<bool>()
}

fn is_integer(arg: &Arg) -> bool {
    let id = arg.get_value_parser().type_id();
    id == TypeId::of::<i64>() || id == TypeId::of::<u64>() || id == TypeId::of::<i32>() || id == TypeId::of::<usize>()
}

/// A boolean that takes a word of its own: `-memory-oversubscription false`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth(pub(crate) bool);

impl std::str::FromStr for Truth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        boolean(text).map(Truth).ok_or_else(|| "parse error".to_owned())
    }
}

/// Booleans as Go reads them.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Integers as Go reads those of flags: decimal, `0x`, `0o`, `0b`, a leading zero for octal, underscores between
/// digits after a prefix.
fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(sign * i128::from(number))
}

/// Whether a word with a dash is a number: an argument, if it comes after arguments.
fn is_number(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether everything after the first argument belongs to another program.
fn takes_foreign_rest(command: &Command) -> bool {
    command.get_positionals().any(Arg::is_trailing_var_arg_set)
}

/// Smallest number of arguments of a command.
pub(crate) fn fewest(command: &Command) -> usize {
    let several = |arg: &Arg| arg.get_num_args().filter(|range| range.max_values() > 1);
    let fewest = |arg: &Arg| several(arg).map_or(1, |range| range.min_values().max(1));
    command.get_positionals().filter(|arg| arg.is_required_set()).map(fewest).sum()
}

/// The sentence about a wrong number of arguments; `None` if the number is right.
pub(crate) fn wrong_number(command: &Command, given: usize) -> Option<String> {
    let (least, mut most) = (fewest(command), Some(0_usize));
    let mut names = Vec::new();
    for arg in command.get_positionals() {
        let range = arg.get_num_args().filter(|range| range.max_values() > 1);
        let largest = match range.map(|range| range.max_values()) {
            Some(usize::MAX) => None,
            None if matches!(arg.get_action(), ArgAction::Append) => None,
            bound => Some(bound.unwrap_or(1)),
        };
        most = most.zip(largest).map(|(most, largest)| most + largest);
        names.push(format!("<{}>", name_of(arg)));
    }
    if given >= least && most.is_none_or(|most| given <= most) {
        return None;
    }
    let names = names.join(" ");
    Some(match (least, most) {
        (_, Some(0)) => "This command takes no arguments".to_owned(),
        (0, Some(1)) => format!("This command takes either no arguments or one: {names}"),
        (1, Some(1)) => format!("This command takes one argument: {names}"),
        (1, Some(2)) => format!("This command takes one or two arguments: {names}"),
        (2, Some(2)) => format!("This command takes two arguments: {names}"),
        (1, None) => format!("This command takes at least one argument: {names}"),
        (_, None) => format!("This command takes at least {least} arguments: {names}"),
        (_, Some(most)) => format!("This command takes {least} to {most} arguments: {names}"),
    })
}

/// The name of an argument in usage lines.
pub(crate) fn name_of(arg: &Arg) -> String {
    match arg.get_value_names() {
        Some([first, ..]) => first.to_lowercase(),
        _ => arg.get_id().to_string(),
    }
}

/// A failure of clap in Go's words.
pub(crate) fn refusal(error: &clap::Error) -> Failure {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let reason = || std::error::Error::source(error).map_or_else(|| "parse error".to_owned(), ToString::to_string);
    match (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue)) {
        (Some(arg), Some(value)) => {
            let name = arg.trim_start_matches('-');
            let name = name.split([' ', '=']).next().unwrap_or(name);
            Failure::flags(format!("invalid value {} for flag -{name}: {}", quote(&value), reason()))
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Failure::flags(line.strip_prefix("error: ").unwrap_or(line))
        }
    }
}

#[cfg(test)]
mod tests;
