//! Chains of migration steps: their validation, lookup and execution. The steps themselves are in `steps`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rmpv::Value;

use crate::{MigrationError, Subject};

/// Migrates the bytes of one subject from the shape introduced by schema `from` to that introduced by schema `to`.
pub(crate) struct Step {
    pub(crate) of: Subject,
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) change: fn(Value) -> Result<Value, String>,
}

/// Defect in the list of steps: a programming error, found before any bytes are read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// A schema from which no step leads on.
    #[error("{of}: no step leads from schema {from} on, the next one starts at {next}")]
    Gap {
        /// Subject of the steps.
        of: Subject,
        /// Schema where the chain ends.
        from: u16,
        /// Schema where the chain continues.
        next: u16,
    },
    /// A step that does not lead to a higher schema: following it would never end.
    #[error("{of}: the step from schema {from} leads to {to}, not forward")]
    Circle {
        /// Subject of the step.
        of: Subject,
        /// Schema that the step starts from.
        from: u16,
        /// Schema that the step leads to.
        to: u16,
    },
    /// Two steps from the same schema.
    #[error("{of}: two steps start at schema {from}")]
    Fork {
        /// Subject of the steps.
        of: Subject,
        /// Schema that both steps start from.
        from: u16,
    },
    /// A step to a schema newer than the one this version writes.
    #[error("{of}: a step leads to schema {to}, the newest is {newest}")]
    Beyond {
        /// Subject of the step.
        of: Subject,
        /// Schema that the step leads to.
        to: u16,
        /// The newest schema of rows.
        newest: u16,
    },
    /// The schema of rows was raised although no table changed.
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

/// The schema that the last step of a subject leads to; 1 without steps.
pub(crate) fn newest(steps: &[Step], of: Subject) -> u16 {
    steps.iter().filter(|step| step.of == of).map(|step| step.to).max().unwrap_or(1)
}

/// Runs the steps that bytes of schema `from` still need. A shape stays the same until the next step of its subject.
/// Fails if `from` is 0 or newer than `newest`, if the bytes are not msgpack, or if a step refuses them.
pub(crate) fn run<'a>(
    steps: &[Step],
    of: Subject,
    newest: u16,
    from: u16,
    bytes: &'a [u8],
) -> Result<Cow<'a, [u8]>, MigrationError> {
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
        value = (step.change)(value).map_err(|reason| MigrationError::Refused {
            of: of.to_string(),
            from: step.from,
            reason,
        })?;
    }
    let mut out = Vec::with_capacity(bytes.len());
    rmpv::encode::write_value(&mut out, &value).expect("writing to memory cannot fail");
    Ok(Cow::Owned(out))
}
