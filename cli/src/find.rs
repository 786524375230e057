//! From words to a command: groups, aliases, unknown words, help, and the command's own arguments.

use clap::Command;

use crate::args::{self, dashed, is_help};
use crate::entry::{Context, Entry, Kind};
use crate::exit::{Exit, Failure, Kind as FailureKind, Outcome};
use crate::general::General;
use crate::{complete, help, out};

/// The table of commands and the words that are run on it.
pub(crate) struct Line {
    table: Vec<&'static Entry>,
    program: String,
    words: Vec<String>,
    typed: Vec<String>,
}

impl Line {
    pub(crate) fn new(table: Vec<&'static Entry>, program: String, typed: Vec<String>) -> Self {
        let words = flags_behind_command(&typed);
        Self { table, program, words, typed }
    }

    /// Runs what the words say.
    pub(crate) fn run(mut self) -> Exit {
        match self.words.first().map(|word| word.trim_start_matches('-')) {
            Some("autocomplete-install") => return self.ended(complete::rewrite(&self.program, true)),
            Some("autocomplete-uninstall") => return self.ended(complete::rewrite(&self.program, false)),
            Some(_) | None => {}
        }
        self.replace_alias();
        if self.words.first().is_none_or(|word| is_help(word)) {
            help::commands(&self.table, &self.program);
            return if self.words.is_empty() { Exit::UNKNOWN } else { Exit::DONE };
        }
        let Some(entry) = self.entry() else { return self.unknown() };
        match &entry.kind {
            Kind::Group | Kind::Prefix | Kind::Alias(_) => self.group(entry.path, &self.words[entry.words()..]),
            Kind::Command { build, run } => {
                let command = build(
                    Command::new(entry.path).no_binary_name(true).disable_help_flag(true).disable_help_subcommand(true),
                );
                self.command(entry, command, *run)
            }
        }
    }

    /// The longest entry that the words begin with. A word that is the beginning of entries only is a group.
    fn entry(&self) -> Option<&'static Entry> {
        self.table.iter().filter(|entry| entry.begins(&self.words)).max_by_key(|entry| entry.words()).copied()
    }

    fn replace_alias(&mut self) {
        let Some(entry) = self.entry() else { return };
        let Kind::Alias(target) = entry.kind else { return };
        if entry.deprecated {
            out::warning(&format!(
                "WARNING! The {:?} command is deprecated. Please use \"{} {target}\" instead.\n",
                entry.path, self.program
            ));
        }
        let rest = self.words.split_off(entry.words());
        self.words = target.split(' ').map(str::to_owned).chain(rest).collect();
    }

    /// A group without a command that it has.
    fn group(&self, path: &str, rest: &[String]) -> Exit {
        if let Some(typed) = rest.first().filter(|word| !word.starts_with('-')) {
            let below = self
                .table
                .iter()
                .filter(|entry| !entry.hidden)
                .filter_map(|entry| entry.path.strip_prefix(path)?.strip_prefix(' ')?.split(' ').next());
            self.suggest(typed, path, below);
        }
        help::group(&self.table, &self.program, path);
        if rest.iter().any(|word| is_help(word)) { Exit::DONE } else { Exit::FAILED }
    }

    fn unknown(&self) -> Exit {
        let typed = &self.words[0];
        let names = self.table.iter().filter(|entry| !entry.hidden).map(|entry| entry.path);
        self.suggest(typed, "", names);
        help::commands(&self.table, &self.program);
        Exit::UNKNOWN
    }

    /// Names the command that a mistyped word is close to.
    fn suggest<'n>(&self, typed: &str, path: &str, names: impl Iterator<Item = &'n str>) {
        if let Some(near) = help::nearest(typed, names) {
            let before = if path.is_empty() { String::new() } else { format!("{path} ") };
            out::error(&format!("{typed:?} is no command. Did you mean \"{} {before}{near}\"?", self.program));
        }
    }

    /// The exit code of a step that is no command of the table.
    fn ended(&self, outcome: Outcome) -> Exit {
        outcome.unwrap_or_else(|failure| {
            out::failure(&failure);
            failure.exit(Exit::FAILED)
        })
    }

    /// Goes down the commands of an enum, then reads flags and arguments.
    fn command(&self, entry: &Entry, mut command: Command, run: fn(&clap::ArgMatches, &Context) -> Outcome) -> Exit {
        command.build();
        let mut leaf = &command;
        let mut path = entry.path.to_owned();
        let mut names = Vec::new();
        let mut rest = &self.words[entry.words()..];
        while leaf.has_subcommands() {
            let Some(next) = rest.first().and_then(|word| leaf.find_subcommand(word)) else {
                if let Some(typed) = rest.first().filter(|word| !word.starts_with('-')) {
                    self.suggest(typed, &path, leaf.get_subcommands().map(Command::get_name));
                }
                help::tree(&self.table, leaf, &self.program, &path);
                return if rest.iter().any(|word| is_help(word)) { Exit::DONE } else { Exit::FAILED };
            };
            names.push(rest[0].clone());
            path = format!("{path} {}", rest[0]);
            leaf = next;
            rest = &rest[1..];
        }
        if args::asks_for_help(leaf, rest) {
            help::command(&self.table, leaf, &self.program, &path);
            return Exit::DONE;
        }
        let (program, typed, commands) = (self.program.clone(), self.typed.clone(), self.table.clone());
        let context = Context { program, path, typed, commands };
        let result = read(&command, leaf, entry, names, rest).and_then(|matches| run(&matches, &context));
        match result {
            Ok(exit) => exit,
            Err(failure) => {
                let kind = failure.kind();
                complain(&failure, &context);
                if kind == FailureKind::Flags {
                    help::command(&self.table, leaf, &self.program, &context.path);
                }
                failure.exit(if kind == FailureKind::Plain { Exit::FAILED } else { entry.misuse })
            }
        }
    }
}

