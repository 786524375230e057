//! Deletion of expired tokens.

use expect_test::{Expect, expect};
use songline_commands::{Actor, Command, Envelope, UpsertAclTokens, UpsertOneTimeToken};
use songline_model::{AccessorId, AclToken, AclTokenKind, Dur, OneTimeToken, SecretId, Time};
use songline_projections::{State, apply};

use super::super::gc::{self, Cutoffs, GcAges, TimeTable};
use super::collect;

fn run(state: &mut State, command: impl Into<Command>) {
    let raft_index = state.raft_index().max(1) + 1;
    apply(state, raft_index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command)).result.expect("is applied");
}

fn token(state: &mut State, n: u8, global: bool, ends: Option<i64>) {
    let mut token = AclToken {
        accessor_id: AccessorId::from_bytes([n; 16]),
        secret_id: SecretId::from_bytes([n; 16]),
        kind: AclTokenKind::Management,
        global,
        create_time: Time::from_secs(1),
        expiration_time: ends.map(Time::from_secs),
        ..AclToken::default()
    };
    token.hash = Some(token.compute_hash());
    run(state, UpsertAclTokens { tokens: vec![token] });
}

fn one_time(state: &mut State, n: u8, ends: i64) {
    let token = OneTimeToken {
        one_time_secret_id: SecretId::from_bytes([n; 16]),
        accessor_id: AccessorId::from_bytes([n; 16]),
        expires_at: Some(Time::from_secs(ends)),
        ..OneTimeToken::default()
    };
    run(state, UpsertOneTimeToken { token });
}

/// Compares the rows collected at these seconds, of tokens created up to this index, and the rows that stay.
fn check(state: &State, created_max: u64, seconds: &[i64], expected: Expect) {
    let mut out = String::new();
    for second in seconds {
        let mut state = state.clone();
        for command in collect(&state, [created_max; 2], Time::from_secs(*second)) {
            out.push_str(&format!("{second}: {:?}\n", command.kind()));
            run(&mut state, command);
        }
        let left: Vec<u8> = state.acl_tokens().map(|row| row.accessor_id.as_bytes()[0]).collect();
        let left_once: Vec<u8> = state.one_time_tokens().map(|row| row.accessor_id.as_bytes()[0]).collect();
        out.push_str(&format!("{second}: tokens {left:?}, one-time tokens {left_once:?}\n"));
    }
    expected.assert_eq(&out);
}

#[test]
fn expired_acl_tokens_are_deleted_up_to_the_threshold_index() {
    let mut state = State::new();
    token(&mut state, 1, false, None);
    token(&mut state, 2, false, Some(100));
    token(&mut state, 3, true, Some(200));
    token(&mut state, 4, false, Some(100));
    let last = state.applied_index();
    check(
        &state,
        last,
        &[100, 101, 300],
        expect![[r#"
        100: tokens [1, 2, 3, 4], one-time tokens []
        101: AclTokenDelete
        101: tokens [1, 3], one-time tokens []
        300: AclTokenDelete
        300: AclTokenDelete
        300: tokens [1], one-time tokens []
    "#]],
    );
    check(
        &state,
        last - 1,
        &[300],
        expect![[r#"
        300: AclTokenDelete
        300: AclTokenDelete
        300: tokens [1, 4], one-time tokens []
    "#]],
    );
}

#[test]
fn global_tokens_stay_where_their_region_is_not_authoritative() {
    let mut state = State::new();
    token(&mut state, 1, false, Some(100));
    token(&mut state, 2, true, Some(100));
    let ages = GcAges { acl_token: Dur::ZERO, ..GcAges::default() };
    let mut times = TimeTable::default();
    times.witness(state.applied_index(), Time::from_secs(200));
    for cutoffs in [Cutoffs::ALL, times.cutoffs(&ages, Time::from_secs(200))] {
        let commands = |cutoffs: Cutoffs| gc::collect(&state, &cutoffs, Time::from_secs(200), 6);
        assert_eq!(commands(cutoffs).len(), 2);
        let deleted = commands(cutoffs.without_global_tokens());
        let Some(Command::AclTokenDelete(cmd)) = deleted.first() else { panic!("{deleted:?}") };
        assert_eq!((deleted.len(), cmd.accessor_ids.as_slice()), (1, &[AccessorId::from_bytes([1; 16])][..]));
    }
}

#[test]
fn one_time_tokens_are_deleted_at_their_expiration() {
    let mut state = State::new();
    one_time(&mut state, 1, 100);
    one_time(&mut state, 2, 200);
    check(
        &state,
        0,
        &[99, 100, 200],
        expect![[r#"
        99: tokens [], one-time tokens [1, 2]
        100: OneTimeTokenExpire
        100: tokens [], one-time tokens [2]
        200: OneTimeTokenExpire
        200: tokens [], one-time tokens []
    "#]],
    );
}
