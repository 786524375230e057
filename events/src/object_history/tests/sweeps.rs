//! Swept evaluations: one record per entry, and a deletion in the history of each evaluation.

use songline_model::{EvalId, Evaluation};

use super::super::store::{How, Touch};
use super::*;

fn eval(n: u8, create_index: u64) -> Arc<Evaluation> {
    let namespace = if n.is_multiple_of(2) { "default" } else { "dev" };
    Arc::new(Evaluation {
        id: EvalId::from_bytes([n; 16]),
        namespace: namespace.into(),
        create_index,
        ..Evaluation::default()
    })
}

fn of_kind(kind: Kind, index: u64, changes: Vec<Change>) -> AppliedEntry {
    AppliedEntry { kind, ..entry(index, Ending::Done, changes) }
}

fn made(index: u64, ids: std::ops::Range<u8>) -> AppliedEntry {
    of_kind(Kind::EvalUpdate, index, ids.map(|n| Change::Eval { before: None, after: Some(eval(n, index)) }).collect())
}

fn swept(index: u64, ids: std::ops::Range<u8>, create_index: u64) -> AppliedEntry {
    of_kind(
        Kind::WorkContinue,
        index,
        ids.map(|n| Change::Eval { before: Some(eval(n, create_index)), after: None }).collect(),
    )
}

fn told(store: &Store, n: u8, from: u64, order: Order, max: usize) -> String {
    let object = Object::new(ObjectKind::Evaluation, EvalId::from_bytes([n; 16]));
    let changes = store.of_object(&object, from, order, max).unwrap();
    let line = |change: &Touch| {
        let what = match &change.how {
            How::Created => "made",
            How::Updated(_) => "changed",
            How::Deleted => "deleted",
        };
        format!("{} {} {what} in {}", change.index, change.kind.name(), change.namespace)
    };
    changes.iter().map(line).collect::<Vec<_>>().join(", ")
}

#[test]
fn swept_eval_has_its_deletion_in_its_object_history() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let entries = [
        made(2, 1..41),
        made(3, 41..81),
        swept(5, 1..30, 2),
        swept(6, 30..41, 2),
        swept(7, 41..80, 3),
        // A dropped evaluation that is created and swept once more.
        made(8, 1..21),
        swept(9, 1..21, 8),
    ];
    store.turn().write(&entries).unwrap();
    let check = |n: u8, from: u64, order: Order, max: usize, expected: &str| {
        assert_eq!(told(&store, n, from, order, max), expected)
    };
    let (ends, twice) =
        ("5 WorkContinue deleted in default", "8 EvalUpdate made in default, 9 WorkContinue deleted in default");
    check(22, 0, Order::OldestFirst, 9, &format!("2 EvalUpdate made in default, {ends}"));
    check(2, 0, Order::OldestFirst, 9, &format!("2 EvalUpdate made in default, {ends}, {twice}"));
    check(2, 6, Order::OldestFirst, 9, twice);
    check(2, 8, Order::NewestFirst, 2, &format!("8 EvalUpdate made in default, {ends}"));
    check(31, 0, Order::OldestFirst, 9, "2 EvalUpdate made in dev, 6 WorkContinue deleted in dev");
    check(79, 0, Order::OldestFirst, 9, "3 EvalUpdate made in dev, 7 WorkContinue deleted in dev");
    check(80, 0, Order::OldestFirst, 9, "3 EvalUpdate made in default");
    // The entry that created it may have been dropped with the beginning of the log; the deletion is still shown.
    store.forget_before(4, |_, _| Ok(None)).unwrap();
    check(22, 0, Order::OldestFirst, 9, ends);
    store.forget_before(6, |_, _| Ok(None)).unwrap();
    check(22, 0, Order::OldestFirst, 9, "");
    check(41, 0, Order::OldestFirst, 9, "7 WorkContinue deleted in dev");
}
