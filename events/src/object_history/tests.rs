//! Content of the record, and reads of it.

mod sweeps;

use std::path::Path;
use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;
use songline_commands::Kind;
use songline_model::{Job, JobId, Namespace, Node, NodeEvent, Time};
use songline_projections::{Change, tables};

use super::store::Store;
use super::versions::{self, Versions};
use super::{FieldChange, Object, ObjectDiff, ObjectHistory, ObjectKind, Order, diff};
use crate::entry::{AppliedEntry, Ending};
use crate::hub::{EventHub, HubConfig, StoredHistory};
use crate::keys::{self, Folder, MemoryFolder};
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

/// An event hub that encodes at once, whose first entry is at `first_index`.
fn hub(first_index: u64) -> Arc<EventHub> {
    let history = StoredHistory::open(Folder::Memory(MemoryFolder::default())).unwrap();
    EventHub::start(HubConfig::default(), Some(Arc::new(history)), first_index).unwrap()
}

/// A store and the events of its entries.
struct Recorded {
    store: Store,
    events: Arc<EventHub>,
}

impl Recorded {
    fn open(path: &Path) -> Self {
        Self { store: Store::open(path).unwrap(), events: hub(1) }
    }

    fn write(&self, entries: &[AppliedEntry]) {
        self.store.turn().write(entries).unwrap();
        entries.iter().for_each(|entry| self.events.publish(entry.index, entry.kind, Arc::clone(&entry.changes)));
    }

    /// Writes the entries of a job that is created at 2, scaled at 4 and dropped at 7; the entry at 5 is refused.
    fn write_life_of_a_job(&self) {
        self.write(&[
            entry(2, Ending::Done, written(None, Some(job(1, 2)))),
            entry(4, Ending::Done, written(Some(job(1, 2)), Some(job(3, 4)))),
            entry(5, Ending::Refused("no".to_owned()), Vec::new()),
            entry(6, Ending::Repeated(4), Vec::new()),
            entry(7, Ending::Done, written(Some(job(3, 4)), None)),
        ]);
    }

    fn forget_before(&self, index: u64) {
        let mut payloads = self.events.payloads();
        let row = |object: &Object, index| {
            let row = versions::row(&mut payloads, object, index)?;
            Ok(row.map(|row| row.to_string().into_bytes()))
        };
        self.store.forget_before(index, row).unwrap();
        self.events.forget_before(index).unwrap();
    }

