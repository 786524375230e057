//! The slow oracle: a plain register, on which every order of a small history is tried.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::super::register::Held;
use super::super::{Answer, Call, Operation};

/// Effect and answer of a correct register. Versions increase by one.
pub fn act(held: &mut Option<Held>, version: &mut u64, operation: &Operation) -> Answer {
    let current = held.map_or(0, |held| held.version);
    let mut write = |value| {
        *version += 1;
        *held = Some(Held { value, version: *version });
        Answer::Wrote(*version)
    };
    match operation {
        Operation::Get => Answer::Held(*held),
        Operation::Set { value } => write(*value),
        Operation::Cas { expected, value } if *expected == current => write(*value),
        Operation::DeleteCas { expected } if *expected != current => Answer::Conflict(*held),
        Operation::Cas { .. } => Answer::Conflict(*held),
        Operation::Delete | Operation::DeleteCas { .. } => {
            *held = None;
            Answer::Deleted
        }
    }
}

/// Replaces one answer by another possible one.
pub fn spoil(rng: &mut SmallRng, calls: &mut [Call]) {
    let versions = u64::try_from(calls.len()).unwrap();
    let at = rng.random_range(0..calls.len());
    let any = |rng: &mut SmallRng| {
        let held = Held { value: 1 + rng.random_range(0..versions), version: 1 + rng.random_range(0..versions) };
        rng.random_bool(0.7).then_some(held)
    };
    let seen = any(rng);
    let operation = calls[at].operation;
    if let Some((_, answer)) = &mut calls[at].returned {
        *answer = match answer {
            Answer::Held(_) => Answer::Held(seen),
            Answer::Wrote(version) => Answer::Wrote((*version + rng.random_range(0..3)).saturating_sub(1).max(1)),
            Answer::Conflict(_) | Answer::ConflictAt(_) => Answer::Conflict(seen),
            Answer::Deleted if matches!(operation, Operation::DeleteCas { .. }) => Answer::Conflict(seen),
            Answer::Deleted => Answer::Deleted,
        };
    }
}

/// Whether some order of all answered operations and some of the unknown ones explains every answer. Versions may be
/// any increasing numbers: a version that was not answered is chosen when it is first seen.
pub fn some_order_explains(calls: &[Call]) -> bool {
    extend(calls, &mut Vec::new())
}

fn extend(calls: &[Call], order: &mut Vec<usize>) -> bool {
    if explains(calls, order) == Some(true) {
        return true;
    }
    for next in 0..calls.len() {
        if !order.contains(&next) {
            order.push(next);
            if in_time(calls, order) && explains(calls, order).is_some() && extend(calls, order) {
                return true;
            }
            order.pop();
        }
    }
    false
}

/// Whether the order respects time: no operation comes after one that was called after its return.
fn in_time(calls: &[Call], order: &[usize]) -> bool {
    let Some((last, before)) = order.split_last() else { return true };
    let too_late =
        |at: &usize| calls[*last].returned.as_ref().is_some_and(|(returned, _)| *returned < calls[*at].called);
    !before.iter().any(too_late)
}

/// `None` when an answer is wrong; otherwise whether all answered operations are in the order.
fn explains(calls: &[Call], order: &[usize]) -> Option<bool> {
    // A version is a number, or still undetermined above a bound.
    let mut held: Option<(u64, Result<u64, ()>)> = None;
    let mut floor = 0;
    let settle = |held: &mut Option<(u64, Result<u64, ()>)>, floor: &mut u64, version: u64| match held {
        None => version == 0,
        Some((_, Ok(known))) => *known == version,
        Some((_, open)) => {
            let fits = version > *floor;
            if fits {
                *open = Ok(version);
                *floor = version;
            }
            fits
        }
    };
    for at in order {
        let answer = calls[*at].returned.as_ref().map(|(_, answer)| *answer);
        let written = match calls[*at].operation {
            Operation::Get => None,
            Operation::Set { value } => Some((Some(value), None)),
            Operation::Cas { expected, value } => Some((Some(value), Some(expected))),
            Operation::Delete => Some((None, None)),
            Operation::DeleteCas { expected } => Some((None, Some(expected))),
        };
        let seen = match answer {
            Some(Answer::Held(seen) | Answer::Conflict(seen)) => Some(seen),
            // The registers of these tests always return the value of a conflict.
            Some(Answer::Wrote(_) | Answer::ConflictAt(_) | Answer::Deleted) | None => None,
        };
        if let Some(seen) = seen {
            let same = seen.map(|seen| seen.value) == held.map(|(value, _)| value);
            if !same || !settle(&mut held, &mut floor, seen.map_or(0, |seen| seen.version)) {
                return None;
            }
            if let Some((_, expected)) = written
                && expected == Some(seen.map_or(0, |seen| seen.version))
            {
                return None;
            }
            continue;
        }
        let Some((value, expected)) = written else { continue };
        if let Some(expected) = expected
            && !settle(&mut held, &mut floor, expected)
        {
            if answer.is_some() {
                return None;
            }
            continue;
        }
        held = value.map(|value| (value, Err(())));
        if let Some(Answer::Wrote(version)) = answer
            && (value.is_none() || !settle(&mut held, &mut floor, version))
        {
            return None;
        }
    }
    let answered = |at: usize| calls[at].returned.is_some();
    Some((0..calls.len()).filter(|at| answered(*at)).all(|at| order.contains(&at)))
}
