//! Random entries give the same rows, changes and digests on two states, through checkpoints in between, and on forks;
//! in every state the indexes, counts and invariants agree with the rows. A failure prints the seed.

mod csi;
mod dice;
mod event_sink;
mod quota;
mod recorded;
mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_commands::*;
use songline_model::*;

use crate::check::consistent;
use crate::job::summary;
use crate::story::{group, id, show_change};
use crate::{Applied, Change, Outcome, Rejected, State, Table, apply, apply_optimistically, pass};

mod acl;

use dice::Dice;

const SEEDS: u64 = 24;
const ENTRIES: u64 = 400;

fn through_a_checkpoint(state: &State) -> State {
    let mut bytes = Vec::new();
    let summary = state.write_checkpoint(&mut bytes).expect("writes");
    assert_eq!(summary.bytes, bytes.len() as u64);
    State::read_checkpoint(&mut bytes.as_slice()).expect("reads")
}

fn assert_equal(a: &State, b: &State, what: &str) {
    assert_eq!(a.table_digests(), b.table_digests(), "{what}: digests");
    assert_eq!(a.table_index, b.table_index, "{what}: indexes of tables");
    assert_eq!(
        (a.applied_index(), a.base(), a.applied_at()),
        (b.applied_index(), b.base(), b.applied_at()),
        "{what}: position"
    );
    assert!(a.evals().eq(b.evals()) && a.allocs().eq(b.allocs()) && a.jobs().eq(b.jobs()), "{what}: rows");
}

fn shown(applied: &Applied) -> Vec<String> {
    applied.changes.iter().map(show_change).collect()
}

#[test]
fn the_same_entries_give_the_same_state_with_checkpoints_in_between() {
    let mut kinds: BTreeMap<Kind, (u64, u64)> = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let (mut one, mut two) = (State::new(), State::new());
        for raft_index in 2..2 + ENTRIES {
            let what = format!("seed {seed}, entry {raft_index}");
            let envelope = dice.envelope(&one, raft_index);
            let before = one.clone();
            // The second state applies the encoded entries, as a replay does.
            let bytes = envelope.encode().expect("encodes");
            let replayed = Envelope::decode(&bytes).expect("decodes");
            let first = apply(&mut one, raft_index, &envelope);
            let second = apply(&mut two, raft_index, &replayed);
            assert_eq!(shown(&first), shown(&second), "{what}: changes");
            assert_eq!(first, second, "{what}");
            if first.changes.is_empty() {
                assert_eq!(before.table_digests(), one.table_digests(), "{what}: what has no change changed nothing");
            }
            let (done, refused) = kinds.entry(envelope.command.kind()).or_default();
            *if first.result.is_ok() { done } else { refused } += 1;
            if dice.chance(3) {
                two = through_a_checkpoint(&two);
                assert_equal(&one, &two, &what);
            }
            if dice.chance(5) {
                consistent(&one);
            }
        }
        consistent(&one);
        consistent(&two);
        assert_equal(&one, &two, &format!("seed {seed}"));
    }
    let missing: Vec<Kind> =
        Kind::ALL.iter().copied().filter(|kind| kinds.get(kind).is_none_or(|(done, _)| *done == 0)).collect();
    assert_eq!(missing, [Kind::Restore, Kind::Digest], "every kind of entry was applied: {kinds:?}");
}

#[test]
fn job_summary_counts_of_live_allocs_equal_a_recount() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed + 1000);
        let mut state = State::new();
        for raft_index in 2..2 + ENTRIES {
            let envelope = dice.envelope(&state, raft_index);
            // After a reconciliation or a collection, collected allocs can not be recounted.
            if !matches!(envelope.command.kind(), Kind::EvalReap | Kind::ReconcileJobSummaries) {
                apply(&mut state, raft_index, &envelope);
            }
        }
        for job in state.jobs() {
            let kept = state
                .job_summary(&job.namespace, &job.id)
                .and_then(|row| row.summary.clone())
                .expect("a job has a summary");
            for (group, again) in summary::recount(&state, job, None) {
                let kept = kept.get(&group).expect("groups stay");
                let alive = |counts: &TaskGroupSummary| [counts.starting, counts.running, counts.unknown, counts.lost];
                assert_eq!(alive(kept), alive(&again), "seed {seed}, job {} group {group}", job.id);
                assert!(
                    kept.failed >= again.failed && kept.complete >= again.complete,
                    "seed {seed}, job {}: these only grow",
                    job.id
                );
            }
        }
    }
}