    fn show(&self, from: u64, order: Order, max: usize) -> String {
        let object = Object::job("default", "web");
        let mut versions = Versions::new(&self.events, &object);
        let touches = self.store.of_object(&object, from, order, max).unwrap();
        let changes = touches.into_iter().filter_map(|touch| versions.change(touch).unwrap());
        let lines = changes.map(|change| {
            let diff = match &change.diff {
                ObjectDiff::Created(fields) => {
                    let paths: Vec<&str> = fields.iter().map(|field| field.path.as_str()).collect();
                    format!("created with {}", paths.join(" "))
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
}

fn check(from: u64, order: Order, max: usize, expected: Expect) {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    recorded.write_life_of_a_job();
    expected.assert_eq(&recorded.show(from, order, max));
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
    check(
        3,
        Order::OldestFirst,
        1,
        expect![[r#"
            4 JobRegister: TaskGroups[0].Count: 1 -> 3
        "#]],
    );
    check(8, Order::OldestFirst, 9, expect![""]);
}

#[test]
fn update_is_compared_with_a_row_that_no_covered_entry_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    let object_of_an_archive = job(1, 6);
    recorded.write(&[
        entry(7, Ending::Done, vec![Change::Restored]),
        entry(8, Ending::Done, written(Some(object_of_an_archive), Some(job(2, 8)))),
        entry(9, Ending::Done, written(Some(job(2, 8)), Some(job(3, 9)))),
    ]);
    assert_eq!(
        recorded.show(u64::MAX, Order::NewestFirst, 9),
        "9 JobRegister: TaskGroups[0].Count: 2 -> 3\n8 JobRegister: TaskGroups[0].Count: 1 -> 2\n"
    );
}

#[test]
fn update_keeps_its_difference_when_the_entry_before_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    let counted =
        |before, at, after, index| entry(index, Ending::Done, written(Some(job(before, at)), Some(job(after, index))));
    recorded.write(&[
        entry(2, Ending::Done, written(None, Some(job(1, 2)))),
        counted(1, 2, 2, 3),
        counted(2, 3, 4, 5),
        counted(4, 5, 8, 6),
    ]);
    recorded.forget_before(4);
    let expected = "5 JobRegister: TaskGroups[0].Count: 2 -> 4\n6 JobRegister: TaskGroups[0].Count: 4 -> 8\n";
    assert_eq!(recorded.show(0, Order::OldestFirst, 9), expected);
    recorded.forget_before(6);
    recorded.write(&[counted(8, 6, 9, 7)]);
    recorded.forget_before(7);
    assert_eq!(recorded.show(0, Order::OldestFirst, 9), "7 JobRegister: TaskGroups[0].Count: 8 -> 9\n");
}

#[test]
fn changes_reach_back_as_far_as_the_event_history() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    recorded.write_life_of_a_job();
    let later = Recorded { events: hub(5), store: recorded.store };
    assert_eq!(later.show(0, Order::OldestFirst, 9), "7 JobRegister: deleted\n");
}

#[test]
fn record_in_the_form_of_the_first_release_is_filled_anew() {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = keys::Store::open(&dir.path().into()).unwrap();
        db.keys("touches", None).unwrap().insert("job\0default\0web\0........", [1]).unwrap();
        db.keys("marks", None).unwrap().insert("last", 7_u64.to_be_bytes()).unwrap();
    }
    let recorded = Recorded::open(dir.path());
    assert_eq!((recorded.store.oldest(), recorded.store.last(), recorded.store.is_lost()), (8, 7, true));
    recorded.write(&[entry(8, Ending::Done, written(Some(job(1, 2)), Some(job(2, 8))))]);
    drop(recorded.store);
    let again = Recorded { store: Store::open(dir.path()).unwrap(), events: recorded.events };
    assert_eq!(again.show(0, Order::OldestFirst, 9), "8 JobRegister: TaskGroups[0].Count: 1 -> 2\n");
}

#[test]
fn log_entry_is_found_by_time_and_has_its_ending() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    recorded.write_life_of_a_job();
    let store = &recorded.store;
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
    let recorded = Recorded::open(dir.path());
    recorded.write_life_of_a_job();
    recorded.forget_before(5);
    assert_eq!(recorded.show(0, Order::OldestFirst, 9), "7 JobRegister: deleted\n");
    assert_eq!(recorded.store.entry(4).unwrap(), None);
    drop(recorded);
    assert_eq!(Store::open(dir.path()).unwrap().oldest(), 5);
}

#[test]
fn archive_restore_starts_a_new_object_history() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    recorded.write_life_of_a_job();
    recorded.write(&[
        entry(9, Ending::Done, vec![Change::Restored]),
        entry(10, Ending::Done, written(None, Some(job(1, 10)))),
    ]);
    assert!(
        recorded.show(0, Order::OldestFirst, 9).starts_with("10 JobRegister: created"),
        "the job of before is another one"
    );
    let store = &recorded.store;
    assert_eq!((store.floor(), store.oldest(), store.last()), (9, 9, 10));
}

#[test]
fn replayed_entry_is_not_recorded_again_in_the_object_history() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    recorded.write_life_of_a_job();
    let store = &recorded.store;
    store.turn().write(&[entry(7, Ending::Refused("another".to_owned()), Vec::new())]).unwrap();
    assert_eq!(store.entry(7).unwrap().unwrap().ending, Ending::Done);
}

