//! Stories of a store that is closed, killed and damaged.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use expect_test::{Expect, expect};

use super::*;
use crate::position::Position;
use crate::record::Kind;
use crate::segment;

/// Small segments, and no marks except at closing and opening.
fn config() -> StoreConfig {
    StoreConfig { segment_bytes: 600, cache_bytes: 1 << 20, mark_after_idle: Duration::from_secs(3600) }
}

fn entry(term: u64, index: u64) -> Record {
    let payload = format!("entry {index} of term {term}, twenty bytes or more").into();
    Record { position: Position { term, index }, kind: Kind::Command, payload }
}

fn wait(change: impl FnOnce(Done) -> io::Result<()>) -> io::Result<()> {
    let (tx, rx) = mpsc::channel();
    change(Box::new(move |outcome| tx.send(outcome).unwrap()))?;
    rx.recv().unwrap()
}

fn append(store: &Store, term: u64, count: u64) {
    let first = store.last().next;
    let records = (first..first + count).map(|index| entry(term, index)).collect();
    wait(|done| store.append(records, done)).unwrap();
}

fn open(dir: &Path) -> (Store, Opened) {
    Store::open(dir, config()).unwrap()
}

fn indexes(store: &Store) -> Vec<u64> {
    let mut found = Vec::new();
    let mut next = store.oldest();
    loop {
        let read = store.read(next..u64::MAX, 100).unwrap();
        let Some(last) = read.last() else { return found };
        next = last.position.index + 1;
        for record in read {
            assert_eq!(record, entry(record.position.term, record.position.index));
            found.push(record.position.index);
        }
    }
}

/// Runs a story of one command per line against a store and prints the results.
fn check(story: &str, expected: Expect) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("log");
    let mut store = Some(open(&dir).0);
    let mut term = 1;
    let mut out = String::new();
    for line in story.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words[i].parse::<u64>().unwrap();
        write!(out, "{line}: ").unwrap();
        match words[0] {
            "append" => append(store.as_ref().unwrap(), term, number(1)),
            "term" => term = number(1),
            "truncate" => wait(|done| store.as_ref().unwrap().truncate(number(1), done)).unwrap(),
            "purge" => {
                let floor = Edge { term, next: number(1) };
                wait(|done| store.as_ref().unwrap().purge(floor, done)).unwrap();
            }
            "close" => store.take().unwrap().close(),
            "crash" => store.take().unwrap().crash(),
            "remove" => fs::remove_file(dir.join(words[1])).unwrap(),
            "open" => match Store::open(&dir, config()) {
                Ok((opened, _)) => store = Some(opened),
                Err(OpenError::Damaged { what, index, .. }) => {
                    writeln!(out, "damaged from {index}: {what}").unwrap();
                    continue;
                }
                Err(other) => panic!("{other}"),
            },
            other => panic!("unknown command {other}"),
        }
        let Some(store) = &store else {
            writeln!(out, "ok").unwrap();
            continue;
        };
        let found = indexes(store);
        let segments: Vec<u64> = store.segments().iter().map(|segment| segment.first).collect();
        let shown = match (found.first(), found.last()) {
            (Some(first), Some(last)) => format!("{first}..={last}"),
            _ => "nothing".to_owned(),
        };
        assert_eq!(found.len() as u64, found.last().map_or(0, |last| last + 1 - found[0]), "no gap");
        writeln!(out, "{shown}, last {:?}, segments {segments:?}", store.last().last().map(|it| it.to_string()))
            .unwrap();
    }
    expected.assert_eq(&out);
}

