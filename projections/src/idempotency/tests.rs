//! Stories of repeated writes.

use expect_test::expect;
use songline_commands::{Actor, Envelope, UpsertNamespaces};
use songline_model::Time;

use super::*;
use crate::apply;
use crate::story::check;

#[test]
fn repeated_write_gets_the_first_answer_and_changes_nothing() {
    check(
        "namespace upsert dev key=k body=x
         namespace upsert dev key=k body=x
         namespace upsert prod key=k body=y
         namespace upsert prod key=l body=y
         show tables",
        expect![[r#"
            namespace upsert dev key=k body=x: ok [+namespace:dev +key:k]
            namespace upsert dev key=k body=x: ok (as at 2)
            namespace upsert prod key=k body=y: refused: idempotency key "k" was used with another request
            namespace upsert prod key=l body=y: ok [+namespace:prod +key:l]
               changed: namespaces=5 idempotency=5
        "#]],
    );
}

#[test]
fn repeated_compare_and_set_gets_its_first_answer() {
    check(
        "config set
         config set cas=2 key=k
         config set cas=2 key=k
         config set cas=2 key=l
         config set cas=2 key=l",
        expect![[r#"
            config set: ok [+config:]
            config set cas=2 key=k: Cas(true) [~config: +key:k]
            config set cas=2 key=k: Cas(true) (as at 3)
            config set cas=2 key=l: Cas(false) [+key:l]
            config set cas=2 key=l: Cas(false) (as at 5)
        "#]],
    );
}

#[test]
fn a_refused_write_stays_refused_under_its_key() {
    check(
        "namespace delete default key=k body=x
         namespace delete default key=k body=x
         namespace upsert dev key=k body=y
         job register web groups=g
         job register web groups=g,h enforce=9 key=l
         job purge web
         job register web groups=g,h enforce=9 key=l
         namespace delete default passed=m
         namespace delete default passed=m
         show tables",
        expect![[r#"
            namespace delete default key=k body=x: refused: default namespace can not be deleted [+key:k]
            namespace delete default key=k body=x: refused: default namespace can not be deleted (as at 2)
            namespace upsert dev key=k body=y: refused: idempotency key "k" was used with another request
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            job register web groups=g,h enforce=9 key=l: refused: Enforcing job modify index 9: job exists with conflicting job modify index: 5 [+key:l]
            job purge web: ok [-job:web -version:web.0 -summary:web]
            job register web groups=g,h enforce=9 key=l: refused: Enforcing job modify index 9: job exists with conflicting job modify index: 5 (as at 6)
            namespace delete default passed=m: refused: default namespace can not be deleted [+key:m]
            namespace delete default passed=m: refused: default namespace can not be deleted (as at 9)
               changed: jobs=7 job_summary=7 job_version=7 idempotency=9
        "#]],
    );
}

#[test]
fn a_refused_stop_of_a_job_that_is_gone_writes_its_evaluation_once() {
    check(
        "job stop web eval=e1 key=k
         job stop web eval=e1 key=k
         job register web groups=g
         job stop web eval=e1 key=k
         show job web
         show evals",
        expect![[r#"
            job stop web eval=e1 key=k: refused: job "web" in namespace "default" doesn't exist to be deregistered [+eval:e1 +key:k]
            job stop web eval=e1 key=k: refused: job "web" in namespace "default" doesn't exist to be deregistered (as at 2)
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            job stop web eval=e1 key=k: refused: job "web" in namespace "default" doesn't exist to be deregistered (as at 2)
               job web: pending version=0 create=4 modify=4 job-modify=4 groups=g:1
               evals: e1
        "#]],
    );
}

#[test]
fn stored_answer_is_returned_for_its_idempotency_key() {
    check(
        "answer first key=k
         answer second key=k
         answer third
         namespace upsert dev key=k
         namespace upsert dev key=k body=y",
        expect![[r#"
            answer first key=k: Answered(KeepAnswer { index: Some(0), body: "first" }) [+key:k]
            answer second key=k: Answered(KeepAnswer { index: Some(0), body: "first" }) (as at 2)
            answer third: Answered(KeepAnswer { index: Some(0), body: "third" })
            namespace upsert dev key=k: Answered(KeepAnswer { index: Some(0), body: "first" }) (as at 2)
            namespace upsert dev key=k body=y: refused: idempotency key "k" was used with another request
        "#]],
    );
}

#[test]
fn idempotency_key_expires_after_one_day() {
    check(
        "namespace upsert dev key=k at=100
         namespace upsert dev key=k at=86499
         namespace upsert dev key=k at=86500
         namespace upsert dev key=l at=180000
         show tables",
        expect![[r#"
            namespace upsert dev key=k at=100: ok [+namespace:dev +key:k]
            namespace upsert dev key=k at=86499: ok (as at 2)
            namespace upsert dev key=k at=86500: ok [~namespace:dev ~key:k]
            namespace upsert dev key=l at=180000: ok [~namespace:dev +key:l -key:k]
               changed: namespaces=5 idempotency=5
        "#]],
    );
}

#[test]
fn idempotency_key_age_does_not_run_backwards() {
    check(
        "namespace upsert dev key=k at=100000
         namespace upsert dev key=l at=5
         namespace upsert dev key=k at=5",
        expect![[r#"
            namespace upsert dev key=k at=100000: ok [+namespace:dev +key:k]
            namespace upsert dev key=l at=5: ok [~namespace:dev +key:l]
            namespace upsert dev key=k at=5: ok (as at 2)
        "#]],
    );
}

#[test]
fn forwarded_write_that_is_retried_runs_once() {
    check(
        "namespace upsert dev passed=k at=100
         namespace upsert dev passed=k at=219
         namespace upsert dev key=k at=219
         namespace upsert dev passed=k at=220",
        expect![[r#"
            namespace upsert dev passed=k at=100: ok [+namespace:dev +key:k]
            namespace upsert dev passed=k at=219: ok (as at 2)
            namespace upsert dev key=k at=219: ok (as at 2)
            namespace upsert dev passed=k at=220: ok [~namespace:dev ~key:k]
        "#]],
    );
}

#[test]
fn keys_of_forwarded_writes_expire_after_two_minutes_and_caller_keys_stay() {
    check(
        "namespace upsert dev key=own at=100
         namespace upsert dev passed=a at=101
         namespace upsert dev passed=b at=102
         namespace upsert dev key=other at=300
         namespace upsert dev passed=c at=300
         namespace upsert dev key=own at=301",
        expect![[r#"
            namespace upsert dev key=own at=100: ok [+namespace:dev +key:own]
            namespace upsert dev passed=a at=101: ok [~namespace:dev +key:a]
            namespace upsert dev passed=b at=102: ok [~namespace:dev +key:b]
            namespace upsert dev key=other at=300: ok [~namespace:dev +key:other]
            namespace upsert dev passed=c at=300: ok [~namespace:dev +key:c -key:a -key:b]
            namespace upsert dev key=own at=301: ok (as at 2)
        "#]],
    );
}

#[test]
fn flood_of_forwarded_writes_evicts_only_keys_of_forwarded_writes() {
    let mut state = State::new();
    let mut write = |key: String, forwarded: bool| {
        let namespace = songline_model::Namespace { name: "dev".into(), ..songline_model::Namespace::default() };
        let mut envelope =
            Envelope::new(Time::from_secs(1), Actor::Anonymous, UpsertNamespaces { namespaces: vec![namespace] });
        envelope.idempotency = Some(Idempotency { key: key.into(), body_hash: [0; 16], forwarded });
        let raft_index = state.raft_index() + 1;
        apply(&mut state, raft_index, &envelope).repeated
    };
    assert!(!write("own".to_owned(), false));
    for n in 0..=FORWARDED_KEYS_MAX {
        assert!(!write(format!("passed {n}"), true));
    }
    assert!(write("own".to_owned(), false), "a caller's key is still known");
    assert!(write(format!("passed {FORWARDED_KEYS_MAX}"), true), "the newest is still known");
    assert!(!write("passed 0".to_owned(), true), "the oldest has gone");
}
