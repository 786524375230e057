//! Stories of evaluations.

use expect_test::expect;

use crate::story::check;

#[test]
fn updated_evaluation_keeps_its_create_index() {
    check(
        "job register web groups=g
         eval e1 pending job=web
         eval e1 complete job=web
         show eval e1
         show job web",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            eval e1 pending job=web: ok [+eval:e1]
            eval e1 complete job=web: ok [~eval:e1 ~job:web]
               eval e1: complete "" create=3 modify=4
               job web: dead version=0 create=2 modify=4 job-modify=2 groups=g:1
        "#]],
    );
}

#[test]
fn evaluation_that_places_everything_cancels_blocked_ones_of_its_job() {
    check(
        "job register web groups=g
         job register db groups=g
         eval e1 blocked job=web
         eval e2 blocked job=web
         eval e3 blocked job=db
         eval e4 complete job=web unplaced
         show eval e1
         eval e5 complete job=web
         show eval e1
         show eval e3",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            job register db groups=g: ok [+summary:db +job:db +version:db.0]
            eval e1 blocked job=web: ok [+eval:e1]
            eval e2 blocked job=web: ok [+eval:e2]
            eval e3 blocked job=db: ok [+eval:e3]
            eval e4 complete job=web unplaced: ok [+eval:e4]
               eval e1: blocked "" create=4 modify=4
            eval e5 complete job=web: ok [~eval:e1 ~eval:e2 +eval:e5 ~job:web]
               eval e1: canceled "evaluation \"65350000-0000-0000-0000-000000000000\" successful" create=4 modify=8
               eval e3: blocked "" create=6 modify=6
        "#]],
    );
}

#[test]
fn queued_counts_go_to_groups_that_exist() {
    check(
        "job register web groups=a
         eval e1 pending job=web queued=a:3,z:9
         show summary web",
        expect![[r#"
            job register web groups=a: ok [+summary:web +job:web +version:web.0]
            eval e1 pending job=web queued=a:3,z:9: ok [~summary:web +eval:e1]
               summary web: a(queued=3) create=2 modify=3
        "#]],
    );
}

#[test]
fn dead_job_stays_dead_after_its_evaluation_is_reaped() {
    check(
        "job register web groups=g eval=e1
         eval e1 complete job=web
         show job web
         eval reap evals=e1,e9
         show job web",
        expect![[r#"
            job register web groups=g eval=e1: ok [+summary:web +job:web +version:web.0 +eval:e1]
            eval e1 complete job=web: ok [~eval:e1 ~job:web]
               job web: dead version=0 create=2 modify=3 job-modify=2 groups=g:1
            eval reap evals=e1,e9: ok [-eval:e1]
               job web: dead version=0 create=2 modify=3 job-modify=2 groups=g:1
        "#]],
    );
}

#[test]
fn manual_eval_deletion_needs_a_paused_broker() {
    check(
        "job register web groups=g eval=e1
         eval reap evals=e1 by-hand
         config set
         eval reap evals=e1 by-hand
         config set paused
         eval reap evals=e1 by-hand
         show job web",
        expect![[r#"
            job register web groups=g eval=e1: ok [+summary:web +job:web +version:web.0 +eval:e1]
            eval reap evals=e1 by-hand: refused: eval broker is enabled; eval broker must be paused to delete evals
            config set: ok [+config:]
            eval reap evals=e1 by-hand: refused: eval broker is enabled; eval broker must be paused to delete evals
            config set paused: ok [~config:]
            eval reap evals=e1 by-hand: ok [-eval:e1 ~job:web]
               job web: dead version=0 create=2 modify=7 job-modify=2 groups=g:1
        "#]],
    );
}
