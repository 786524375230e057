//! The keyring with real files and keys, and known ciphertexts and tokens that other implementations have to read.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use songline_api::keyring::KeyringError;
use songline_commands::{Actor, Envelope, UpsertRootKey};
use songline_model::{Allocation, Job, RootKeyId, Sealed, Task, TaskGroup, Time};
use songline_projections::{Change, State, apply};
use songline_rpc::world::Machine;

use super::material::{self, Material};
use super::{Keyring, Signer};

fn known_key() -> Material {
    Material::new(&std::array::from_fn(|n| n as u8)).unwrap()
}

fn known_id() -> RootKeyId {
    "11111111-2222-3333-4444-555555555555".parse().unwrap()
}

fn alloc() -> Allocation {
    let task = |name: &str| Task { name: name.into(), ..Task::default() };
    let group = TaskGroup { name: "g".into(), tasks: Some(vec![task("web"), task("log")]), ..TaskGroup::default() };
    Allocation {
        id: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee".parse().unwrap(),
        namespace: "default".into(),
        job_id: "example".into(),
        task_group: "g".into(),
        job: Some(Arc::new(Job { task_groups: Some(vec![group]), ..Job::default() })),
        create_time: Time::from_secs(1_700_000_000),
        ..Allocation::default()
    }
}

fn add(state: &mut State, command: UpsertRootKey) -> Vec<Change> {
    let raft_index = state.raft_index().max(1) + 1;
    let applied = apply(state, raft_index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command));
    applied.result.unwrap();
    applied.changes
}

#[test]
fn identity_token_equals_the_token_of_another_implementation() {
    let mut alloc = alloc();
    Signer { key: known_id(), material: Arc::new(known_key()) }.sign(&mut alloc);
    let token = alloc.identity_token("web").unwrap();
    let expected = "eyJhbGciOiJFZERTQSIsImtpZCI6IjExMTExMTExLTIyMjItMzMzMy00NDQ0LTU1NTU1NTU1NTU1NSIsInR5cCI6IkpXVCJ9.\
        eyJub21hZF9uYW1lc3BhY2UiOiJkZWZhdWx0Iiwibm9tYWRfam9iX2lkIjoiZXhhbXBsZSIsIm5vbWFkX2FsbG9jYXRpb25faWQiOiJhYWFhYWFhYS1iYmJiLWNjY2MtZGRkZC1lZWVlZWVlZWVlZWUiLCJub21hZF90YXNrIjoid2ViIiwibmJmIjoxNzAwMDAwMDAwLCJpYXQiOjE3MDAwMDAwMDB9.\
        gzH5aaImcGqlK-UCSKIFFFoQPc-drIYOO1N_KHMzhWK0f1GgYwovMQTCyscNXQaZqM2IdQioPebtex1fcsYQCg";
    assert_eq!(token.reveal(), expected);
    let claims = material::verify(expected, Time::from_secs(1_700_000_001), |_| Ok(Arc::new(known_key()))).unwrap();
    assert_eq!((claims.job_id.as_str(), claims.task.as_str(), claims.alloc_id), ("example", "web", alloc.id));
}

#[test]
fn tasks_are_signed_once_and_tasks_of_terminal_allocs_never() {
    let mut row = alloc();
    let signer = |key: &str| Signer { key: key.parse().unwrap(), material: Arc::new(known_key()) };
    signer("11111111-2222-3333-4444-555555555555").sign(&mut row);
    let first = row.clone();
    assert!(row.identity_token("web").is_some() && row.identity_token("log").is_some());
    signer("22222222-2222-3333-4444-555555555555").sign(&mut row);
    assert_eq!(row, first, "it keeps what it has");
    let mut ended = Allocation { client_status: songline_model::AllocClientStatus::Failed, ..alloc() };
    signer("11111111-2222-3333-4444-555555555555").sign(&mut ended);
    assert_eq!(ended.signing_key_id, None);
}

#[test]
fn defect_11_signed_tasks_have_whole_tokens_and_without_a_key_nothing_is_signed() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = keyring_in(dir.path().to_owned());
    let mut state = State::new();
    assert!(matches!(keyring.signer(&state), Err(KeyringError::NotInitialized)));
    let command = keyring.fresh_key(&state, Time::from_nanos(5), false).unwrap();
    keyring.follow(&add(&mut state, command));
    let mut row = alloc();
    keyring.signer(&state).unwrap().sign(&mut row);
    for task in ["web", "log"] {
        let token = row.identity_token(task).unwrap();
        let key = |_| keyring.material(state.active_root_key().unwrap());
        assert_eq!(material::verify(token.reveal(), Time::from_secs(1_700_000_001), key).unwrap().task, *task);
    }
}

