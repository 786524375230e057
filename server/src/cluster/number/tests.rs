//! Server ids and their file.

use songline_log::RealDisk;
use songline_rpc::world::Machine;

use super::*;

fn identity_in(dir: &Path) -> ServerId {
    identity(dir, &RealDisk, &Machine::default()).expect("the directory can be read and written")
}

#[test]
fn server_numbers_convert_to_uuids_and_back() {
    for id in [1, 2, 77, (1 << 53) - 1] {
        assert_eq!(id_of(&id_text(id)), Some(id));
    }
    assert_eq!(id_of(&Uuid::new_v4().to_string()), None);
    assert_eq!(id_of("1"), None);
}

#[test]
fn a_server_keeps_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let id = identity_in(dir.path());
    assert_eq!(identity_in(dir.path()), id);
    let other = tempfile::tempdir().unwrap();
    assert_ne!(identity_in(other.path()), id);
    let old = tempfile::tempdir().unwrap();
    std::fs::create_dir(old.path().join("log")).unwrap();
    assert_eq!(identity_in(old.path()), FIRST_ID);
}
