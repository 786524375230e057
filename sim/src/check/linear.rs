//! Linearizability of a history of one register per key: is there an order of the operations, each between its call
//! and its return, in which every answer is right? The search of Wing and Gong with Lowe's memory of states already
//! tried. A register holds a value with a version, as a variable does: a write gives it a new version, above every
//! earlier one, and a write may be conditional on the version it replaces.

mod register;
mod search;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use register::{Answer, Held, Operation};

/// One operation of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Key of the register.
    pub key: String,
    /// Requested operation.
    pub operation: Operation,
    /// Time of the call, in any unit that all calls share.
    pub called: u64,
    /// Time of the return and the answer; `None` when the outcome is unknown: the operation may take effect at any
    /// later time, or never. An operation that is known to have had no effect does not belong into a history.
    pub returned: Option<(u64, Answer)>,
    /// The calling client, for messages.
    pub client: u64,
}

/// The operations on one key that no order explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLinearizable {
    /// Key of the register.
    pub key: String,
    /// Number of operations that could be ordered before the first one that fits nowhere.
    pub explained: usize,
    /// The operation at which every order fails, and those that were concurrent with it.
    pub around: Vec<Call>,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "the history of `{}` is not linearizable: {} operations can be ordered, then none of these fits",
            self.key, self.explained
        )?;
        for call in &self.around {
            writeln!(f, "  {call}")?;
        }
        Ok(())
    }
}

impl std::error::Error for NotLinearizable {}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} at {}: {}", self.client, self.called, self.operation)?;
        match &self.returned {
            Some((at, answer)) => write!(f, " -> {answer} at {at}"),
            None => f.write_str(" -> unknown"),
        }
    }
}

/// Checks every key of a history separately: registers are independent, so the history is linearizable if each key's
/// is.
pub fn check(history: &[Call]) -> Result<(), NotLinearizable> {
    let mut keys: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in history {
        keys.entry(&call.key).or_default().push(call);
    }
    keys.into_iter().try_for_each(|(key, calls)| check_key(key, &without_unseen(calls)))
}

fn check_key(key: &str, calls: &[&Call]) -> Result<(), NotLinearizable> {
    search::search(calls).map_err(|stuck| NotLinearizable {
        key: key.to_owned(),
        explained: stuck.explained,
        around: stuck.around.into_iter().map(|at| calls[at].clone()).collect(),
    })
}

/// Leaves out writes of unknown outcome whose value no operation can have seen: an order with such a write is valid
/// without it, too. They could be placed anywhere, and the search would try every place.
fn without_unseen(calls: Vec<&Call>) -> Vec<&Call> {
    let mut values = BTreeSet::new();
    let mut named = BTreeSet::new();
    let mut written = BTreeSet::new();
    for call in &calls {
        if let Operation::Cas { expected, .. } | Operation::DeleteCas { expected } = &call.operation {
            named.insert(*expected);
        }
        match &call.returned {
            Some((_, Answer::Held(Some(held)) | Answer::Conflict(Some(held)))) => {
                values.insert(held.value);
                named.remove(&held.version);
                written.insert(held.version);
            }
            Some((_, Answer::Wrote(version))) => {
                written.insert(*version);
            }
            Some((_, Answer::ConflictAt(version))) => {
                named.insert(*version);
            }
            Some((_, Answer::Held(None) | Answer::Conflict(None) | Answer::Deleted)) | None => {}
        }
    }
    // A version that a client guessed could be that of any write.
    let guessed = named.iter().any(|version| *version != 0 && !written.contains(version));
    let seen = |call: &&Call| match (&call.operation, &call.returned) {
        (Operation::Set { value } | Operation::Cas { value, .. }, None) => guessed || values.contains(value),
        (Operation::Get, None) => false,
        (
            Operation::Get
            | Operation::Set { .. }
            | Operation::Cas { .. }
            | Operation::Delete
            | Operation::DeleteCas { .. },
            _,
        ) => true,
    };
    calls.into_iter().filter(seen).collect()
}