#[test]
fn defect_22_malformed_and_foreign_tokens_are_refused_with_an_error() {
    let mut row = alloc();
    Signer { key: known_id(), material: Arc::new(known_key()) }.sign(&mut row);
    let token = row.identity_token("web").unwrap();
    let (header, rest) = token.reveal().split_once('.').unwrap();
    let refused = |token: &str, now: i64| {
        let key =
            |id: RootKeyId| if id == known_id() { Ok(Arc::new(known_key())) } else { Err(KeyringError::NoSuchKey(id)) };
        material::verify(token, Time::from_secs(now), key).unwrap_err().to_string()
    };
    let with_header = |json: &str| {
        use base64::Engine;
        format!("{}.{rest}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json))
    };
    let late = 1_700_000_001;
    let segments = "failed to verify token: token is malformed: token contains an invalid number of segments";
    for (token, text) in [
        ("nothing".to_owned(), segments),
        ("a.b".to_owned(), segments),
        ("a.b.c.d".to_owned(), segments),
        ("a.b.c".to_owned(), "failed to verify token: token is malformed"),
        (format!("{header}.{}A{}", &rest[..30], &rest[31..]), "failed to verify token: signature is invalid"),
        (
            with_header(r#"{"alg":"none","kid":"11111111-2222-3333-4444-555555555555"}"#),
            "failed to verify token: unexpected signing method: none",
        ),
        (with_header(r#"{"alg":"HS256","kid":"x"}"#), "failed to verify token: unexpected signing method: HS256"),
        (with_header(r#"{"alg":"EdDSA"}"#), "failed to verify token: missing key ID header"),
        (with_header(r#"{"alg":"EdDSA","kid":7}"#), "failed to verify token: missing key ID header"),
        (with_header(r#"{"alg":"EdDSA","kid":"x"}"#), "failed to verify token: no such key \"x\" in keyring"),
        (
            with_header(r#"{"alg":"EdDSA","kid":"x","crit":["b64"]}"#),
            "failed to verify token: token has critical headers that are not known",
        ),
        (
            with_header(r#"{"alg":"EdDSA","kid":"22222222-2222-3333-4444-555555555555"}"#),
            "failed to verify token: no such key \"22222222-2222-3333-4444-555555555555\" in keyring",
        ),
    ] {
        assert_eq!(refused(&token, late), text, "{token}");
    }
    assert_eq!(refused(token.reveal(), 1_699_999_999), "failed to verify token: token is not valid yet");
}

#[test]
fn data_decrypts_only_under_its_own_key_id() {
    let key = known_key();
    let sealed = key.encrypt(&Machine::default(), known_id(), br#"{"k":"v"}"#).unwrap();
    assert_eq!(key.decrypt(known_id(), &sealed).unwrap(), br#"{"k":"v"}"#);
    let other_id = RootKeyId::from_bytes([1; 16]);
    assert_eq!(key.decrypt(other_id, &sealed), Err(KeyringError::Undecryptable(other_id)));
    for short in [0, 11, 12, 20] {
        assert!(key.decrypt(known_id(), &Sealed(sealed.0[..short].to_vec())).is_err(), "{short} bytes");
    }
    // Encrypted by another implementation.
    let known = "000102030405060708090a0b3c20bd39ffc7b439f09d9a8e1f08e7256cd9f26a1312c311df";
    let bytes = (0..known.len()).step_by(2).map(|at| u8::from_str_radix(&known[at..at + 2], 16).unwrap()).collect();
    assert_eq!(key.decrypt(known_id(), &Sealed(bytes)).unwrap(), br#"{"k":"v"}"#);
}

#[test]
fn first_key_encryption_key_file_is_readable_only_by_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keystore");
    let keyring = keyring_in(keys.clone());
    let mut state = State::new();
    let command = keyring.fresh_key(&state, Time::from_nanos(5), false).unwrap();
    let file = std::fs::metadata(keys.join("kek")).unwrap();
    assert_eq!((file.permissions().mode() & 0o777, file.len()), (0o600, 65));
    assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
    keyring.follow(&add(&mut state, command));
    let row = state.active_root_key().unwrap();
    let sealed = keyring.material(row).unwrap().encrypt(&Machine::default(), row.meta.key_id, b"x").unwrap();
    // A restarted server decrypts the same data.
    let again = keyring_in(keys);
    assert_eq!(again.material(row).unwrap().decrypt(row.meta.key_id, &sealed).unwrap(), b"x");
}

/// The leader makes the first root key while an import wraps its own: both need the key-encryption key at once.
#[test]
fn several_threads_that_need_the_first_key_encryption_key_get_the_same_one() {
    for _ in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let (keyring, state) = (keyring_in(dir.path().join("keystore")), State::new());
        let begin = std::sync::Barrier::new(4);
        let keys: Vec<_> = std::thread::scope(|scope| {
            let first = || {
                begin.wait();
                keyring.first_kek(&state)
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(first)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let stored = keyring_in(dir.path().join("keystore")).first_kek(&state).unwrap();
        for key in keys {
            assert_eq!(key.unwrap(), stored);
        }
    }
}

#[test]
fn missing_or_wrong_key_encryption_key_is_an_error_until_the_right_file_exists() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let maker = keyring_in(dir.path().to_owned());
    let mut state = State::new();
    let command = maker.fresh_key(&state, Time::from_nanos(5), false).unwrap();
    add(&mut state, command);
    let row = state.active_root_key().unwrap();
    let keyring = keyring_in(other.path().to_owned());
    let error = |keyring: &Keyring| keyring.material(row).map(|_| ()).unwrap_err();
    assert!(matches!(error(&keyring), KeyringError::KekMissing(_)));
    // A lost key is not replaced automatically: that would hide the loss.
    assert!(matches!(keyring.fresh_key(&state, Time::from_nanos(6), false), Err(KeyringError::KekMissing(_))));
    std::fs::write(other.path().join("kek"), "nonsense").unwrap();
    assert!(matches!(error(&keyring), KeyringError::KekUnusable { .. }));
    std::fs::write(other.path().join("kek"), format!("{}\n", "ab".repeat(32))).unwrap();
    assert!(matches!(error(&keyring), KeyringError::WrongKek { .. }));
    std::fs::copy(dir.path().join("kek"), other.path().join("kek")).unwrap();
    assert!(keyring.material(row).is_ok());
}

#[test]
fn deleted_root_key_is_dropped_from_memory() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = keyring_in(dir.path().to_owned());
    let mut state = State::new();
    for _ in 0..2 {
        let command = keyring.fresh_key(&state, Time::from_nanos(5), false).unwrap();
        keyring.follow(&add(&mut state, command));
    }
    assert_eq!(keyring.unwrapped.read().len(), 2);
    let old = state.root_keys().find(|row| !row.meta.is_active()).unwrap().meta.key_id;
    let command = songline_commands::DeleteRootKey { key_id: old, unused_only: true };
    let raft_index = state.raft_index() + 1;
    keyring
        .follow(&apply(&mut state, raft_index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command)).changes);
    assert_eq!(keyring.unwrapped.read().len(), 1);
}

#[test]
fn server_takes_only_the_matching_key_encryption_key_from_another_server() {
    let (one, two, three) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [first, second, third] = [&one, &two, &three].map(|dir| keyring_in(dir.path().to_owned()));
    let mut state = State::new();
    let fresh = first.fresh_key(&state, Time::from_nanos(1), false).unwrap();
    add(&mut state, fresh);
    let row = state.active_root_key().unwrap();
    let wanted = row.wrapped.wrapped_by.as_str();
    // Another cluster's key is rejected and changes nothing.
    let strange = third.first_kek(&State::new()).unwrap();
    assert!(
        matches!(second.take(&strange, wanted, &state), Err(KeyringError::WrongKek { .. })) && !second.has_kek(wanted)
    );
    assert!(matches!(third.hand_out(wanted), Err(KeyringError::WrongKek { .. })));

    let key = first.hand_out(wanted).unwrap();
    second.take(&key, wanted, &state).unwrap();
    assert_eq!(std::fs::metadata(two.path().join("kek")).unwrap().permissions().mode() & 0o777, 0o600);
    let written = first.material(row).unwrap().encrypt(&Machine::default(), row.meta.key_id, b"plain").unwrap();
    assert_eq!(second.material(row).unwrap().decrypt(row.meta.key_id, &written).unwrap(), b"plain");

    // A key that was never used is replaced, and kept aside.
    third.take(&key, wanted, &state).unwrap();
    assert!(third.has_kek(wanted) && std::fs::read_dir(three.path()).unwrap().count() == 2);
}

#[test]
fn damaged_key_file_is_replaced_by_the_key_of_another_server() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [first, second] = [&one, &two].map(|dir| keyring_in(dir.path().to_owned()));
    let mut state = State::new();
    let fresh = first.fresh_key(&state, Time::from_nanos(1), false).unwrap();
    add(&mut state, fresh);
    let wanted = state.active_root_key().unwrap().wrapped.wrapped_by.as_str();
    let key = first.hand_out(wanted).unwrap();
    // One flipped bit: a digit has become a letter that is no hexadecimal digit.
    let content = std::fs::read_to_string(one.path().join("kek")).unwrap();
    std::fs::write(two.path().join("kek"), content.replacen(|_: char| true, "q", 1)).unwrap();
    assert!(!second.has_kek(wanted));

    second.take(&key, wanted, &state).unwrap();
    assert!(second.has_kek(wanted) && two.path().join("kek.damaged").exists());
}

#[test]
fn key_encryption_key_is_accepted_before_the_first_root_key_and_not_after() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (leader, other) = (keyring_in(one.path().to_owned()), keyring_in(two.path().to_owned()));
    let mut state = State::new();
    let key = leader.first_kek(&state).unwrap();
    other.keep_for_first_key(&key, &state).unwrap();
    other.keep_for_first_key(&key, &state).unwrap();
    let fresh = other.fresh_key(&state, Time::from_nanos(1), false).unwrap();
    add(&mut state, fresh);
    assert!(leader.material(state.active_root_key().unwrap()).is_ok(), "the next leader uses the same");
    assert!(matches!(other.keep_for_first_key(&[9; 32], &state), Err(KeyringError::WrongKek { .. })));
}

/// A keyring whose key file is in `dir`.
fn keyring_in(dir: std::path::PathBuf) -> Keyring {
    Keyring::new(dir, Arc::new(songline_log::RealDisk), Arc::new(Machine::default()))
}
