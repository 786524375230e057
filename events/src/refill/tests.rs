//! A refilled store equals one that was never lost: after a refill from the beginning of the log, from a checkpoint,
//! after a restored archive, and after interruptions. One replay fills both stores.

use std::path::Path;
use std::sync::Arc;

use songline_commands::Kind;
use songline_model::{NodePool, Time};
use songline_projections::Change;

use super::{Reached, Refill, Refilled, Refiller};
use crate::entry::{AppliedEntry, Ending};
use crate::hub::{Batch, EventHub, History, HubConfig, StoredHistory};
use crate::object_history::{Object, ObjectHistory, ObjectKind, Order};

/// An entry of a log; every third entry holds no command. A `restored` entry replaces the state.
fn entry(index: u64, restored: bool) -> Option<AppliedEntry> {
    let (kind, changes) = match (restored, index % 3) {
        (true, _) => (Kind::Restore, vec![Change::Restored]),
        (false, 0) => return None,
        (false, _) => {
            let name = format!("pool {}", index % 5);
            (
                Kind::NodePoolUpsert,
                vec![Change::NodePool {
                    before: None,
                    after: Some(Arc::new(NodePool { name: name.into(), ..NodePool::default() })),
                }],
            )
        }
    };
    Some(AppliedEntry {
        index,
        at: Time::from_secs(index.cast_signed()),
        kind,
        ending: Ending::Done,
        changes: Arc::new(changes),
    })
}

/// The derived stores of a server.
struct Stores {
    events: Arc<StoredHistory>,
    object_history: Arc<ObjectHistory>,
}

impl Stores {
    fn open(dir: &Path) -> Self {
        let events = Arc::new(StoredHistory::open(&dir.join("events")).expect("opens"));
        Self { events, object_history: ObjectHistory::open(&dir.join("touches")).expect("opens") }
    }

    fn all(&self) -> [Arc<dyn Refill>; 2] {
        [Arc::clone(&self.events) as Arc<dyn Refill>, Arc::clone(&self.object_history) as Arc<dyn Refill>]
    }

    /// Applies entries as a running server does.
    fn live(&self, indexes: std::ops::Range<u64>, restored: Option<u64>) {
        self.object_history.begin(indexes.start).expect("begins");
        if self.events.last() + 1 < indexes.start {
            self.events.lose(indexes.start).expect("is lost");
        }
        for index in indexes.clone() {
            let Some(entry) = entry(index, restored == Some(index)) else {
                self.object_history.pass(index);
                continue;
            };
            if restored == Some(index) {
                self.events.reset(index + 1).expect("begins anew");
            } else {
                let batch = Arc::new(Batch::encode(index, entry.kind, &entry.changes));
                self.events.append(&[batch], index).expect("is written");
            }
            self.object_history.publish(entry);
        }
        self.events.append(&[], indexes.end - 1).expect("is written");
        self.object_history.write_through().expect("is written");
    }

    /// Replays entries after `from`. With `most` the replay stops early and leaves the refill interrupted.
    fn replay(
        &self,
        from: u64,
        indexes: std::ops::Range<u64>,
        restored: Option<u64>,
        most: usize,
    ) -> Vec<(&'static str, Refilled)> {
        let mut refiller = Refiller::of(self.all()).expect("is asked").expect("something is lost");
        refiller.begin(Reached { index: from, raft_index: from }).expect("begins");
        for index in indexes.filter(|index| *index > from).take(most) {
            if !refiller.wants_more() {
                break;
            }
            match entry(index, restored == Some(index)) {
                Some(entry) => refiller.add(entry, index).expect("is added"),
                None => refiller.pass(Reached { index, raft_index: index }),
            }
            // Each entry is written by itself, so that an interruption can fall between any two entries.
            refiller.write_now();
        }
        if most < usize::MAX {
            return Vec::new();
        }
        refiller.end().expect("ends")
    }

    /// A hub over the events.
    fn hub(&self) -> Arc<EventHub> {
        let history: Arc<dyn History> = Arc::clone(&self.events) as Arc<dyn History>;
        EventHub::start(HubConfig::default(), Some(history), self.events.last() + 1).expect("starts")
    }

    /// All content that readers of the stores can see.
    fn told(&self) -> String {
        let blocks = self.events.read(self.events.oldest() - 1, usize::MAX).expect("reads");
        let events: Vec<u64> = blocks.iter().flat_map(|block| block.indexes()).collect();
        let object =
            |n: u64| Object { kind: ObjectKind::NodePool, namespace: "".into(), id: format!("pool {n}").into() };
        let hub = self.hub();
        let changes_of =
            |n: u64| self.object_history.of_object(&hub, &object(n), 0, Order::OldestFirst, usize::MAX).expect("reads");
        let changes: Vec<Vec<u64>> =
            (0..5).map(|n| changes_of(n).iter().map(|change| change.index).collect()).collect();
        let marks: Vec<u64> =
            (0..200).filter(|index| self.object_history.entry(*index).expect("reads").is_some()).collect();
        let (events_from, objects_from, floor) =
            (self.events.oldest(), self.object_history.oldest(), self.object_history.floor());
        format!(
            "events from {events_from}: {events:?}\ntouches from {objects_from} above {floor}: {changes:?}\nentries {marks:?}"
        )
    }