#[test]
fn appended_entries_survive_a_close_and_a_crash() {
    check(
        "append 3
         append 30
         close
         open
         append 2
         crash
         open",
        expect![[r#"
            append 3: 0..=2, last Some("2@1"), segments [0]
            append 30: 0..=32, last Some("32@1"), segments [0, 3]
            close: ok
            open: 0..=32, last Some("32@1"), segments [0, 3]
            append 2: 0..=34, last Some("34@1"), segments [0, 3, 33]
            crash: ok
            open: 0..=34, last Some("34@1"), segments [0, 3, 33]
        "#]],
    );
}

#[test]
fn truncating_removes_later_segments_and_the_log_goes_on_from_there() {
    check(
        "append 5
         append 5
         append 5
         append 5
         truncate 13
         term 2
         append 1
         crash
         open
         truncate 5
         append 1
         truncate 0
         append 2
         close
         open",
        expect![[r#"
            append 5: 0..=4, last Some("4@1"), segments [0]
            append 5: 0..=9, last Some("9@1"), segments [0, 5]
            append 5: 0..=14, last Some("14@1"), segments [0, 5, 10]
            append 5: 0..=19, last Some("19@1"), segments [0, 5, 10, 15]
            truncate 13: 0..=12, last Some("12@1"), segments [0, 5, 10]
            term 2: 0..=12, last Some("12@1"), segments [0, 5, 10]
            append 1: 0..=13, last Some("13@2"), segments [0, 5, 10]
            crash: ok
            open: 0..=13, last Some("13@2"), segments [0, 5, 10]
            truncate 5: 0..=4, last Some("4@1"), segments [0]
            append 1: 0..=5, last Some("5@2"), segments [0]
            truncate 0: nothing, last None, segments [0]
            append 2: 0..=1, last Some("1@2"), segments [0]
            close: ok
            open: 0..=1, last Some("1@2"), segments [0]
        "#]],
    );
}

#[test]
fn purging_drops_whole_segments_and_keeps_the_floor() {
    check(
        "append 5
         append 5
         append 5
         purge 7
         crash
         open
         purge 40
         append 2
         close
         open",
        expect![[r#"
            append 5: 0..=4, last Some("4@1"), segments [0]
            append 5: 0..=9, last Some("9@1"), segments [0, 5]
            append 5: 0..=14, last Some("14@1"), segments [0, 5, 10]
            purge 7: 7..=14, last Some("14@1"), segments [5, 10]
            crash: ok
            open: 7..=14, last Some("14@1"), segments [5, 10]
            purge 40: nothing, last Some("39@1"), segments []
            append 2: 40..=41, last Some("41@1"), segments [40]
            close: ok
            open: 40..=41, last Some("41@1"), segments [40]
        "#]],
    );
}

#[test]
fn a_missing_segment_is_damage() {
    check(
        "append 5
         append 5
         append 5
         crash
         remove 00000000000000000005.seg
         open",
        expect![[r#"
            append 5: 0..=4, last Some("4@1"), segments [0]
            append 5: 0..=9, last Some("9@1"), segments [0, 5]
            append 5: 0..=14, last Some("14@1"), segments [0, 5, 10]
            crash: ok
            remove 00000000000000000005.seg: ok
            open: damaged from 5: the segment before this one ends before entry 5, but this one starts at 10
        "#]],
    );
    check(
        "append 5
         append 5
         append 5
         crash
         remove 00000000000000000000.seg
         open",
        expect![[r#"
            append 5: 0..=4, last Some("4@1"), segments [0]
            append 5: 0..=9, last Some("9@1"), segments [0, 5]
            append 5: 0..=14, last Some("14@1"), segments [0, 5, 10]
            crash: ok
            remove 00000000000000000000.seg: ok
            open: damaged from 0: the segment with entry 0 is missing; the oldest one starts at 5
        "#]],
    );
}

#[test]
fn a_missing_last_segment_is_damage_once_marked() {
    check(
        "append 5
         append 5
         append 5
         close
         remove 00000000000000000010.seg
         open",
        expect![[r#"
            append 5: 0..=4, last Some("4@1"), segments [0]
            append 5: 0..=9, last Some("9@1"), segments [0, 5]
            append 5: 0..=14, last Some("14@1"), segments [0, 5, 10]
            close: ok
            remove 00000000000000000010.seg: ok
            open: damaged from 10: instead of entry 10 there is this at byte 437: the end of the file; entries up to 14 had been on disk
        "#]],
    );
}

#[test]
fn a_missing_vote_is_damage() {
    check(
        "append 5
         close
         remove vote
         open",
        expect![[r#"
            append 5: 0..=4, last Some("4@1"), segments [0]
            close: ok
            remove vote: ok
            open: damaged from 0: the file `vote` is missing or damaged
        "#]],
    );
}

#[test]
fn torn_last_group_is_cut_off_wherever_the_write_stopped() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("log");
    let roomy = StoreConfig { segment_bytes: 4096, ..config() };
    let (store, _) = Store::open(&dir, roomy.clone()).unwrap();
    append(&store, 1, 3);
    let whole = store.segments()[0].clone();
    append(&store, 1, 4);
    let end = store.segments()[0].bytes;
    store.crash();
    let sound = fs::read(&whole.path).unwrap();

    for cut in whole.bytes..=end {
        for garbage in [0u8, 0xa5] {
            let mut torn = sound.clone();
            for (i, byte) in torn[usize::try_from(cut).unwrap()..usize::try_from(end).unwrap()].iter_mut().enumerate() {
                *byte = garbage.wrapping_mul(i as u8 | 1);
            }
            fs::write(&whole.path, &torn).unwrap();
            let mark = fs::read(dir.join("mark")).unwrap();
            let (store, _) = Store::open(&dir, roomy.clone()).unwrap();
            let found = indexes(&store);
            assert!(found.len() >= 3 && found.len() <= 7, "cut at {cut}: {found:?}");
            if cut == end {
                assert_eq!(found.len(), 7);
            }
            append(&store, 1, 1);
            assert_eq!(indexes(&store).len(), found.len() + 1);
            store.crash();
            // Opening wrote a mark; the next round needs a log without it.
            fs::write(dir.join("mark"), mark).unwrap();
        }
    }
}

#[test]
fn damage_before_the_last_group_is_not_taken_for_a_torn_tail() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("log");
    let (store, _) = Store::open(&dir, StoreConfig { segment_bytes: 8192, ..config() }).unwrap();
    for _ in 0..6 {
        append(&store, 1, 2);
    }
    let segment = store.segments()[0].clone();
    store.crash();
    let sound = fs::read(&segment.path).unwrap();
    let last_group = (0..sound.len() - 8).rev().find(|at| &sound[*at..at + 8] == b"SLGROUP1").unwrap() - 25;
    let mut torn = 0;
    for at in 0..usize::try_from(segment.bytes).unwrap() {
        let mut flipped = sound.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&segment.path, &flipped).unwrap();
        match scan(&crate::disk::RealDisk, &dir, false) {
            Ok(scan) => {
                assert!(at >= last_group, "a flip of byte {at} went unseen; the last group begins at {last_group}");
                assert!(scan.last().next >= 10);
                torn += 1;
            }
            Err(OpenError::Damaged { .. }) => assert!(at < last_group, "byte {at} belongs to the last group"),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(torn, usize::try_from(segment.bytes).unwrap() - last_group);
}

#[test]
fn slot_file_with_one_bad_copy_is_repaired_and_with_two_is_damage() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("log");
    let (store, _) = open(&dir);
    wait(|done| store.save_vote(b"first".to_vec(), done)).unwrap();
    wait(|done| store.save_vote(b"second".to_vec(), done)).unwrap();
    store.crash();
    let sound = fs::read(dir.join("vote")).unwrap();
    for slot in [0, 4096] {
        let mut bad = sound.clone();
        bad[slot + 18] ^= 4;
        fs::write(dir.join("vote"), bad).unwrap();
        assert_eq!(scan(&crate::disk::RealDisk, &dir, false).unwrap().single_copies, ["vote"]);
        let (store, _) = open(&dir);
        assert_eq!(store.vote(), b"second");
        store.crash();
        assert!(
            scan(&crate::disk::RealDisk, &dir, false).unwrap().single_copies.is_empty(),
            "opening wrote both again"
        );
    }
    let file = fs::File::options().write(true).open(dir.join("vote")).unwrap();
    file.write_all_at(b"x", 18).unwrap();
    file.write_all_at(b"x", 4096 + 18).unwrap();
    assert!(matches!(Store::open(&dir, config()), Err(OpenError::Damaged { .. })));
}

#[test]
fn log_directory_can_be_opened_only_once_at_a_time() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("log");
    let (store, _) = open(&dir);
    assert!(matches!(Store::open(&dir, config()), Err(OpenError::Locked { .. })));
    store.close();
    assert!(store.append(vec![entry(1, 0)], Box::new(|_| {})).is_err(), "closed");
    drop(store);
    open(&dir);
}

#[test]
fn the_mark_is_written_when_the_log_is_idle() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("log");
    let idle = StoreConfig { mark_after_idle: Duration::from_millis(1), ..config() };
    let (store, _) = Store::open(&dir, idle).unwrap();
    append(&store, 1, 3);
    while scan(&crate::disk::RealDisk, &dir, false).unwrap().mark.edge.next < 3 {
        std::thread::yield_now();
    }
    store.crash();
    let path = segment::path(&dir, 0);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xff], 64 + 53 + 30).unwrap();
    let Err(OpenError::Damaged { index, .. }) = Store::open(&dir, config()) else { panic!("must be seen") };
    assert_eq!(index, 0);
}

#[test]
fn entries_that_left_the_cache_are_read_from_files() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("log");
    let (store, _) = Store::open(&dir, StoreConfig { cache_bytes: 0, segment_bytes: 20_000, ..config() }).unwrap();
    for count in 1..60 {
        append(&store, 1, count);
    }
    assert_eq!(indexes(&store), (0..1770).collect::<Vec<_>>());
    for start in [0, 1, 31, 32, 33, 500, 1769] {
        assert_eq!(store.read(start..start + 1, 0).unwrap(), [entry(1, start)]);
    }
    assert!(store.read(1770..u64::MAX, 0).unwrap().is_empty());
}

#[test]
fn entries_out_of_order_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let (store, _) = open(&temp.path().join("log"));
    append(&store, 2, 3);
    for wrong in [entry(2, 2), entry(2, 4), entry(1, 3)] {
        assert!(store.append(vec![wrong], Box::new(|_| {})).is_err());
    }
    append(&store, 2, 1);
}
