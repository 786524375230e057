//! Any sequence of commands keeps the invariants, and a long recorded log replays to the same digests from every
//! checkpoint. Proptest draws a sequence as one number per command, and shortens a failing one to the commands that it
//! needs.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

/// Environment variable with the seed of the recorded log, a number.
const SEED: &str = "SONGLINE_SEED";
const RECORDED: usize = 100_000;
const CHECKPOINT_EVERY: usize = 10_000;

/// The command that a number stands for in a state.
fn drawn(roll: u64, state: &State, raft_index: u64) -> Envelope {
    Dice::new(roll).envelope(state, raft_index)
}

#[test]
fn any_sequence_of_commands_keeps_the_invariants() {
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let ran = runner.run(&vec(any::<u64>(), 1..150), |rolls| {
        let mut state = State::new();
        for (raft_index, roll) in (2..).zip(rolls) {
            let envelope = drawn(roll, &state, raft_index);
            apply(&mut state, raft_index, &envelope);
        }
        consistent(&state);
        assert_equal(&through_a_checkpoint(&state), &state, "through a checkpoint");
        Ok(())
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
}

/// A log of encoded entries, with the live state at every checkpoint.
struct Recorded {
    entries: Vec<Vec<u8>>,
    /// Number of entries, state and bytes of each checkpoint.
    checkpoints: Vec<(usize, State, Vec<u8>)>,
    last: State,
}

fn saved(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.write_checkpoint(&mut bytes).expect("writes");
    bytes
}

fn record(rolls: &[u64]) -> Recorded {
    let mut log = Recorded { entries: Vec::new(), checkpoints: Vec::new(), last: State::new() };
    for (nth, &roll) in rolls.iter().enumerate() {
        let raft_index = nth as u64 + 2;
        // Half-way, the archive of the second checkpoint is restored.
        let envelope = match log.checkpoints.get(1) {
            Some((_, state, _)) if nth == rolls.len() / 2 => restore(state),
            _ => drawn(roll, &log.last, raft_index),
        };
        log.entries.push(envelope.encode().expect("encodes"));
        apply(&mut log.last, raft_index, &envelope);
        if (nth + 1) % CHECKPOINT_EVERY == 0 {
            consistent(&log.last);
            log.checkpoints.push((nth + 1, log.last.clone(), saved(&log.last)));
        }
    }
    log
}

fn replay(state: &mut State, entries: &[Vec<u8>], first: usize) {
    for (raft_index, bytes) in (first as u64 + 2..).zip(entries) {
        apply(state, raft_index, &Envelope::decode(bytes).expect("decodes"));
    }
}

#[test]
#[expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a test may be told its seed, and says it")]
fn recorded_log_of_all_kinds_replays_equally_from_every_checkpoint() {
    let seed: u64 = std::env::var(SEED).ok().map_or(4, |text| text.parse().expect("a seed is a number"));
    println!("{SEED}={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let rolls = vec(any::<u64>(), RECORDED).new_tree(&mut runner).expect("draws").current();
    let log = record(&rolls);

    let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
    for entry in &log.entries {
        *kinds.entry(Envelope::decode(entry).expect("decodes").command.kind()).or_default() += 1;
    }
    let missing: Vec<Kind> = Kind::ALL.iter().copied().filter(|kind| !kinds.contains_key(kind)).collect();
    assert_eq!(missing, [Kind::Digest], "every kind is in the log");

    // From zero, and with each checkpoint read on the way.
    let (mut zero, mut done) = (State::new(), 0);
    for (entries, state, bytes) in &log.checkpoints {
        let what = format!("seed {seed}, after {entries} entries");
        replay(&mut zero, &log.entries[done..*entries], done);
        assert_equal(&zero, state, &what);
        let read = State::read_checkpoint(&mut bytes.as_slice()).expect("reads");
        assert_equal(&read, state, &what);
        done = *entries;
    }
    assert_eq!(done, log.entries.len());
    assert_equal(&zero, &log.last, &format!("seed {seed}, from zero"));

    // From each checkpoint to the next one, which covers the whole log.
    for pair in log.checkpoints.windows(2) {
        let [(first, _, bytes), (last, state, _)] = pair else { continue };
        let mut read = State::read_checkpoint(&mut bytes.as_slice()).expect("reads");
        replay(&mut read, &log.entries[*first..*last], *first);
        assert_equal(&read, state, &format!("seed {seed}, from the checkpoint after {first} entries"));
    }
}
