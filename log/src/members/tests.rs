//! Encoding of members: round trips, and refusal of other bytes.

use super::*;

#[test]
fn members_decode_from_their_bytes_and_damaged_bytes_are_refused() {
    let members = Members {
        voters: vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 3])],
        addresses: BTreeMap::from([(1, "a:1".to_owned()), (2, String::new()), (3, "c:3".to_owned())]),
    };
    let bytes = members.encode();
    assert_eq!(Members::decode(&bytes), Some(members));
    for end in 0..bytes.len() {
        assert_eq!(Members::decode(&bytes[..end]), None);
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(Members::decode(&longer), None);
}

#[test]
fn majority_counts_only_voters_and_needs_both_voter_sets() {
    fn check(voters: &[&[NodeId]], servers: &[NodeId], expected: bool) {
        let voters = voters.iter().map(|set| set.iter().copied().collect()).collect();
        let members = Members { voters, addresses: BTreeMap::new() };
        assert_eq!(members.has_majority(&servers.iter().copied().collect()), expected, "{servers:?} of {members:?}");
    }
    check(&[&[1]], &[1], true);
    check(&[&[1, 2, 3]], &[1], false);
    check(&[&[1, 2, 3]], &[1, 3], true);
    check(&[&[1, 2, 3, 4]], &[1, 2], false);
    // 8 and 9 are learners.
    check(&[&[1, 2, 3]], &[1, 8, 9], false);
    check(&[&[1, 2, 3], &[3, 4, 5]], &[1, 2, 3], false);
    check(&[&[1, 2, 3], &[3, 4, 5]], &[1, 3, 4], true);
}
