//! Root keys over time.

use songline_commands::{Actor, ApplyVariable, Command, DeleteRootKey, Envelope, UpsertRootKey};
use songline_model::{
    Dur, ROOT_KEY_ALGORITHM, RootKeyId, RootKeyMeta, RootKeyState, Sealed, Time, Variable, VariableData,
    VariableMetadata, WrappedKey,
};
use songline_projections::{State, apply};

use super::super::gc::{self, Cutoffs, GcAges, TimeTable};
use super::{Effect, RootKeyAges, due};

fn id(n: u8) -> RootKeyId {
    RootKeyId::from_bytes([n; 16])
}

fn run(state: &mut State, command: impl Into<Command>) {
    let raft_index = state.raft_index().max(1) + 1;
    apply(state, raft_index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command)).result.expect("is applied");
}

fn add(state: &mut State, n: u8, created_hours: i64, rekey: bool) {
    let create_time = Time::default().plus(Dur::from_hours(created_hours));
    let algorithm = ROOT_KEY_ALGORITHM.into();
    let meta =
        RootKeyMeta { key_id: id(n), algorithm, create_time, state: RootKeyState::Active, ..RootKeyMeta::default() };
    run(
        state,
        UpsertRootKey { meta, wrapped: WrappedKey { wrapped_by: "kek".into(), material: Sealed(vec![1]) }, rekey },
    );
}

fn use_key(state: &mut State, n: u8, path: &str) {
    let meta = VariableMetadata { namespace: "default".into(), path: path.into(), ..VariableMetadata::default() };
    let encrypted = VariableData { data: Sealed(vec![n]), key_id: id(n) };
    run(state, ApplyVariable { var: Variable { meta, encrypted }, ..ApplyVariable::default() });
}

fn check(state: &State, hour: i64, expected: &[Effect]) {
    assert_eq!(
        due(state, &RootKeyAges::default(), Time::from_nanos(Dur::from_hours(hour).nanos())),
        expected,
        "hour {hour}"
    );
}

#[test]
fn root_key_is_created_at_once_and_rotated_after_thirty_days() {
    let mut state = State::new();
    check(&state, 0, &[Effect::Rotate]);
    add(&mut state, 1, 0, false);
    check(&state, 0, &[]);
    check(&state, 720, &[]);
    check(&state, 721, &[Effect::Rotate]);
}

#[test]
fn forced_collection_deletes_every_unused_root_key_and_no_other() {
    let mut state = State::new();
    for n in 1..=3 {
        add(&mut state, n, 0, false);
    }
    use_key(&mut state, 2, "a");
    let deleted = |cutoffs: &Cutoffs| -> Vec<Command> { gc::collect(&state, cutoffs, Time::default(), 6) };
    assert_eq!(deleted(&Cutoffs::ALL), [DeleteRootKey { key_id: id(1), unused_only: true }.into()], "3 is active");
    let by_age = TimeTable::default().cutoffs(&GcAges::default(), Time::default());
    assert_eq!(deleted(&by_age), [], "collections by age leave keys to their own loop");
}

#[test]
fn unused_old_root_key_is_deleted() {
    let mut state = State::new();
    add(&mut state, 1, 0, false);
    use_key(&mut state, 1, "a");
    add(&mut state, 2, 5, false);
    check(&state, 10, &[]);
    use_key(&mut state, 2, "a");
    check(&state, 10, &[Effect::Delete(id(1))]);
    check(&state, 1, &[]);
}

#[test]
fn defect_10_rekeyed_root_key_loses_its_variables_then_retires_then_is_deleted() {
    let mut state = State::new();
    add(&mut state, 1, 0, false);
    use_key(&mut state, 1, "a");
    add(&mut state, 2, 5, true);
    check(&state, 10, &[Effect::TakeOver(id(1))]);
    use_key(&mut state, 2, "a");
    check(&state, 10, &[Effect::Retire(id(1))]);
    let row = state.root_key(id(1)).expect("is there").clone();
    let meta = RootKeyMeta { state: RootKeyState::Inactive, ..row.meta.clone() };
    run(&mut state, UpsertRootKey { meta, wrapped: row.wrapped.clone(), rekey: false });
    check(&state, 10, &[Effect::Delete(id(1))]);
}
