//! Old bytes to new bytes: what rows of earlier versions need before this version can read them.
//!
//! A step is a pure function from one schema to the next over the row's msgpack, so that it goes on working when the types change. Rows
//! of the current schema pass untouched. Commands are not migrated: their bytes keep their meaning for ever.

use std::borrow::Cow;

use rmpv::Value;

#[cfg(test)]
mod tests;

/// Version of the rows' shapes: what a checkpoint says about its rows, and what digests are compared within.
pub const SCHEMA: u16 = 1;

/// Brings the rows of one table from schema `from` to `from + 1`.
struct Step {
    table: &'static str,
    from: u16,
    change: fn(Value) -> Result<Value, String>,
}

/// Every step there is. Schema 1 is the first, so there is none.
const STEPS: &[Step] = &[];

/// Why a row cannot be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A newer version wrote it.
    #[error("a row of `{table}` has schema {schema}, this version knows up to {SCHEMA}")]
    Newer {
        /// The row's table.
        table: String,
        /// The row's schema.
        schema: u16,
    },
    /// The bytes are no msgpack.
    #[error("a row of `{table}` of schema {schema} is no msgpack")]
    Unreadable {
        /// The row's table.
        table: String,
        /// The row's schema.
        schema: u16,
        #[source]
        source: rmpv::decode::Error,
    },
    /// A step found something else than its schema promises.
    #[error("a row of `{table}` cannot go from schema {from} on: {reason}")]
    Refused {
        /// The row's table.
        table: String,
        /// Where the step starts.
        from: u16,
        /// What it found.
        reason: String,
    },
}

/// The bytes of a row of `table` as schema `SCHEMA` has them, given those of schema `from`.
pub fn row<'a>(table: &str, from: u16, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, MigrationError> {
    run(STEPS, SCHEMA, table, from, bytes)
}

fn run<'a>(steps: &[Step], to: u16, table: &str, from: u16, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, MigrationError> {
    let named = || table.to_owned();
    if from > to {
        return Err(MigrationError::Newer { table: named(), schema: from });
    }
    let mut needed = (from..to).filter_map(|schema| steps.iter().find(|step| step.table == table && step.from == schema)).peekable();
    if needed.peek().is_none() {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut value =
        rmpv::decode::read_value(&mut &bytes[..]).map_err(|source| MigrationError::Unreadable { table: named(), schema: from, source })?;
    for step in needed {
        value = (step.change)(value).map_err(|reason| MigrationError::Refused { table: named(), from: step.from, reason })?;
    }
    let mut out = Vec::with_capacity(bytes.len());
    rmpv::encode::write_value(&mut out, &value).expect("writing to memory cannot fail");
    Ok(Cow::Owned(out))
}
