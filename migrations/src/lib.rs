//! Old bytes to new bytes: what rows and commands of earlier versions need before this version can read them.
//!
//! A step is a pure function from one shape to the next over msgpack values, so that it goes on working when the types change. The steps of
//! a table or of a kind of command form one chain from schema 1 to the newest; `check` proves that at every start. Bytes of the newest shape
//! pass untouched. What a command does is not changed here: only how its body is written.

mod chain;
mod steps;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use chain::ChainError;
use steps::STEPS;

/// Version of the rows' shapes: what a checkpoint says about its rows, and what digests are compared within. A change of any table's row
/// raises it by one.
pub const SCHEMA: u16 = 3;

/// Whose bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The rows of a table, by its name. Their versions are those of [`SCHEMA`], where a table takes part only when its shape changes.
    Table(&'static str),
    /// The bodies of a kind of command, by its number. Each kind counts its own versions.
    Command(u16),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Table(name) => write!(f, "table `{name}`"),
            Subject::Command(kind) => write!(f, "command {kind}"),
        }
    }
}

/// Why bytes cannot be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A newer version wrote them.
    #[error("{of} has schema {schema}, this version knows up to {newest}")]
    Newer {
        /// Whose bytes.
        of: String,
        /// Their schema.
        schema: u16,
        /// The newest one that is known.
        newest: u16,
    },
    /// Schemas count from 1.
    #[error("{0} has schema 0, which never was")]
    Never(String),
    /// The bytes are no msgpack.
    #[error("{of} of schema {schema} is no msgpack")]
    Unreadable {
        /// Whose bytes.
        of: String,
        /// Their schema.
        schema: u16,
        #[source]
        source: rmpv::decode::Error,
    },
    /// A step found something else than its schema promises.
    #[error("{of} cannot go from schema {from} on: {reason}")]
    Refused {
        /// Whose bytes.
        of: String,
        /// Where the step starts.
        from: u16,
        /// What it found.
        reason: String,
    },
}

/// The bytes of a row of `table` as [`SCHEMA`] has them, given those of schema `from`.
pub fn row<'a>(table: &'static str, from: u16, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, MigrationError> {
    chain::run(STEPS, Subject::Table(table), SCHEMA, from, bytes)
}

/// The bytes of a body of the command `kind` as [`command_schema`] has them, given those of schema `from`.
pub fn command(kind: u16, from: u16, bytes: &[u8]) -> Result<Cow<'_, [u8]>, MigrationError> {
    chain::run(STEPS, Subject::Command(kind), command_schema(kind), from, bytes)
}

/// The newest version of the body of a kind of command.
pub fn command_schema(kind: u16) -> u16 {
    chain::newest(STEPS, Subject::Command(kind))
}

/// Whether every chain of steps leads from schema 1 to the newest, without gap, fork or circle.
pub fn check() -> Result<(), ChainError> {
    chain::check(STEPS, SCHEMA)
}

/// Everything that has steps: so that whoever knows tables and kinds can say whether they exist.
pub fn subjects() -> impl Iterator<Item = Subject> {
    STEPS.iter().map(|step| step.of)
}
