//! Sources that a past state is rebuilt from, and the errors when they are gone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use songline_commands::{Actor, Envelope, UpsertNamespaces};
use songline_events::past::PastError;
use songline_log::{Committed, Payload, Position};
use songline_model::{Namespace, Time};
use songline_projections::State;
use tokio_util::sync::CancellationToken;

use super::{Files, PastStates, Rebuilt, STATES_MAX, rebuild, replay};

/// A log whose entries each create a namespace of their number, except the first; with the remaining entries and
/// checkpoints.
struct Fake {
    oldest: u64,
    checkpoints: BTreeMap<u64, Option<State>>,
}

fn entry(index: u64) -> Committed {
    let payload = if index == 0 {
        Payload::Blank
    } else {
        let namespaces = vec![Namespace { name: format!("n{index}").into(), ..Namespace::default() }];
        let envelope = Envelope::new(Time::from_secs(1), Actor::Anonymous, UpsertNamespaces { namespaces });
        Payload::Command(envelope.encode().unwrap().into())
    };
    Committed { position: Position { term: 1, index }, payload }
}

fn state_after(index: u64) -> State {
    let mut state = State::new();
    for index in 0..=index {
        replay(&mut state, &entry(index), |_| None);
    }
    state
}

impl Files for Fake {
    fn oldest_index(&self) -> u64 {
        self.oldest
    }

    fn checkpoints(&self) -> Result<Vec<u64>, PastError> {
        Ok(self.checkpoints.keys().rev().copied().collect())
    }

    fn checkpoint(&self, index: u64) -> Result<State, String> {
        self.checkpoints.get(&index).and_then(Clone::clone).ok_or_else(|| "damaged".to_owned())
    }

    fn entries(&self, range: Range<u64>) -> Result<impl Iterator<Item = Result<Committed, PastError>>, PastError> {
        if range.start < self.oldest {
            return Err(PastError::Failed(format!("entry {} is gone", range.start)));
        }
        Ok(range.map(|index| Ok(entry(index))))
    }
}

/// Rebuilds the state after `wanted` and compares a description of the result.
fn check(oldest: u64, sound: &[u64], damaged: &[u64], kept: Option<u64>, wanted: u64, expected: &str) {
    let sound = sound.iter().map(|index| (*index, Some(state_after(*index))));
    let fake = Fake { oldest, checkpoints: sound.chain(damaged.iter().map(|index| (*index, None))).collect() };
    let kept = kept.map(|index| Arc::new(state_after(index)));
    let told = match rebuild(&fake, kept, wanted, &CancellationToken::new(), Path::new("")) {
        Ok(Some(Rebuilt::State { state, from_kept })) => {
            assert_eq!(state.digest(), state_after(wanted).digest(), "the state after {wanted}");
            if from_kept { "from the kept one" } else { "rebuilt" }.to_owned()
        }
        Ok(Some(Rebuilt::BelowOldest(oldest))) => format!("oldest {oldest}"),
        Ok(None) => "given up".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(told, expected, "{wanted} of a log from {oldest}");
}

#[test]
fn past_state_is_rebuilt_from_a_whole_log_with_or_without_checkpoints() {
    check(0, &[], &[], None, 0, "rebuilt");
    check(0, &[], &[], None, 9, "rebuilt");
    check(0, &[4, 8], &[], None, 9, "rebuilt");
    check(0, &[4, 8], &[], None, 4, "rebuilt");
    check(0, &[4, 8], &[], None, 3, "rebuilt");
    check(0, &[], &[4, 8], None, 9, "rebuilt");
}

#[test]
fn cached_past_state_is_used_unless_a_checkpoint_is_nearer() {
    check(0, &[4], &[], Some(6), 9, "from the kept one");
    check(0, &[4], &[], Some(2), 9, "rebuilt");
    check(0, &[], &[4], Some(2), 9, "from the kept one");
}

#[test]
fn truncated_log_names_its_oldest_available_state() {
    check(6, &[5, 8], &[], None, 5, "rebuilt");
    check(6, &[5, 8], &[], None, 7, "rebuilt");
    check(6, &[5, 8], &[], None, 4, "oldest 5");
    check(6, &[8], &[], None, 7, "oldest 8");
    check(7, &[5, 8], &[], None, 7, "oldest 8");
    check(7, &[8], &[], Some(3), 7, "oldest 8");
}

#[test]
fn cancelled_rebuild_of_a_past_state_is_abandoned() {
    let gone = CancellationToken::new();
    gone.cancel();
    let fake = Fake { oldest: 0, checkpoints: BTreeMap::new() };
    assert!(matches!(rebuild(&fake, None, 9, &gone, Path::new("")), Ok(None)));
}

#[test]
fn cached_past_states_are_bounded_and_the_least_recently_used_line_is_dropped() {
    let past = PastStates::default();
    let at = |index| past.nearest(index, 0).map(|(state, line)| (state.raft_index(), line));
    past.keep(&Arc::new(state_after(1)), None);
    past.keep(&Arc::new(state_after(2)), Some(1));
    past.keep(&Arc::new(state_after(5)), None);
    assert_eq!((at(0), at(1), at(4), at(9)), (None, Some((1, 1)), Some((2, 1)), Some((5, 2))));
    at(2);
    past.keep(&Arc::new(state_after(7)), None);
    assert_eq!((at(6), at(9)), (Some((2, 1)), Some((7, 3))), "the line that was used least lately has gone");
    for index in 10..40 {
        past.keep(&Arc::new(state_after(index)), Some(3));
    }
    assert_eq!(past.kept.lock().states.len(), STATES_MAX);
}
