//! Chains of steps: how they are checked, found and run. Which steps there are is in `steps`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rmpv::Value;

use crate::{MigrationError, Subject};

/// Brings the bytes of one subject from the shape that schema `from` began to the one that schema `to` begins.
pub(crate) struct Step {
    pub(crate) of: Subject,
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) change: fn(Value) -> Result<Value, String>,
}

/// Why the steps of this version cannot be right: a mistake in the program, found before any byte is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Bytes of a schema that nothing leads on from.
    #[error("{of}: no step leads from schema {from} on, the next one starts at {next}")]
    Gap {
        /// Whose steps.
        of: Subject,
        /// Where the chain ends.
        from: u16,
        /// Where it goes on.
        next: u16,
    },
    /// A step that does not lead forward: following it would never end.
    #[error("{of}: the step from schema {from} leads to {to}, not forward")]
    Circle {
        /// Whose step.
        of: Subject,
        /// Where it starts.
        from: u16,
        /// Where it leads.
        to: u16,
    },
    /// Two ways on from one schema.
    #[error("{of}: two steps start at schema {from}")]
    Fork {
        /// Whose steps.
        of: Subject,
        /// Where both start.
        from: u16,
    },
    /// A step into a schema that this version does not write.
    #[error("{of}: a step leads to schema {to}, the newest is {newest}")]
    Beyond {
        /// Whose step.
        of: Subject,
        /// Where it leads.
        to: u16,
        /// The newest schema of rows.
        newest: u16,
    },
    /// The schema of rows was raised and no table changed.
    #[error("no table has a step to schema {0}")]
    Empty(u16),
}

/// Checks all chains; `rows` is the newest schema of rows.
pub(crate) fn check(steps: &[Step], rows: u16) -> Result<(), ChainError> {
    let mut chains: BTreeMap<Subject, BTreeMap<u16, u16>> = BTreeMap::new();
    for &Step { of, from, to, .. } in steps {
        if to <= from {
            return Err(ChainError::Circle { of, from, to });
        }
        if matches!(of, Subject::Table(_)) && to > rows {
            return Err(ChainError::Beyond { of, to, newest: rows });
        }
        if chains.entry(of).or_default().insert(from, to).is_some() {
            return Err(ChainError::Fork { of, from });
        }
    }
    for (of, chain) in chains {
        let mut reached = 1;
        for (next, to) in chain {
            if next != reached {
                return Err(ChainError::Gap { of, from: reached, next });
            }
            reached = to;
        }
    }
    let changes = |schema: &u16| steps.iter().any(|step| matches!(step.of, Subject::Table(_)) && step.to == *schema);
    match (2..=rows).find(|schema| !changes(schema)) {
        Some(schema) => Err(ChainError::Empty(schema)),
        None => Ok(()),
    }
}

/// The schema that the last step of a subject leads to.
pub(crate) fn newest(steps: &[Step], of: Subject) -> u16 {
    steps.iter().filter(|step| step.of == of).map(|step| step.to).max().unwrap_or(1)
}

/// Runs the steps that bytes of schema `from` still need. A shape stays the same until the next step of its subject.
pub(crate) fn run<'a>(steps: &[Step], of: Subject, newest: u16, from: u16, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, MigrationError> {
    if from > newest {
        return Err(MigrationError::Newer { of: of.to_string(), schema: from, newest });
    }
    if from == 0 {
        return Err(MigrationError::Never(of.to_string()));
    }
    let mut needed: Vec<&Step> = steps.iter().filter(|step| step.of == of && step.to > from).collect();
    if needed.is_empty() {
        return Ok(Cow::Borrowed(bytes));
    }
    needed.sort_by_key(|step| step.to);
    let unreadable = |source| MigrationError::Unreadable { of: of.to_string(), schema: from, source };
    let mut value = rmpv::decode::read_value(&mut &bytes[..]).map_err(unreadable)?;
    for step in needed {
        value = (step.change)(value).map_err(|reason| MigrationError::Refused { of: of.to_string(), from: step.from, reason })?;
    }
    let mut out = Vec::with_capacity(bytes.len());
    rmpv::encode::write_value(&mut out, &value).expect("writing to memory cannot fail");
    Ok(Cow::Owned(out))
}