#[tokio::test]
async fn published_changes_survive_a_close_of_the_object_history() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = Arc::new(Namespace { name: "one".into(), ..Namespace::default() });
    let object_history = ObjectHistory::open(dir.path()).unwrap();
    object_history.begin(1).unwrap();
    let (events, written) =
        (hub(1), entry(1, Ending::Done, vec![Change::Namespace { before: None, after: Some(namespace) }]));
    events.publish(1, written.kind, Arc::clone(&written.changes));
    object_history.publish(written);
    object_history.pass(2);
    assert!(object_history.reach(2, std::time::Duration::from_secs(60)).await);
    object_history.close();
    drop(object_history);
    let again = ObjectHistory::open(dir.path()).unwrap();
    again.begin(3).unwrap();
    let object = Object::new(ObjectKind::Namespace, "one");
    let found = again.of_object(&events, &object, 0, Order::OldestFirst, 9).unwrap();
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

#[test]
fn object_diff_names_field_paths_and_list_positions() {
    let check = |before: serde_json::Value,
                 after: serde_json::Value,
                 expected: &[(&str, serde_json::Value, serde_json::Value)]| {
        let fields: Vec<FieldChange> = diff::between(&before, &after);
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

#[test]
fn change_without_a_shown_field_is_left_out_and_takes_no_room_in_a_page() {
    let folder = Folder::Memory(MemoryFolder::default());
    let (object_history, events) = (ObjectHistory::open(folder).unwrap(), hub(1));
    object_history.begin(1).unwrap();
    let rows = [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6)];
    let mut before = None;
    for (count, index) in rows {
        let after = Some(job(count, index));
        let entry = entry(index, Ending::Done, written(before, after.clone()));
        events.publish(index, entry.kind, Arc::clone(&entry.changes));
        object_history.publish(entry);
        before = after;
    }
    let check = |from, order, max, expected: &[u64]| {
        let found = object_history.of_object(&events, &Object::job("default", "web"), from, order, max).unwrap();
        assert_eq!(found.iter().map(|change| change.index).collect::<Vec<u64>>(), expected);
    };
    check(0, Order::OldestFirst, 2, &[1, 4]);
    check(2, Order::OldestFirst, 2, &[4, 6]);
    check(5, Order::NewestFirst, 9, &[4, 1]);
    check(6, Order::NewestFirst, 1, &[6]);
}

#[test]
fn update_of_a_row_that_the_cluster_began_with_has_its_difference() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    recorded.write(&[entry(3, Ending::Done, written(Some(job(1, 1)), Some(job(2, 3))))]);
    assert_eq!(recorded.show(0, Order::OldestFirst, 9), "3 JobRegister: TaskGroups[0].Count: 1 -> 2\n");
}

#[test]
fn report_about_allocations_counts_as_the_entry_that_wrote_the_node() {
    let told = Node { modify_index: 2, last_alloc_update_index: 9, ..Node::default() };
    assert_eq!(tables::Nodes::written_at(&told), 9);
    let event = NodeEvent { create_index: 12, ..NodeEvent::default() };
    assert_eq!(tables::Nodes::written_at(&Node { events: Some(vec![event]), ..told }), 12);
}

#[test]
fn truncation_waits_for_a_writer_that_begins_the_record_anew() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = Recorded::open(dir.path());
    recorded.write_life_of_a_job();
    let store = &recorded.store;
    std::thread::scope(|scope| {
        let mut turn = store.turn();
        let truncation = scope.spawn(|| store.forget_before(5, |_, _| Ok(None)));
        // The bound is set before the truncation waits for the turn.
        while store.kept_from() < 5 {
            std::thread::yield_now();
        }
        turn.write(&[entry(9, Ending::Done, vec![Change::Restored])]).unwrap();
        drop(turn);
        truncation.join().unwrap().unwrap();
    });
    assert_eq!((store.floor(), store.oldest(), store.last()), (9, 9, 9));
}