#[test]
fn plan_applied_to_a_fork_equals_the_committed_plan() {
    let mut dice = Dice::new(7);
    let mut state = State::new();
    for raft_index in 2..200 {
        let envelope = dice.envelope(&state, raft_index);
        apply(&mut state, raft_index, &envelope);
        let (view, mut fork) = (state.clone(), state.clone());
        let plan = dice.plan(&state);
        let forked = apply_optimistically(&mut fork, &plan, Time::from_secs(1));
        assert_equal(&view, &state, "the fork's source");
        let mut committed = state.clone();
        let entry = Envelope {
            at: Time::from_secs(1),
            idempotency: None,
            ..Envelope::new(Time::from_secs(1), Actor::Anonymous, plan)
        };
        let applied = apply(&mut committed, raft_index + 1, &entry);
        assert_eq!(forked, applied.result.map(|_| ()), "entry {raft_index}");
        assert!(fork.allocs().eq(committed.allocs()) && fork.jobs().eq(committed.jobs()), "entry {raft_index}");
        assert!(
            fork.deployments().eq(committed.deployments()) && fork.job_summaries().eq(committed.job_summaries()),
            "entry {raft_index}"
        );
    }
}

fn namespace(name: &str) -> Envelope {
    let namespaces = vec![Namespace { name: name.into(), ..Namespace::default() }];
    Envelope::new(Time::from_secs(1), Actor::Anonymous, UpsertNamespaces { namespaces })
}

/// A restore as earlier versions wrote it: no row of the archive changes.
fn restore(state: &State) -> Envelope {
    let mut bytes = Vec::new();
    state.write_checkpoint(&mut bytes).expect("writes");
    let digest = blake3::hash(&bytes).to_hex().as_str().into();
    Envelope::new(
        Time::from_secs(2),
        Actor::Anonymous,
        RestoreArchive { archive: Blob(bytes), digest, ..RestoreArchive::default() },
    )
}

#[test]
fn restoring_never_takes_the_index_back() {
    let mut dice = Dice::new(3);
    let mut old = State::new();
    for raft_index in 2..300 {
        let envelope = dice.envelope(&old, raft_index);
        apply(&mut old, raft_index, &envelope);
    }
    let mut young = State::new();
    apply(&mut young, 2, &namespace("mine"));
    let applied = apply(&mut young, 3, &restore(&old));
    assert_eq!(applied.result, Ok(Outcome::Restored { archive_index: 299 }));
    assert_eq!(applied.changes, [Change::Restored]);
    assert_eq!((applied.index, young.applied_index(), young.base(), young.raft_index()), (300, 300, 297, 3));
    // All rows except those that a restore changes: deployments without a job end, and one-time tokens are dropped.
    let is_lasting = |table: Table| !matches!(table, Table::Deployment | Table::OneTimeToken);
    let lasting =
        |state: &State| state.table_digests().into_iter().filter(|(table, _)| is_lasting(*table)).collect::<Vec<_>>();
    assert_eq!(lasting(&young), lasting(&old));
    assert!(old.one_time_tokens().count() > 0 && young.one_time_tokens().count() == 0);
    assert!(Table::ALL.iter().all(|table| young.table_index(*table) == 300));
    consistent(&young);
    assert_eq!(apply(&mut young, 4, &namespace("next")).index, 301);
    assert_eq!(young.namespace("next").map(|row| row.modify_index), Some(301));

    // A log that is further on than the archive.
    let mut far = State::new();
    pass(&mut far, 5000);
    let applied = apply(&mut far, 5001, &restore(&old));
    assert_eq!((applied.index, far.applied_index(), far.base()), (5001, 5001, 0));
}

