//! Walks over consecutive records, and over records that do not belong there.

use super::*;

const NONCE: u64 = 0x1234_5678_9abc_def0;

fn run() -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    let mut chain = put_group(&mut bytes, 0, Edge::default(), NONCE);
    for index in 0..3 {
        let record = Record { position: Position { term: 1, index }, kind: Kind::Command, payload: vec![7; 10].into() };
        chain = put_entry(&mut bytes, chain, &record);
    }
    let second = bytes.len();
    chain = put_group(&mut bytes, chain, Edge { term: 1, next: 3 }, NONCE);
    let blank = Record { position: Position { term: 2, index: 3 }, kind: Kind::Blank, payload: Bytes::new() };
    put_entry(&mut bytes, chain, &blank);
    (bytes, second)
}

fn walk(bytes: &[u8]) -> (u64, Stop) {
    let mut walk = Walk::new(bytes, 0, 0, Edge::default(), NONCE);
    loop {
        if let Err(stop) = walk.step() {
            return (walk.edge.next, stop);
        }
    }
}

#[test]
fn record_walk_returns_every_entry_and_the_reason_it_stopped() {
    let (mut bytes, second) = run();
    assert_eq!(walk(&bytes), (4, Stop::End));
    assert_eq!(walk(&bytes[..second]), (3, Stop::End));
    assert_eq!(walk(&bytes[..second + 30]), (3, Stop::Short));
    bytes.extend_from_slice(&[0; 100]);
    assert_eq!(walk(&bytes), (4, Stop::Zeros));
}

#[test]
fn removed_or_repeated_record_breaks_the_checksum_chain() {
    let (bytes, second) = run();
    let entry = HEADER_BYTES + 10;
    let mut without_one = bytes.clone();
    without_one.drain(GROUP_BYTES + entry..GROUP_BYTES + 2 * entry);
    assert_eq!(walk(&without_one), (1, Stop::Bad("checksum does not match")));
    let mut repeated = bytes[..second].to_vec();
    repeated.extend_from_slice(&bytes[second - entry..second]);
    assert_eq!(walk(&repeated), (3, Stop::Bad("checksum does not match")));
}

#[test]
fn group_mark_is_found_at_any_offset_but_only_with_the_nonce() {
    let (bytes, second) = run();
    assert_eq!(highest_group_mark(&bytes, NONCE), Some(3));
    assert_eq!(highest_group_mark(&bytes[..second], NONCE), Some(0));
    assert_eq!(highest_group_mark(&bytes, NONCE + 1), None);
    for gap in [0, 1, PAGE - GROUP_BYTES, PAGE - 40, PAGE - 26, PAGE, 3 * PAGE + 7] {
        let mut far = vec![0; gap];
        far.extend_from_slice(&bytes[second..]);
        far.extend_from_slice(&[0; 2 * PAGE]);
        assert_eq!(highest_group_mark(&far, NONCE), Some(3), "after {gap} zeros");
    }
}
