//! Content of the record, and reads of it.

mod sweeps;

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;
use songline_commands::Kind;
use songline_model::{
    AllocClientStatus, AllocatedResources, Allocation, Job, JobId, JobStatus, Namespace, Node, NodeStatus, Time,
};
use songline_projections::{Change, tables};

use super::store::Store;
use super::{FieldChange, Object, ObjectDiff, ObjectHistory, ObjectKind, Order, diff};
use crate::entry::{AppliedEntry, Ending};
use crate::nouns::Announce;

fn job(count: i64, modify_index: u64) -> Arc<Job> {
    let group = songline_model::TaskGroup { name: "g".into(), count, ..Default::default() };
    Arc::new(Job {
        id: JobId("web".into()),
        namespace: "default".into(),
        task_groups: Some(vec![group]),
        modify_index,
        ..Job::default()
    })
}

fn entry(index: u64, ending: Ending, changes: Vec<Change>) -> AppliedEntry {
    let kind =
        if changes.iter().any(|change| matches!(change, Change::Restored)) { Kind::Restore } else { Kind::JobRegister };
    AppliedEntry {
        index,
        at: Time::from_secs(i64::try_from(index).unwrap() * 10),
        kind,
        ending,
        changes: Arc::new(changes),
    }
}

fn written(before: Option<Arc<Job>>, after: Option<Arc<Job>>) -> Vec<Change> {
    vec![Change::Job { before, after }]
}

/// Writes the entries of a job that is created at 2, scaled at 4 and dropped at 7; the entry at 5 is refused.
fn record(store: &Store) {
    let entries = [
        entry(2, Ending::Done, written(None, Some(job(1, 2)))),
        entry(4, Ending::Done, written(Some(job(1, 2)), Some(job(3, 4)))),
        entry(5, Ending::Refused("no".to_owned()), Vec::new()),
        entry(6, Ending::Repeated(4), Vec::new()),
        entry(7, Ending::Done, written(Some(job(3, 4)), None)),
    ];
    store.turn().write(&entries).unwrap();
}

fn show(store: &Store, from: u64, order: Order, max: usize) -> String {
    let changes = store.of_object(&Object::job("default", "web"), from, order, max).unwrap();
    let lines = changes.iter().map(|change| {
        let diff = match &change.diff {
            ObjectDiff::Created(fields) => {
                format!("created with {}", fields.iter().map(|field| field.path.as_str()).collect::<Vec<_>>().join(" "))
            }
            ObjectDiff::Updated(fields) => fields
                .iter()
                .map(|field| format!("{}: {} -> {}", field.path, field.old, field.new))
                .collect::<Vec<_>>()
                .join(", "),
            ObjectDiff::Deleted => "deleted".to_owned(),
        };
        format!("{} {}: {diff}\n", change.index, change.kind.name())
    });
    lines.collect()
}

fn check(from: u64, order: Order, max: usize, expected: Expect) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store);
    expected.assert_eq(&show(&store, from, order, max));
}

#[test]
fn the_changes_of_a_job_are_read_in_both_orders_and_in_pages() {
    check(
        0,
        Order::OldestFirst,
        9,
        expect![[r#"
            2 JobRegister: created with Namespace ID Type TaskGroups Update Status
            4 JobRegister: TaskGroups[0].Count: 1 -> 3
            7 JobRegister: deleted
        "#]],
    );
    check(
        4,
        Order::NewestFirst,
        1,
        expect![[r#"
            4 JobRegister: TaskGroups[0].Count: 1 -> 3
        "#]],
    );
    check(8, Order::OldestFirst, 9, expect![""]);
}

#[test]
fn log_entry_is_found_by_time_and_has_its_ending() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store);
    let after = |secs| store.first_after(Time::from_secs(secs)).unwrap();
    assert_eq!(
        [after(0), after(19), after(20), after(45), after(69), after(70)],
        [Some(2), Some(2), Some(4), Some(5), Some(7), None]
    );
    let ending = |index| store.entry(index).unwrap().map(|mark| mark.ending);
    assert_eq!(ending(3), None, "it held no command");
    assert_eq!(ending(4), Some(Ending::Done));
    assert_eq!(ending(5), Some(Ending::Refused("no".to_owned())));
    assert_eq!(ending(6), Some(Ending::Repeated(4)));
}

#[test]
fn object_history_forgets_entries_dropped_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store);
    store.forget_before(5).unwrap();
    assert_eq!(show(&store, 0, Order::OldestFirst, 9), "7 JobRegister: deleted\n");
    assert_eq!(store.entry(4).unwrap(), None);
    drop(store);
    assert_eq!(Store::open(dir.path()).unwrap().oldest(), 5);
}

#[test]
fn archive_restore_starts_a_new_object_history() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store);
    store
        .turn()
        .write(&[
            entry(9, Ending::Done, vec![Change::Restored]),
            entry(10, Ending::Done, written(None, Some(job(1, 10)))),
        ])
        .unwrap();
    assert!(
        show(&store, 0, Order::OldestFirst, 9).starts_with("10 JobRegister: created"),
        "the job of before is another one"
    );
    assert_eq!((store.floor(), store.oldest(), store.last()), (9, 9, 10));
}

#[test]
fn replayed_entry_is_not_recorded_again_in_the_object_history() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store);
    store.turn().write(&[entry(7, Ending::Refused("another".to_owned()), Vec::new())]).unwrap();
    assert_eq!(store.entry(7).unwrap().unwrap().ending, Ending::Done);
}