#[test]
fn restore_that_renews_allocs_makes_every_node_fetch_its_open_allocs_again() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let mut archived = State::new();
        for raft_index in 2..2 + ENTRIES {
            let envelope = dice.envelope(&archived, raft_index);
            apply(&mut archived, raft_index, &envelope);
        }
        let mut entry = restore(&archived);
        let Command::Restore(cmd) = &mut entry.command else { panic!("it restores") };
        cmd.renews_allocs = true;
        let mut state = State::new();
        let index = apply(&mut state, 1000, &entry).index;
        consistent(&state);
        let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for alloc in state.allocs() {
            let before = archived.alloc(alloc.id).expect("a restore adds no alloc");
            let renewed = Allocation { alloc_modify_index: index, modify_index: index, ..Allocation::clone(before) };
            let is_renewed = alloc.alloc_modify_index == index;
            assert!(is_renewed || before.client_terminal(), "seed {seed}: {:?} is open", alloc.id);
            assert_eq!(**alloc, if is_renewed { renewed } else { Allocation::clone(before) }, "seed {seed}");
            if let Some(node) = alloc.node_id {
                let newest = nodes.entry(node).or_default();
                *newest = alloc.alloc_modify_index.max(*newest);
            }
        }
        assert!(nodes.values().all(|newest| *newest == index), "seed {seed}: {nodes:?}, the entry is {index}");
        assert_eq!(state.allocs().count(), archived.allocs().count(), "seed {seed}");
    }
}

#[test]
fn a_damaged_archive_is_refused_and_changes_nothing() {
    let mut state = State::new();
    apply(&mut state, 2, &namespace("mine"));
    let digest = state.digest();
    let Command::Restore(archive) = restore(&state).command else { panic!("it is one") };
    for at in [0, 17, archive.archive.0.len() / 2, archive.archive.0.len() - 1] {
        let mut bytes = archive.archive.0.clone();
        bytes[at] ^= 1;
        for honest in [false, true] {
            let digest = if honest { blake3::hash(&bytes).to_hex().as_str().into() } else { archive.digest.clone() };
            let entry = Envelope::new(
                Time::from_secs(3),
                Actor::Anonymous,
                RestoreArchive { archive: Blob(bytes.clone()), digest, ..RestoreArchive::default() },
            );
            let raft_index = state.raft_index() + 1;
            let applied = apply(&mut state, raft_index, &entry);
            assert!(matches!(applied.result, Err(Rejected::ArchiveUnreadable(_))), "byte {at}: {:?}", applied.result);
        }
    }
    assert_eq!((state.digest(), state.applied_index()), (digest, 10));
}

#[test]
fn restore_cancels_deployments_without_a_job() {
    let mut state = State::new();
    let deployment =
        Deployment { id: DeploymentId::from_bytes(id("d1")), job_id: "gone".into(), ..Deployment::default() };
    let plan = ApplyPlan { deployment: Some(deployment), ..ApplyPlan::default() };
    apply(&mut state, 2, &Envelope::new(Time::from_secs(1), Actor::Anonymous, plan));
    let entry = restore(&state);
    apply(&mut state, 3, &entry);
    let row = state.deployment(DeploymentId::from_bytes(id("d1"))).expect("is there");
    assert_eq!((row.status, row.modify_index), (DeploymentStatus::Cancelled, 3));
}

#[test]
fn a_restore_that_was_refused_stays_refused_under_its_key() {
    let mut state = State::new();
    let mut entry = restore(&State::new());
    let Command::Restore(cmd) = &mut entry.command else { panic!("it restores") };
    cmd.archive = Blob(vec![1, 2, 3]);
    entry.idempotency = Some(Idempotency { key: "k".into(), ..Idempotency::default() });
    let first = apply(&mut state, 2, &entry);
    let again = apply(&mut state, 3, &entry);
    let texts = [&first, &again].map(|applied| applied.result.as_ref().expect_err("is refused").to_string());
    assert_eq!(texts[0], texts[1]);
    assert_eq!((first.repeated, again.repeated, again.index), (false, true, 2));
    assert_eq!((first.changes.len(), again.changes.len()), (1, 0));
}

