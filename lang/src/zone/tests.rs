//! A zone that is an hour ahead for a while.

use super::{Zone, shown};

fn file() -> Vec<u8> {
    let head = |counts: [u32; 6]| {
        let mut head = b"TZif2".to_vec();
        head.extend([0; 15]);
        counts.iter().for_each(|count| head.extend(count.to_be_bytes()));
        head
    };
    let mut file = head([0; 6]);
    file.extend(head([0, 0, 0, 2, 2, 4]));
    [1000_i64, 2000].iter().for_each(|time| file.extend(time.to_be_bytes()));
    file.extend([1, 0]);
    [0_i32, 3600].iter().for_each(|ahead| {
        file.extend(ahead.to_be_bytes());
        file.extend([0, 0]);
    });
    file.extend(b"ABC\0");
    file.extend(b"\nABC0\n");
    file
}

#[test]
fn clocks_are_ahead_between_the_changes() {
    let zone = Zone::parse(&file()).unwrap();
    assert_eq!([999, 1000, 1999, 2000, 9999].map(|at| zone.ahead(at)), [0, 3600, 3600, 0, 0]);
}

#[test]
fn what_is_no_zone_or_ends_early_is_refused() {
    assert_eq!(Zone::parse(b"no zone"), None);
    let file = file();
    for len in 0..file.len() - 7 {
        assert_eq!(Zone::parse(&file[..len]), None, "{len}");
    }
}

#[test]
fn a_time_is_shown_with_what_its_place_is_ahead() {
    let texts = [(0, 0), (1, -5 * 3600), (2, 5400)].map(|(at, ahead)| shown(at, ahead).unwrap());
    assert_eq!(texts, ["1970-01-01T00:00:00Z", "1969-12-31T19:00:01-05:00", "1970-01-01T01:30:02+01:30"]);
}
