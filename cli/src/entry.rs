//! Rows of the table of commands.

use clap::{ArgMatches, Args, FromArgMatches, Subcommand};

use crate::exit::{Exit, Outcome};

/// A command whose arguments have been read.
pub trait Run: Sized {
    /// Runs the command on a runtime of one thread.
    fn run(self, context: &Context) -> impl Future<Output = Outcome>;
}

/// A command that makes its own runtime, or needs none.
pub trait RunHere: Sized {
    /// Runs the command on the main thread.
    fn run_here(self, context: &Context) -> Outcome;
}

/// The command as it was typed.
#[derive(Debug, Clone)]
pub struct Context {
    /// Name of this program, as it was called: `nomad`, `songline`.
    pub program: String,
    /// Words of the command, such as `node status`, after aliases were replaced.
    pub path: String,
    /// All words after the program's name.
    pub typed: Vec<String>,
    /// All commands of the program.
    pub(crate) commands: Vec<&'static Entry>,
}

/// One command, group or alias.
pub struct Entry {
    pub(crate) path: &'static str,
    pub(crate) about: &'static str,
    pub(crate) hidden: bool,
    pub(crate) deprecated: bool,
    /// Exit code of wrong arguments.
    pub(crate) misuse: Exit,
    /// Sentence about a wrong number of arguments, if not the one made of their names.
    pub(crate) arity: Option<&'static str>,
    /// Sentence about too few arguments, if not the same.
    pub(crate) missing: Option<&'static str>,
    pub(crate) kind: Kind,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path)
    }
}

pub(crate) enum Kind {
    /// A word that only has commands below it.
    Group,
    /// The same, but no command itself: its help is the list of what is below it.
    Prefix,
    /// Another name of the command with this path.
    Alias(&'static str),
    Command {
        build: fn(clap::Command) -> clap::Command,
        run: fn(&ArgMatches, &Context) -> Outcome,
    },
}

impl Entry {
    /// A command. `path` has all of its words: `namespace list`.
    pub const fn command<C: Args + Run>(path: &'static str, about: &'static str) -> Self {
        let run = |matches: &ArgMatches, context: &Context| blocking(read::<C>(matches), context);
        Self::new(path, about, Kind::Command { build: C::augment_args, run })
    }

    /// Commands of one enum, below `path`.
    pub const fn tree<C: Subcommand + Run>(path: &'static str, about: &'static str) -> Self {
        let run = |matches: &ArgMatches, context: &Context| blocking(read::<C>(matches), context);
        Self::new(path, about, Kind::Command { build: C::augment_subcommands, run })
    }

    /// A command that makes its own runtime.
    pub const fn here<C: Args + RunHere>(path: &'static str, about: &'static str) -> Self {
        let run = |matches: &ArgMatches, context: &Context| read::<C>(matches)?.run_here(context);
        Self::new(path, about, Kind::Command { build: C::augment_args, run })
    }

    /// Commands of one enum below `path` that need no runtime.
    pub const fn tree_here<C: Subcommand + RunHere>(path: &'static str, about: &'static str) -> Self {
        let run = |matches: &ArgMatches, context: &Context| read::<C>(matches)?.run_here(context);
        Self::new(path, about, Kind::Command { build: C::augment_subcommands, run })
    }

    /// A group: its commands are entries whose paths begin with its path.
    pub const fn group(path: &'static str, about: &'static str) -> Self {
        Self::new(path, about, Kind::Group)
    }

    /// A group that is no command itself, such as `operator root`.
    pub const fn prefix(path: &'static str, about: &'static str) -> Self {
        Self::new(path, about, Kind::Prefix)
    }

    /// Another name of a command.
    pub const fn alias(path: &'static str, target: &'static str) -> Self {
        Self::new(path, "", Kind::Alias(target))
    }

    /// Leaves the entry out of lists.
    pub const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// An old name: hidden, and a note on standard error names the new one.
    pub const fn deprecated(mut self) -> Self {
        self.hidden = true;
        self.deprecated = true;
        self
    }

    /// Sets the exit code of wrong flags and arguments, which is 1.
    pub const fn misuse(mut self, exit: Exit) -> Self {
        self.misuse = exit;
        self
    }

    /// Sets the sentence about a wrong number of arguments.
    pub const fn arity(mut self, sentence: &'static str) -> Self {
        self.arity = Some(sentence);
        self
    }

    /// Sets the sentence about too few arguments, where it differs from that of [`Self::arity`].
    pub const fn missing(mut self, sentence: &'static str) -> Self {
        self.missing = Some(sentence);
        self
    }

    const fn new(path: &'static str, about: &'static str, kind: Kind) -> Self {
        Self { path, about, hidden: false, deprecated: false, misuse: Exit::FAILED, arity: None, missing: None, kind }
    }

    /// Whether the words begin with those of the entry's path.
    pub(crate) fn begins(&self, words: &[String]) -> bool {
        let mut words = words.iter();
        self.path.split(' ').all(|part| words.next().is_some_and(|word| word == part))
    }

    pub(crate) fn words(&self) -> usize {
        self.path.split(' ').count()
    }
}

fn read<C: FromArgMatches>(matches: &ArgMatches) -> Result<C, crate::Failure> {
    C::from_arg_matches(matches).map_err(|error| crate::args::refusal(&error))
}

fn blocking<C: Run>(command: Result<C, crate::Failure>, context: &Context) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command?.run(context))
}