fn complain(failure: &Failure, context: &Context) {
    if !failure.message().is_empty() {
        out::failure(failure);
    }
    if failure.kind() == FailureKind::Arguments {
        out::error(&format!("For additional help try '{} {} -help'", context.program, context.path));
    }
}

/// The matches of clap for the command's flags and arguments.
fn read(
    command: &Command,
    leaf: &Command,
    entry: &Entry,
    mut names: Vec<String>,
    rest: &[String],
) -> Result<clap::ArgMatches, Failure> {
    let words = args::separate(leaf, rest)?;
    let set = |flag: &str| words.flags.iter().any(|given| given == flag);
    General::choose_colours(set("--no-color"), set("--force-color"));
    if let Some(sentence) = args::wrong_number(leaf, words.arguments.len()) {
        let missing = entry.missing.filter(|_| words.arguments.len() < args::fewest(leaf));
        return Err(Failure::arguments(missing.or(entry.arity).map_or(sentence, str::to_owned)));
    }
    names.extend(words.flags);
    if !words.arguments.is_empty() {
        names.push("--".to_owned());
        names.extend(words.arguments);
    }
    command.clone().try_get_matches_from(names).map_err(|error| args::refusal(&error))
}

/// Moves flags that stand before the command behind it: `-address=x status`.
fn flags_behind_command(typed: &[String]) -> Vec<String> {
    let general = <General as clap::Args>::augment_args(Command::new("general"));
    let mut at = 0;
    while let Some(name) = typed.get(at).and_then(|word| dashed(word)) {
        if is_help(&typed[at]) || args::find(&general, name.split('=').next().unwrap_or(name)).is_none() {
            return typed.to_vec();
        }
        at += if !name.contains('=') && args::takes_word(&general, name) { 2 } else { 1 };
    }
    if at >= typed.len() {
        return typed.to_vec();
    }
    let (flags, rest) = typed.split_at(at);
    let words = rest.iter().take_while(|word| !word.starts_with('-')).count();
    // Behind all words that may name the command: flags may follow arguments. A command of another program in `alloc
    // exec` is the exception, so its flags stand right behind its name.
    let words = if rest.iter().any(|word| word == "exec") {
        words.min(rest.iter().position(|w| w == "exec").map_or(words, |at| at + 1))
    } else {
        words
    };
    rest[..words].iter().chain(flags).chain(&rest[words..]).cloned().collect()
}
