//! Idempotency keys: a write that a client sends several times runs once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_commands::{Idempotency, KeepAnswer};
use songline_model::{Dur, Str, Time, Variable, VariableData, VariableMetadata};

use crate::rejected::{Refusal, Rejected};
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;
use crate::{Applied, Outcome};

/// Time for which a client's key is remembered.
const KEPT_FOR: Dur = Dur::from_hours(24);
/// Largest number of clients' keys; the oldest ones are dropped.
const KEYS_MAX: usize = 100_000;
/// Time for which a server's key for a forwarded write is remembered. The server retries for seconds.
const FORWARDED_KEPT_FOR: Dur = Dur::from_mins(2);
/// Largest number of servers' keys, in addition to clients' keys: some seconds of writes at full speed.
const FORWARDED_KEYS_MAX: usize = 65_536;
/// Largest number of expired or surplus keys that one entry drops. More than one, so that the table shrinks again after
/// a burst.
const DROPPED_PER_ENTRY_MAX: usize = 4;

/// Record of one write that ran or was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Remembered {
    /// The key as the client sent it.
    pub key: Str,
    /// Hash of the request body that the client sent.
    #[serde(with = "serde_bytes")]
    pub body_hash: [u8; 16],
    /// Index of the entry that ran or was refused.
    pub index: u64,
    /// Time of that entry.
    pub ran_at: Time,
    /// Result of a compare-and-set.
    pub cas: Option<bool>,
    /// Metadata of a written variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<Box<VariableMetadata>>,
    /// Metadata of the variable that conflicted, without its items; all zero except namespace and path when there was
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Box<VariableMetadata>>,
    /// The refusal of a refused write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Box<Refused>>,
    /// The kept response to a request that wrote nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Box<KeepAnswer>>,
    /// Whether the key is a server's, for a forwarded write.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
}

/// A refusal to repeat. Only text and kind are stored, so that a variant of [`Rejected`] may be renamed or removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Refused {
    /// Text that clients see.
    pub text: Str,
    /// Kind of the refusal.
    pub kind: Refusal,
}

impl Remembered {
    fn result(&self, state: &State) -> Result<Outcome, Rejected> {
        if let Some(refused) = &self.refused {
            return Err(Rejected::Repeated(Refused::clone(refused)));
        }
        if let Some(answer) = &self.answer {
            return Ok(Outcome::Answered(KeepAnswer::clone(answer)));
        }
        Ok(match (&self.variable, &self.conflict) {
            (Some(meta), _) => Outcome::VariableWritten(VariableMetadata::clone(meta)),
            (None, Some(met)) => Outcome::VariableConflict(stored_or(state, met)),
            (None, None) => self.cas.map_or(Outcome::Done, Outcome::Cas),
        })
    }
}

/// The variable to show for a repeated conflict. A conflict stays a conflict, whatever happened to the variable since.
/// The stored variable conflicts as well, since its modify index differs from the expected one; a deleted variable is
/// shown as it was met, since the client may have expected that there is none.
fn stored_or(state: &State, met: &VariableMetadata) -> Arc<Variable> {
    let as_met = || Arc::new(Variable { meta: met.clone(), encrypted: VariableData::default() });
    state.variable(&as_met().key()).cloned().unwrap_or_else(as_met)
}

impl Rules<Str, Remembered> for tables::Idempotency {
    fn key(row: &Remembered) -> Str {
        row.key.clone()
    }

    #[cfg(test)]
    fn in_story(row: &Remembered) -> String {
        format!("key:{}", row.key)
    }

    fn reindex(state: &mut State, before: Option<&Arc<Remembered>>, after: Option<&Arc<Remembered>>) {
        let by_index = |row: &Arc<Remembered>| (row.index, row.key.clone());
        let of =
            |row: Option<&Arc<Remembered>>, forwarded: bool| row.filter(|row| row.forwarded == forwarded).map(by_index);
        crate::index::move_key(&mut state.by.idempotency_by_index, of(before, false), of(after, false));
        crate::index::move_key(&mut state.by.forwarded_by_index, of(before, true), of(after, true));
    }
}

impl State {
    /// The write that ran under this key, unless the key has expired at `at`.
    pub fn remembered(&self, key: &str, at: Time) -> Option<&Arc<Remembered>> {
        let kept_for = |row: &Remembered| if row.forwarded { FORWARDED_KEPT_FOR } else { KEPT_FOR };
        self.tables.idempotency.get(&Str::new(key)).filter(|row| at.since(row.ran_at) < kept_for(row))
    }
}

/// The result of a repeated write: its first result, or a refusal when the key belongs to another write. `None`: the
/// key is unknown or expired.
pub(crate) fn ran_before(tx: &Tx<'_>, sent: &Idempotency) -> Option<Applied> {
    let row = tx.remembered(&sent.key, tx.at())?;
    Some(if row.body_hash == sent.body_hash {
        Applied { index: row.index, result: row.result(tx), changes: Vec::new(), repeated: true }
    } else {
        let reused = Rejected::IdempotencyKeyReused(sent.key.clone());
        Applied { index: tx.index(), result: Err(reused), changes: Vec::new(), repeated: false }
    })
}

/// Remembers the result of a write. Refusals are remembered too: a late copy must not write after the client was told
/// that nothing was written.
pub(crate) fn remember(tx: &mut Tx<'_>, sent: &Idempotency, result: &Result<Outcome, Rejected>) {
    let (index, ran_at) = (tx.index(), tx.at());
    let Idempotency { key, body_hash, forwarded } = sent.clone();
    let mut row = Remembered { key, body_hash, index, ran_at, forwarded, ..Remembered::default() };
    match result {
        Ok(Outcome::VariableConflict(stored)) => row.conflict = Some(Box::new(stored.meta.clone())),
        Ok(Outcome::VariableWritten(meta)) => row.variable = Some(Box::new(meta.clone())),
        Ok(Outcome::Cas(set)) => row.cas = Some(*set),
        Ok(Outcome::Answered(answer)) => row.answer = Some(Box::new(answer.clone())),
        Ok(
            Outcome::Done
            | Outcome::Restored { .. }
            | Outcome::DigestMatches
            | Outcome::DigestDiffers { .. }
            | Outcome::DigestNotCompared,
        ) => {}
        Err(rejected) => {
            row.refused = Some(Box::new(Refused { text: rejected.to_string().into(), kind: rejected.kind() }))
        }
    }
    tx.put::<tables::Idempotency>(row);
    let keys_max = if forwarded { FORWARDED_KEYS_MAX } else { KEYS_MAX };
    for _ in 0..DROPPED_PER_ENTRY_MAX {
        let by_index = if forwarded { &tx.by.forwarded_by_index } else { &tx.by.idempotency_by_index };
        let Some((_, oldest)) = by_index.get_min().cloned() else {
            return;
        };
        let too_many = by_index.len() > keys_max;
        let outlived = tx.remembered(&oldest, tx.at()).is_none();
        if !outlived && !too_many {
            return;
        }
        tx.delete::<tables::Idempotency>(&oldest);
    }
}

#[cfg(test)]
mod tests;
