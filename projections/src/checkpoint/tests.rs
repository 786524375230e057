//! Checkpoints of every released schema read back, and damaged ones are refused.

use std::collections::BTreeMap;

use songline_migrations::SCHEMA;
use songline_model::Time;

use crate::story::state_after;
use crate::{CheckpointError, State, Table};

/// At least one row in every table, with shared and unshared jobs.
const STORY: &str = "
    namespace upsert dev key=k
    pool upsert gpu
    node register n1 secret=s pool=gpu
    node status n1 ready
    node drain n1 by=op meta=repair event=set
    config set
    cluster one
    job register web groups=g:2 source=one eval=e1
    plan job=web create=9 version=0 deploy=d1 groups=g deadline=30 deployment=d1 place=a1@n1:g,a2@n1:g for=e1
    client a1@n1 running healthy
    job stable web version=0
    job register web groups=g:3,h source=two eval=e2
    plan job=web stop=a1 lose=a2
    eval e3 blocked job=web queued=g:2 unplaced
    job register dev/cron groups=g periodic
    acl policy readers rules=node ns=default job=web group=g
    acl role r1:engineers policies=readers
    acl bootstrap t0 management
    acl token t1 policies=readers roles=r1 expires=3600 global
    acl once t1 secret=o1 expires=600
    acl method corp:default client-secret=s3cret
    acl rule b1 method=corp selector=all
    autopilot trailing=250
    root active k1
    var set dev:app/db size=9
    config set paused
    eval delete evals=e1,e2 rows=1";

/// The story of schema 3, with refused writes and kept responses.
const STORY_3: &str = "
    namespace upsert dev key=k
    namespace delete default key=refused
    answer {} key=kept
    config set cas=1 key=cas
    root active k1
    var set app/db size=9 key=var
    var cas app/db index=1 size=9 key=conflict";

fn bytes(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.write_checkpoint(&mut bytes).expect("writes");
    bytes
}

fn read(mut bytes: &[u8]) -> Result<State, CheckpointError> {
    State::read_checkpoint(&mut bytes)
}

fn described(state: &State) -> String {
    let table = |(table, digest): (Table, crate::Digest)| {
        format!("{} {}: {} rows, {digest}\n", table.name(), state.table_index(table), state.table_len(table))
    };
    let rows: String = state.table_digests().into_iter().map(table).collect();
    format!("index {} at {}\n{rows}digest {}\n", state.applied_index(), state.applied_at(), state.digest())
}

#[test]
fn a_checkpoint_reads_back_and_writes_the_same_bytes() {
    let state = state_after(STORY);
    let written = bytes(&state);
    let again = read(&written).expect("reads");
    crate::check::consistent(&again);
    assert_eq!(described(&again), described(&state));
    assert_eq!(bytes(&again), written);
}

/// Stories that the fixtures were made from. A fixture equals its story, which is never changed: when a checkpoint of
/// a later schema needs more rows, it gets a story of its own.
const FROZEN: &[(u16, &str)] = &[(1, STORY), (2, STORY), (3, STORY_3)];

/// Each file was written by the first version with its schema and is never rewritten. A failure means that a row's
/// shape has changed: add a new schema, a step in `songline-migrations` and a fixture of the new schema.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test of the core may read its own fixtures")]
fn checkpoint_of_every_schema_equals_the_replay_of_its_log() {
    assert_eq!(
        FROZEN.last().map(|(schema, _)| *schema),
        Some(songline_migrations::SCHEMA),
        "every schema has a fixture"
    );
    for &(schema, story) in FROZEN {
        let path = format!("{}/../migrations/fixtures/checkpoint-{schema}.bin", env!("CARGO_MANIFEST_DIR"));
        let live = state_after(story);
        let newest = schema == songline_migrations::SCHEMA;
        if newest && !std::path::Path::new(&path).exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, bytes(&live)).expect("writes a new fixture");
        }
        let frozen = std::fs::read(&path)
            .unwrap_or_else(|error| panic!("{path}: {error}; UPDATE_GOLDEN=1 adds that of the newest schema"));
        let state = read(&frozen).expect("reads");
        crate::check::consistent(&state);
        // Migrated rows have the same digest as rows of a replayed log.
        assert_eq!(described(&state), described(&live), "schema {schema}");
    }
}

#[test]
fn every_migrated_table_exists() {
    for of in songline_migrations::subjects() {
        if let songline_migrations::Subject::Table(name) = of {
            assert!(Table::from_name(name).is_some(), "table {name}");
        }
    }
}

#[test]
fn checkpoint_writes_each_distinct_job_once() {
    let size = |allocs: usize| {
        let placed: Vec<String> = (0..allocs).map(|n| format!("a{n}@n1:g")).collect();
        bytes(&state_after(&format!("job register web groups=g\nplan job=web create=2 place={}", placed.join(","))))
            .len()
    };
    let (few, many) = (size(1), size(41));
    let per_alloc = (many - few) / 40;
    assert!(per_alloc < 400, "an alloc adds {per_alloc} bytes, so its job is not in it");
}

#[test]
fn checkpoint_with_a_flipped_bit_or_a_missing_end_is_refused() {
    let state = state_after(STORY);
    let written = bytes(&state);
    for at in (0..written.len()).step_by(3) {
        let mut damaged = written.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read(&damaged).is_err(), "byte {at} of {}", written.len());
    }
    for end in (0..written.len()).step_by(7) {
        assert!(read(&written[..end]).is_err(), "cut at {end}");
    }
}

/// An empty checkpoint that states this schema.
fn with_schema(schema: u16) -> Vec<u8> {
    let mut payload = Vec::new();
    let header = super::Header { schema, raft_index: 1, base: 0, at: Time::from_secs(1), table_index: BTreeMap::new() };
    crate::digest::encode(&header, &mut payload);
    let head = super::head(super::HEADER, u32::try_from(payload.len()).expect("is short"));
    [&super::MAGIC[..], &head, &payload, super::seal(&head, &payload).as_bytes()].concat()
}

#[test]
fn a_newer_schema_and_other_bytes_are_refused_with_a_reason() {
    let message = |bytes: &[u8]| read(bytes).map_err(|error| error.to_string()).expect_err("is refused");
    assert_eq!(message(b"this is something else, a text perhaps"), "this is not a state that Songline wrote");
    assert_eq!(message(b""), "reading the checkpoint");
    let mut cut = bytes(&State::new());
    cut.truncate(40);
    assert_eq!(message(&cut), "reading the checkpoint");
    assert_eq!(
        message(&with_schema(SCHEMA + 1)),
        format!("the state has schema {}, this version knows up to {SCHEMA}: upgrade first", SCHEMA + 1)
    );
}
