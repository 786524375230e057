//! Members go to bytes and back, and bytes that are something else are refused.

use super::*;

#[test]
fn members_survive_their_bytes_and_broken_bytes_are_refused() {
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
