//! Checkpoints of today read back, those of every released schema too, and none that is damaged.

use expect_test::expect;

use crate::story::state_after;
use crate::{CheckpointError, State, Table};

/// At least one row in every table, jobs shared and not.
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

fn bytes(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.write_checkpoint(&mut bytes).expect("writes");
    bytes
}

fn read(mut bytes: &[u8]) -> Result<State, CheckpointError> {
    State::read_checkpoint(&mut bytes)
}

fn described(state: &State) -> String {
    let table = |table: &Table| format!("{} {}: {} rows\n", table.name(), state.table_index(*table), state.table_len(*table));
    let rows: String = Table::ALL.iter().map(table).collect();
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

/// The file was written by the first version with schema 1 and is never rewritten: when this fails, a row's shape has changed, and that
/// needs a new schema, a step in `songline-migrations` and a fixture of the new schema beside this one.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test of the core may read its own fixtures")]
fn the_checkpoint_of_schema_1_still_reads() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/fixtures/checkpoint-1.bin");
    if !std::path::Path::new(path).exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, bytes(&state_after(STORY))).expect("writes a new fixture");
    }
    let frozen = std::fs::read(path).expect("the fixture is there; UPDATE_GOLDEN=1 adds a missing one");
    let state = read(&frozen).expect("reads");
    crate::check::consistent(&state);
    expect![[r#"
        index 28 at 1970-01-01T00:00:28Z
        nodes 11: 1 rows
        node_pools 3: 3 rows
        jobs 16: 2 rows
        job_summary 16: 2 rows
        job_version 16: 3 rows
        job_submission 13: 2 rows
        deployment 11: 1 rows
        evals 28: 2 rows
        allocs 14: 2 rows
        scaling_policy 0: 0 rows
        scaling_event 0: 0 rows
        service_registrations 0: 0 rows
        scheduler_config 27: 1 rows
        cluster_meta 8: 1 rows
        csi_volumes 0: 0 rows
        csi_plugins 4: 0 rows
        namespaces 2: 2 rows
        acl_policy 17: 1 rows
        acl_token 20: 2 rows
        acl_token_bootstrap 19: 1 rows
        one_time_token 21: 1 rows
        acl_roles 18: 1 rows
        acl_auth_methods 22: 1 rows
        acl_binding_rules 23: 1 rows
        autopilot-config 24: 1 rows
        periodic_launch 16: 1 rows
        variables 26: 1 rows
        variables_quota 26: 1 rows
        root_key_meta 25: 1 rows
        idempotency 2: 1 rows
        pending_work 28: 1 rows
        digest 11e2db113ce4d1502cf2d57b07366229
    "#]]
    .assert_eq(&described(&state));
}

#[test]
fn each_distinct_job_is_written_once() {
    let size = |allocs: usize| {
        let placed: Vec<String> = (0..allocs).map(|n| format!("a{n}@n1:g")).collect();
        bytes(&state_after(&format!("job register web groups=g\nplan job=web create=2 place={}", placed.join(",")))).len()
    };
    let (few, many) = (size(1), size(41));
    let per_alloc = (many - few) / 40;
    assert!(per_alloc < 400, "an alloc adds {per_alloc} bytes, so its job is not in it");
}

#[test]
fn no_flipped_bit_and_no_missing_end_passes() {
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

#[test]
fn a_newer_schema_and_other_bytes_are_refused_with_a_reason() {
    let message = |bytes: &[u8]| read(bytes).map_err(|error| error.to_string()).expect_err("is refused");
    assert_eq!(message(b"this is something else, a text perhaps"), "the bytes are no checkpoint");
    assert_eq!(message(b""), "reading the checkpoint");
    let mut cut = bytes(&State::new());
    cut.truncate(40);
    assert_eq!(message(&cut), "reading the checkpoint");
}