#[test]
fn digests_are_compared_at_the_index_they_were_taken() {
    let mut state = State::new();
    apply(&mut state, 2, &namespace("a"));
    let total = Blob(state.digest().as_bytes().to_vec());
    apply(&mut state, 3, &namespace("b"));
    let mut ask = |schema, index, total: &Blob| {
        let raft_index = state.raft_index() + 1;
        let entry = Envelope::new(
            Time::from_secs(1),
            Actor::Anonymous,
            CheckDigest { schema, through: index, total: total.clone(), ..CheckDigest::default() },
        );
        apply(&mut state, raft_index, &entry).result.expect("is never refused")
    };
    assert_eq!(ask(crate::SCHEMA, 2, &total), Outcome::DigestMatches);
    assert!(matches!(ask(crate::SCHEMA, 3, &total), Outcome::DigestDiffers { index: 3, .. }));
    assert_eq!(ask(crate::SCHEMA + 1, 2, &total), Outcome::DigestNotCompared);
    assert_eq!(ask(crate::SCHEMA, 1, &total), Outcome::DigestNotCompared);
}

#[test]
fn view_is_not_changed_by_later_entries() {
    let mut state = State::new();
    apply(&mut state, 2, &namespace("a"));
    let view = state.clone();
    apply(&mut state, 3, &namespace("b"));
    assert_eq!((view.applied_index(), view.namespaces().count()), (2, 2));
    assert_eq!((state.applied_index(), state.namespaces().count()), (3, 3));
}

#[test]
fn nodes_are_found_by_pool_and_by_id_prefix() {
    let mut state = State::new();
    for (raft_index, (name, pool)) in (2..).zip([("n1", "gpu"), ("n2", "default"), ("o1", "gpu")]) {
        let node = Node { id: NodeId::from_bytes(id(name)), node_pool: pool.into(), ..Node::default() };
        apply(
            &mut state,
            raft_index,
            &Envelope::new(Time::from_secs(1), Actor::Anonymous, RegisterNode { node, create_node_pool: true }),
        );
    }
    let names =
        |nodes: Vec<&Arc<Node>>| nodes.iter().map(|node| crate::story::name(node.id.as_bytes())).collect::<Vec<_>>();
    assert_eq!(names(state.nodes_in_pool("gpu").collect()), ["n1", "o1"]);
    assert_eq!(names(state.nodes_in_pool("all").rev().collect()), ["o1", "n2", "n1"]);
    let prefix = |text| crate::IdPrefix::parse(text).expect("is a prefix");
    assert_eq!(names(state.nodes_with_prefix(&prefix("6e")).collect()), ["n1", "n2"]);
    assert_eq!(names(state.nodes_with_prefix(&prefix("6e32")).collect()), ["n2"]);
    assert_eq!(names(state.nodes_with_prefix(&prefix("6")).collect()), ["n1", "n2", "o1"]);
}

#[test]
#[should_panic(expected = "entries apply in order, once")]
fn an_entry_does_not_apply_twice() {
    let mut state = State::new();
    apply(&mut state, 2, &namespace("a"));
    apply(&mut state, 2, &namespace("a"));
}

/// Checks the memory of a row without its shared parts. Names of up to 23 bytes need no extra memory.
#[test]
fn alloc_and_eval_rows_stay_within_their_memory_limits() {
    // A leaf of an ordered map holds 16 entries and is on average two thirds full.
    let indexed = |bytes: usize| bytes * 3 / 2;
    let arc = 16;
    let alloc = size_of::<Allocation>() + arc + indexed(16 + 24) + 2 * indexed(16 + 8) + indexed(24) + 2 * indexed(32);
    assert!(alloc <= 1500, "an alloc costs {alloc} bytes, {} of them its row", size_of::<Allocation>());
    // The packed row, the rest of a usual evaluation, and its entries in the table and in two indexes.
    let packed = crate::eval::PACKED_BYTES;
    let eval = packed + arc + 48 + indexed(16 + 24) + 2 * indexed(24);
    assert!(eval <= 350, "an eval costs {eval} bytes, {packed} of them its row");
}
