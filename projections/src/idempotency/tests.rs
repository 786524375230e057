//! Writes that run once, in stories.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_repeat_gets_the_first_answer_and_changes_nothing() {
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
fn a_compare_and_set_repeats_its_answer() {
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
fn a_refused_write_may_be_tried_again() {
    check(
        "namespace delete default key=k
         namespace upsert dev key=k",
        expect![[r#"
            namespace delete default key=k: refused: default namespace can not be deleted
            namespace upsert dev key=k: ok [+namespace:dev +key:k]
        "#]],
    );
}

#[test]
fn a_key_is_forgotten_after_a_day() {
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
fn time_does_not_run_backwards() {
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
