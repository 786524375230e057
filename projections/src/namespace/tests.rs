//! Stories of namespaces.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_namespace_keeps_its_create_index() {
    check(
        "namespace upsert dev
         namespace upsert dev
         namespace upsert prod quota=gold
         show tables",
        expect![[r#"
            namespace upsert dev: ok [+namespace:dev]
            namespace upsert dev: ok [~namespace:dev]
            namespace upsert prod quota=gold: refused: namespace "prod" using non-existent quota "gold"
               changed: namespaces=3
        "#]],
    );
}

#[test]
fn only_namespaces_without_live_jobs_are_deleted_and_never_the_default() {
    check(
        "namespace upsert dev
         job register dev/web groups=g
         namespace delete dev
         namespace delete default
         job stop dev/web eval=e1
         eval e1 complete job=dev/web
         namespace delete dev
         show tables",
        expect![[r#"
            namespace upsert dev: ok [+namespace:dev]
            job register dev/web groups=g: ok [+summary:web +job:web +version:web.0]
            namespace delete dev: refused: namespace "dev" contains at least one non-terminal job "web". All jobs must be terminal in namespace before it can be deleted
            namespace delete default: refused: default namespace can not be deleted
            job stop dev/web eval=e1: ok [~job:web +version:web.1 +eval:e1]
            eval e1 complete job=dev/web: ok [~eval:e1 ~job:web]
            namespace delete dev: ok [-namespace:dev]
               changed: jobs=7 job_summary=3 job_version=6 evals=7 namespaces=8
        "#]],
    );
}

#[test]
fn an_unknown_namespace_is_deleted_with_success() {
    check(
        "namespace delete nowhere
         show tables",
        expect![[r#"
            namespace delete nowhere: ok
               changed:
        "#]],
    );
}

#[test]
fn refused_namespace_deletion_keeps_all_named_namespaces() {
    check(
        "namespace upsert dev
         namespace delete dev default
         namespace upsert dev",
        expect![[r#"
            namespace upsert dev: ok [+namespace:dev]
            namespace delete dev default: refused: default namespace can not be deleted
            namespace upsert dev: ok [~namespace:dev]
        "#]],
    );
}