    fn are_lost(&self) -> bool {
        self.all().iter().any(|store| *store.losses().borrow())
    }
}

/// Stores that were never lost, and stores that lost all entries before 100.
fn two_of(restored: Option<u64>) -> (tempfile::TempDir, Stores, Stores) {
    let dir = tempfile::tempdir().expect("a folder");
    let (whole, lost) = (Stores::open(&dir.path().join("whole")), Stores::open(&dir.path().join("lost")));
    whole.live(1..120, restored);
    lost.live(100..120, None);
    assert!(lost.are_lost() && !whole.are_lost());
    (dir, whole, lost)
}

#[test]
fn lost_stores_are_refilled_from_the_start_of_the_log() {
    let (_dir, whole, lost) = two_of(None);
    assert_eq!(
        lost.replay(0, 1..120, None, usize::MAX),
        [("events", Refilled::From(1)), ("touches", Refilled::From(1))]
    );
    assert_eq!(lost.told(), whole.told());
    assert!(!lost.are_lost());
}

#[test]
fn readers_see_no_refilled_entries_before_the_refill_ends() {
    let (_dir, _, lost) = two_of(None);
    let before = lost.told();
    lost.replay(0, 1..120, None, 50);
    assert_eq!(lost.told(), before);
    assert!(lost.are_lost());
    let filling = lost.object_history.filling().expect("is told");
    assert_eq!((filling.from, filling.through, filling.before), (1, 50, 100));
}

#[test]
fn lost_stores_of_a_truncated_log_are_refilled_from_its_oldest_checkpoint() {
    let (_dir, whole, lost) = two_of(None);
    assert_eq!(
        lost.replay(40, 30..120, None, usize::MAX),
        [("events", Refilled::From(41)), ("touches", Refilled::From(41))]
    );
    whole.object_history.forget_before(41, &whole.hub()).expect("forgets");
    whole.events.forget_before(41).expect("forgets");
    assert_eq!(lost.told(), whole.told());
}

#[test]
fn refill_changes_nothing_when_the_log_has_no_older_entries() {
    let (_dir, _, lost) = two_of(None);
    let before = lost.told();
    assert_eq!(
        lost.replay(105, 105..120, None, usize::MAX),
        [("events", Refilled::NothingOlder), ("touches", Refilled::NothingOlder)]
    );
    assert_eq!(lost.told(), before);
    assert!(!lost.are_lost());
}

#[test]
fn interrupted_refill_resumes_without_gaps_or_repetitions() {
    for interrupted in [1, 17, 50, 98] {
        let (dir, whole, lost) = two_of(None);
        lost.replay(0, 1..120, None, interrupted);
        lost.object_history.close();
        drop(lost);
        let again = Stores::open(&dir.path().join("lost"));
        assert!(again.are_lost());
        let resumed = Refiller::of(again.all()).expect("is asked").expect("they are lost").resumes_after();
        assert_eq!(resumed, interrupted as u64);
        // The replay begins at a somewhat older checkpoint.
        let from = resumed.saturating_sub(9);
        let came_of_it = again.replay(from, 1..120, None, usize::MAX);
        assert_eq!(came_of_it, [("events", Refilled::From(1)), ("touches", Refilled::From(1))], "{interrupted}");
        assert_eq!(again.told(), whole.told(), "{interrupted}");
    }
}

#[test]
fn refill_restarts_after_the_gap_when_its_part_of_the_log_is_dropped() {
    let (_dir, whole, lost) = two_of(None);
    lost.replay(0, 1..120, None, 20);
    assert_eq!(
        lost.replay(60, 50..120, None, usize::MAX),
        [("events", Refilled::From(61)), ("touches", Refilled::From(61))]
    );
    whole.object_history.forget_before(61, &whole.hub()).expect("forgets");
    whole.events.forget_before(61).expect("forgets");
    assert_eq!(lost.told(), whole.told());
}

#[test]
fn refill_starts_at_the_restored_archive() {
    for interrupted in [None, Some(30), Some(50), Some(51), Some(70)] {
        let (_dir, whole, lost) = two_of(Some(51));
        if let Some(most) = interrupted {
            lost.replay(0, 1..120, Some(51), most);
        }
        let came_of_it = lost.replay(0, 1..120, Some(51), usize::MAX);
        assert_eq!(came_of_it, [("events", Refilled::From(52)), ("touches", Refilled::From(51))], "{interrupted:?}");
        assert_eq!(lost.told(), whole.told(), "{interrupted:?}");
    }
}

#[test]
fn refill_is_abandoned_when_an_archive_is_restored_meanwhile() {
    let (_dir, _, lost) = two_of(None);
    let mut refiller = Refiller::of(lost.all()).expect("is asked").expect("they are lost");
    refiller.begin(Reached::default()).expect("begins");
    for index in (1..60).filter(|index| index % 3 != 0) {
        refiller.add(entry(index, false).expect("holds a command"), index).expect("is added");
    }
    refiller.write_now();
    // An archive is restored meanwhile.
    lost.live(120..130, Some(122));
    let after = lost.told();
    for index in 60..100 {
        refiller.pass(Reached { index, raft_index: index });
    }
    assert_eq!(refiller.end().expect("ends"), [("events", Refilled::Abandoned), ("touches", Refilled::Abandoned)]);
    assert_eq!(lost.told(), after);
    assert!(!lost.are_lost());
}
