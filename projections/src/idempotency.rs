//! Keys of callers that want a write to run once, however often they send it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_commands::{Idempotency, KeepAnswer};
use songline_model::{Dur, Str, Time, Variable, VariableData, VariableMetadata};

use crate::rejected::{Refusal, Rejected};
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;
use crate::{Applied, Outcome};

/// How long a caller's key is remembered.
const KEPT_FOR: Dur = Dur::from_hours(24);
/// How many keys of callers are remembered; beyond, the oldest ones go.
const KEYS_MAX: usize = 100_000;
/// How long the key of a server that passed a write on is remembered. It retries for seconds.
const FORWARDED_KEPT_FOR: Dur = Dur::from_mins(2);
/// How many keys of servers are remembered, beside those of callers: some seconds of writes at full speed.
const FORWARDED_KEYS_MAX: usize = 65_536;
/// How many outlived keys one entry drops. More than one, so that the table shrinks again after a burst.
const DROPPED_PER_ENTRY_MAX: usize = 4;

/// One write that ran or was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Remembered {
    /// As the caller sent it.
    pub key: Str,
    /// What the caller sent with it.
    #[serde(with = "serde_bytes")]
    pub body_hash: [u8; 16],
    /// Index of the entry that ran or was refused.
    pub index: u64,
    /// Time of that entry.
    pub ran_at: Time,
    /// What a compare-and-set answered.
    pub cas: Option<bool>,
    /// What a written variable showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<Box<VariableMetadata>>,
    /// The variable that was not as the caller knew it, without what it held; all zero but its name when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Box<VariableMetadata>>,
    /// The refusal of a refused write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Box<Refused>>,
    /// The kept answer of a request that wrote nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Box<KeepAnswer>>,
    /// Whether the key is that of a server that passed the write on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
}

/// A refusal that is given again. Only its text and kind are stored, so that a variant of [`Rejected`] may be renamed or dropped.
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

/// A conflict stays one, whatever has become of the variable since. What is stored now is shown, which is a conflict, too: no index comes twice.
/// One that has gone is shown as it was met, as the caller may have expected none.
fn stored_or(state: &State, met: &VariableMetadata) -> Arc<Variable> {
    let as_met = || Arc::new(Variable { meta: met.clone(), encrypted: VariableData::default() });
    state.variable(&as_met().key()).cloned().unwrap_or_else(as_met)
}

impl Rules<Str, Remembered> for tables::Idempotency {
    fn key(row: &Remembered) -> Str {
        row.key.clone()
    }

    fn reindex(state: &mut State, before: Option<&Arc<Remembered>>, after: Option<&Arc<Remembered>>) {
        let by_index = |row: &Arc<Remembered>| (row.index, row.key.clone());
        let of = |row: Option<&Arc<Remembered>>, forwarded: bool| row.filter(|row| row.forwarded == forwarded).map(by_index);
        crate::index::move_key(&mut state.by.idempotency_by_index, of(before, false), of(after, false));
        crate::index::move_key(&mut state.by.forwarded_by_index, of(before, true), of(after, true));
    }
}

impl State {
    /// The write that ran under this key, if it is still remembered at `at`.
    pub fn remembered(&self, key: &str, at: Time) -> Option<&Arc<Remembered>> {
        let kept_for = |row: &Remembered| if row.forwarded { FORWARDED_KEPT_FOR } else { KEPT_FOR };
        self.tables.idempotency.get(&Str::new(key)).filter(|row| at.since(row.ran_at) < kept_for(row))
    }
}

/// The result of a write whose key is known: its first answer, or a refusal when the key belongs to another write. `None`: the key is not
/// known.
pub(crate) fn ran_before(tx: &Tx<'_>, sent: &Idempotency) -> Option<Applied> {
    let row = tx.remembered(&sent.key, tx.at())?;
    Some(if row.body_hash == sent.body_hash {
        Applied { index: row.index, result: row.result(tx), changes: Vec::new(), repeated: true }
    } else {
        let reused = Rejected::IdempotencyKeyReused(sent.key.clone());
        Applied { index: tx.index(), result: Err(reused), changes: Vec::new(), repeated: false }
    })
}

/// Remembers the result of a write, also a refusal: a late copy must not write after its caller was told that nothing was written.
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
            Outcome::Done | Outcome::Restored { .. } | Outcome::DigestMatches | Outcome::DigestDiffers { .. } | Outcome::DigestNotCompared,
        ) => {}
        Err(rejected) => row.refused = Some(Box::new(Refused { text: rejected.to_string().into(), kind: rejected.kind() })),
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
