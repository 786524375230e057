//! Servers that agree, and servers that do not.

use super::{Digests, Leaders};

#[test]
fn a_term_with_two_leaders_is_a_split_brain() {
    let mut leaders = Leaders::default();
    leaders.note(1, 7).unwrap();
    leaders.note(1, 7).unwrap();
    leaders.note(2, 8).unwrap();
    assert_eq!(leaders.terms(), 2);
    assert_eq!(leaders.note(1, 8).unwrap_err(), "term 1 has two leaders: 7 and 8");
}

#[test]
fn differing_state_digests_after_the_same_entry_are_found() {
    let mut digests = Digests::default();
    digests.note(10, 1, 0xab).unwrap();
    digests.note(10, 2, 0xab).unwrap();
    digests.note(11, 1, 0xac).unwrap();
    assert_eq!(digests.places(), 2);
    assert!(digests.note(11, 3, 0xad).unwrap_err().starts_with("after index 11 server 1 has digest 00"));
}
