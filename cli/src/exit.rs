//! Ends of commands: exit codes and failures as types.

/// Result of a command.
pub type Outcome = Result<Exit, Failure>;

/// Exit code of a command that said all it had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    /// Done.
    pub const DONE: Exit = Exit(0);
    /// An error, or the answer "no" of a command whose exit code is an answer.
    pub const FAILED: Exit = Exit(1);
    /// The watched evaluation could not place everything.
    pub const NOT_PLACED: Exit = Exit(2);
    /// Unknown command.
    pub const UNKNOWN: Exit = Exit(127);

    /// Any other code.
    pub const fn code(code: u8) -> Exit {
        Exit(code)
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// Failure of a command: a message on standard error and exit code 1.
#[derive(Debug)]
pub struct Failure {
    message: String,
    exit: Option<Exit>,
    kind: Kind,
}

/// Text printed beside the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// Wrong arguments: a second line names the help.
    Arguments,
    /// Wrong flags: the usage text follows on standard output.
    Flags,
}

impl Failure {
    /// A failure with its whole message, of one or more lines.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: None, kind: Kind::Plain }
    }

    /// A failure of what was tried: `Error querying jobs: REASON`.
    pub fn of(tried: &str, reason: impl std::fmt::Display) -> Self {
        Self::new(format!("{tried}: {reason}"))
    }

    /// Wrong arguments: a second line points to the command's help.
    pub fn arguments(message: impl Into<String>) -> Self {
        Self { kind: Kind::Arguments, ..Self::new(message) }
    }

    /// Wrong flags: the usage text follows on standard output.
    pub(crate) fn flags(message: impl Into<String>) -> Self {
        Self { kind: Kind::Flags, ..Self::new(message) }
    }

    /// The same failure with another exit code.
    pub fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = Some(exit);
        self
    }

    /// The message. Empty: everything was said before.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The exit code, `default` if the failure does not name one.
    pub(crate) fn exit(&self, default: Exit) -> Exit {
        self.exit.unwrap_or(default)
    }
}

/// Names what was tried, of a result that failed.
pub trait Tried<T> {
    /// The value, or a failure `TRIED: REASON`.
    ///
    /// # Errors
    /// The failure that this makes of the error.
    fn tried(self, what: &str) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> Tried<T> for Result<T, E> {
    fn tried(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::of(what, error))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        error.downcast().unwrap_or_else(|error| Self::of("Error", format_args!("{error:#}")))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::of("Error", error)
    }
}