#[tokio::test]
async fn published_changes_survive_a_close_of_the_object_history() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = Arc::new(Namespace { name: "one".into(), ..Namespace::default() });
    let object_history = ObjectHistory::open(dir.path()).unwrap();
    object_history.begin(1).unwrap();
    object_history.publish(entry(1, Ending::Done, vec![Change::Namespace { before: None, after: Some(namespace) }]));
    object_history.pass(2);
    assert!(object_history.reach(2, std::time::Duration::from_secs(60)).await);
    object_history.close();
    drop(object_history);
    let again = ObjectHistory::open(dir.path()).unwrap();
    again.begin(3).unwrap();
    let found = again.of_object(&Object::new(ObjectKind::Namespace, "one"), 0, Order::OldestFirst, 9).unwrap();
    assert_eq!(found.iter().map(|change| change.index).collect::<Vec<_>>(), [1]);
    again.begin(9).unwrap();
    assert_eq!(again.oldest(), 9, "what is between is not known, so nothing before it counts");
}

#[test]
fn replay_of_recorded_entries_does_not_wait_for_the_queue() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = Arc::new(Namespace { name: "one".into(), ..Namespace::default() });
    let change = Change::Namespace { before: None, after: Some(namespace) };
    let large = |index| entry(index, Ending::Done, vec![change.clone(); super::QUEUED_CHANGES_MAX]);
    for _ in 0..2 {
        let object_history = ObjectHistory::open(dir.path()).unwrap();
        object_history.begin(1).unwrap();
        (1..=3).for_each(|index| object_history.publish(large(index)));
        object_history.write_through().unwrap();
        assert_eq!(object_history.entry(3).unwrap().unwrap().ending, Ending::Done);
    }
}

/// Checks that leaving equal parts out of the comparison hides and invents no difference.
fn check_parts<T: Announce>(before: &T::Row, after: &T::Row) {
    let text = |row: &T::Row| serde_json::to_string(&T::view(row)).unwrap();
    let (part_before, part_after) = T::without_equal_parts(before, after).expect("some part is equal");
    let (mut whole, mut part) = (Vec::new(), Vec::new());
    assert!(diff::between(&text(before), &text(after), &mut whole).unwrap());
    assert!(diff::between(&text(&part_before), &text(&part_after), &mut part).unwrap());
    assert_eq!(String::from_utf8(part), String::from_utf8(whole));
    assert!(text(&part_after).len() < text(after).len(), "nothing was left out");
}

#[test]
fn comparison_without_equal_parts_finds_the_same_differences() {
    let [mut before, mut after] = [(); 2].map(|()| Allocation {
        allocated_resources: Some(Arc::default()),
        metrics: Some(Arc::default()),
        ..Allocation::default()
    });
    after.client_status = AllocClientStatus::Running;
    check_parts::<tables::Allocs>(&before, &after);
    // The old form of resources is computed from the new one.
    let mut resources = AllocatedResources::default();
    resources.shared.disk_mb = 7;
    after.allocated_resources = Some(Arc::new(resources));
    check_parts::<tables::Allocs>(&before, &after);
    (before.metrics, before.allocated_resources) = (None, after.allocated_resources.clone());
    check_parts::<tables::Allocs>(&before, &after);

    let dead = Job { status: JobStatus::Dead, ..Job::clone(&job(3, 4)) };
    check_parts::<tables::Jobs>(&job(3, 4), &dead);

    let node = Node { attributes: Some(Arc::new([("kernel.name".into(), "linux".into())].into())), ..Node::default() };
    check_parts::<tables::Nodes>(&node, &Node { status: NodeStatus::Ready, ..node.clone() });
}

#[test]
fn object_diff_names_field_paths_and_list_positions() {
    let check = |before: serde_json::Value,
                 after: serde_json::Value,
                 expected: &[(&str, serde_json::Value, serde_json::Value)]| {
        let mut json = Vec::new();
        let differ = diff::between(&before.to_string(), &after.to_string(), &mut json).unwrap();
        let fields: Vec<FieldChange> = if differ { serde_json::from_slice(&json).unwrap() } else { Vec::new() };
        let found: Vec<_> = fields.into_iter().map(|field| (field.path, field.old, field.new)).collect();
        let expected: Vec<_> =
            expected.iter().map(|(path, old, new)| ((*path).to_owned(), old.clone(), new.clone())).collect();
        assert_eq!(found, expected);
    };
    check(json!({"A": 1, "ModifyIndex": 3}), json!({"A": 1, "ModifyIndex": 4}), &[]);
    check(
        json!({"A": {"B": 1, "C": 2}}),
        json!({"A": {"B": 2, "D": 3}}),
        &[("A.B", json!(1), json!(2)), ("A.D", json!(null), json!(3)), ("A.C", json!(2), json!(null))],
    );
    check(json!({"L": [1, 2]}), json!({"L": [1, 2, 3]}), &[("L[2]", json!(null), json!(3))]);
    check(
        json!({"L": [1, 2, 3]}),
        json!({"L": [2, 3, 4]}),
        &[("L[0]", json!(1), json!(null)), ("L[2]", json!(null), json!(4))],
    );
    check(json!({"L": [1, 2]}), json!({"L": [1, 5]}), &[("L[1]", json!(2), json!(5))]);
}
