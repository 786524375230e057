//! Stories of jobs.

use expect_test::expect;

use crate::story::check;

#[test]
fn job_registration_takes_the_next_or_the_given_version() {
    check(
        "job register web groups=a:2
         show job web
         show summary web
         job register web groups=a:3,b
         show job web
         show versions web
         show summary web
         job register web groups=a version=9
         show job web",
        expect![[r#"
            job register web groups=a:2: ok [+summary:web +job:web +version:web.0]
               job web: pending version=0 create=2 modify=2 job-modify=2 groups=a:2
               summary web: a() create=2 modify=2
            job register web groups=a:3,b: ok [~summary:web ~job:web +version:web.1]
               job web: pending version=1 create=2 modify=3 job-modify=3 groups=a:3,b:1
               1 0
               summary web: a() b() create=2 modify=3
            job register web groups=a version=9: ok [~job:web +version:web.9]
               job web: pending version=9 create=2 modify=4 job-modify=4 groups=a:1
        "#]],
    );
}

#[test]
fn a_job_needs_its_namespace_and_pool() {
    check(
        "job register dev/web groups=a
         job register web groups=a pool=gpu
         show tables",
        expect![[r#"
            job register dev/web groups=a: refused: job "web" is in nonexistent namespace "dev"
            job register web groups=a pool=gpu: refused: job "web" is in nonexistent node pool "gpu"
               changed:
        "#]],
    );
}

#[test]
fn enforced_job_modify_index_is_checked_when_applied() {
    check(
        "job register web groups=a enforce=7
         job register web groups=a enforce=0
         job register web groups=a enforce=0
         job register web groups=a enforce=2
         job register web groups=a enforce=3
         show job web",
        expect![[r#"
            job register web groups=a enforce=7: refused: Enforcing job modify index 7: job does not exist
            job register web groups=a enforce=0: ok [+summary:web +job:web +version:web.0]
            job register web groups=a enforce=0: refused: Enforcing job modify index 0: job already exists
            job register web groups=a enforce=2: refused: Enforcing job modify index 2: job exists with conflicting job modify index: 3
            job register web groups=a enforce=3: ok [~job:web +version:web.1]
               job web: pending version=1 create=3 modify=6 job-modify=6 groups=a:1
        "#]],
    );
}

#[test]
fn preserve_counts_keeps_the_counts_of_existing_groups() {
    check(
        "job register web groups=a:5
         job register web groups=a:1,b:2 preserve
         show job web",
        expect![[r#"
            job register web groups=a:5: ok [+summary:web +job:web +version:web.0]
            job register web groups=a:1,b:2 preserve: ok [~summary:web ~job:web +version:web.1]
               job web: pending version=1 create=2 modify=3 job-modify=3 groups=a:5,b:2
        "#]],
    );
}

#[test]
fn job_status_follows_its_live_allocs_and_evaluations() {
    check(
        "job register web groups=g eval=e1
         show job web
         plan job=web create=2 place=a1@n1:g
         show job web
         job stop web eval=e2
         show job web
         client a1@n1 complete
         show job web
         eval e1 complete job=web
         eval e2 complete job=web
         show job web
         show versions web",
        expect![[r#"
            job register web groups=g eval=e1: ok [+summary:web +job:web +version:web.0 +eval:e1]
               job web: pending version=0 create=2 modify=2 job-modify=2 groups=g:1
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
               job web: running version=0 create=2 modify=3 job-modify=2 groups=g:1
            job stop web eval=e2: ok [~job:web +version:web.1 +eval:e2]
               job web: running stopped version=1 create=2 modify=4 job-modify=4 groups=g:1
            client a1@n1 complete: ok [~summary:web ~alloc:a1 ~job:web]
               job web: pending stopped version=1 create=2 modify=5 job-modify=4 groups=g:1
            eval e1 complete job=web: ok [~eval:e1]
            eval e2 complete job=web: ok [~eval:e2 ~job:web]
               job web: dead stopped version=1 create=2 modify=7 job-modify=4 groups=g:1
               1 0
        "#]],
    );
}

#[test]
fn a_system_job_runs_until_it_is_stopped() {
    check(
        "job register sys type=system groups=g
         show job sys
         job stop sys
         show job sys",
        expect![[r#"
            job register sys type=system groups=g: ok [+summary:sys +job:sys +version:sys.0]
               job sys: running version=0 create=2 modify=2 job-modify=2 groups=g:1
            job stop sys: ok [~job:sys +version:sys.1]
               job sys: dead stopped version=1 create=2 modify=3 job-modify=3 groups=g:1
        "#]],
    );
}

#[test]
fn purged_job_loses_versions_source_and_summary_but_not_allocs_and_evals() {
    check(
        "job register web groups=g source=one eval=e1
         plan job=web create=2 place=a1@n1:g
         job purge web eval=e2
         show job web
         show summary web
         show alloc a1
         show tables",
        expect![[r#"
            job register web groups=g source=one eval=e1: ok [+summary:web +source:web.0 +job:web +version:web.0 +eval:e1]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            job purge web eval=e2: ok [-job:web -version:web.0 -source:web.0 -summary:web +eval:e2]
               job web: none
               summary web: none
               alloc a1: run/pending create=3 modify=3 alloc-modify=3 version=0
               changed: jobs=4 job_summary=4 job_version=4 job_submission=4 evals=4 allocs=3
        "#]],
    );
}

#[test]
fn stop_of_a_missing_job_is_refused_but_its_evaluation_is_written() {
    check(
        "job stop web eval=e1
         job purge web eval=e2
         show eval e1",
        expect![[r#"
            job stop web eval=e1: refused: job "web" in namespace "default" doesn't exist to be deregistered [+eval:e1]
            job purge web eval=e2: refused: job not found [+eval:e2]
               eval e1: pending "" create=2 modify=2
        "#]],
    );
}

#[test]
fn stopping_several_jobs_is_all_or_nothing() {
    check(
        "job register a groups=g
         job register b groups=g
         job stop-all a c
         job stop-all a b
         show job a",
        expect![[r#"
            job register a groups=g: ok [+summary:a +job:a +version:a.0]
            job register b groups=g: ok [+summary:b +job:b +version:b.0]
            job stop-all a c: refused: job "c" in namespace "default" doesn't exist to be deregistered
            job stop-all a b: ok [~job:a +version:a.1 ~job:b +version:b.1]
               job a: pending stopped version=1 create=2 modify=5 job-modify=5 groups=g:1
        "#]],
    );
}

#[test]
fn stop_without_shutdown_delay_marks_only_allocs_of_the_current_job() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g
         job purge web
         job register web groups=g
         plan job=web create=5 place=a2@n1:g
         job stop web no-shutdown-delay eval=e1
         show alloc a1
         show alloc a2",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            job purge web: ok [-job:web -version:web.0 -summary:web]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=5 place=a2@n1:g: ok [~summary:web +alloc:a2]
            job stop web no-shutdown-delay eval=e1: ok [~alloc:a2 ~job:web +version:web.1 +eval:e1]
               alloc a1: run/pending create=3 modify=3 alloc-modify=3 version=0
               alloc a2: run/pending create=6 modify=7 alloc-modify=7 version=0 migrate=None skip-delay=Some(true)
        "#]],
    );
}

#[test]
fn job_keeps_as_many_versions_as_the_command_says() {
    check(
        "job register web groups=g keep=3
         job register web groups=g keep=3
         job register web groups=g keep=3
         job register web groups=g keep=3
         show versions web",
        expect![[r#"
            job register web groups=g keep=3: ok [+summary:web +job:web +version:web.0]
            job register web groups=g keep=3: ok [~job:web +version:web.1]
            job register web groups=g keep=3: ok [~job:web +version:web.2]
            job register web groups=g keep=3: ok [~job:web +version:web.3 -version:web.0]
               3 2 1
        "#]],
    );
}

#[test]
fn old_stable_job_version_outlives_newer_unstable_versions() {
    check(
        "job register web groups=g keep=3
         job stable web version=0
         job register web groups=g keep=3
         job register web groups=g keep=3
         job register web groups=g keep=3
         show versions web
         job register web groups=g keep=3
         show versions web",
        expect![[r#"
            job register web groups=g keep=3: ok [+summary:web +job:web +version:web.0]
            job stable web version=0: ok [~version:web.0 ~job:web]
            job register web groups=g keep=3: ok [~job:web +version:web.1]
            job register web groups=g keep=3: ok [~job:web +version:web.2]
            job register web groups=g keep=3: ok [~job:web +version:web.3 -version:web.1]
               3 2 0*
            job register web groups=g keep=3: ok [~job:web +version:web.4 -version:web.2]
               4 3 0*
        "#]],
    );
}

#[test]
fn a_version_marked_stable_gets_the_status_of_its_job() {
    check(
        "job register web groups=g
         eval e1 pending job=web
         eval e1 complete job=web
         job stable web version=0
         show version web.0",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            eval e1 pending job=web: ok [+eval:e1]
            eval e1 complete job=web: ok [~eval:e1 ~job:web]
            job stable web version=0: ok [~version:web.0 ~job:web]
               job web: dead stable version=0 create=2 modify=5 job-modify=2 groups=g:1
        "#]],
    );
}

#[test]
fn stability_of_an_old_version_leaves_the_current_row() {
    check(
        "job register web groups=g
         job register web groups=h
         job stable web version=0
         show job web
         show versions web
         job stable web version=1
         show job web
         job stable web version=7
         job stable web version=1 not
         show versions web",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            job register web groups=h: ok [~summary:web ~job:web +version:web.1]
            job stable web version=0: ok [~version:web.0]
               job web: pending version=1 create=2 modify=3 job-modify=3 groups=h:1
               1 0*
            job stable web version=1: ok [~version:web.1 ~job:web]
               job web: pending stable version=1 create=2 modify=5 job-modify=3 groups=h:1
            job stable web version=7: ok
            job stable web version=1 not: ok [~version:web.1 ~job:web]
               1 0*
        "#]],
    );
}

#[test]
fn job_version_without_source_shows_the_source_of_its_submitted_version() {
    check(
        "job register web groups=g source=one
         job register web groups=g source=two
         job register web groups=g
         show sources web
         job register web groups=g version=1
         show sources web
         job register web groups=g source=six keep=2
         show sources web",
        expect![[r#"
            job register web groups=g source=one: ok [+summary:web +source:web.0 +job:web +version:web.0]
            job register web groups=g source=two: ok [+source:web.1 ~job:web +version:web.1]
            job register web groups=g: ok [+source:web.2 ~job:web +version:web.2]
               0:one 1:two 2:one
            job register web groups=g version=1: ok [+source:web.3 ~job:web +version:web.3]
               0:one 1:two 2:one 3:two
            job register web groups=g source=six keep=2: ok [+source:web.4 -source:web.2 -source:web.1 -source:web.0 ~job:web +version:web.4 -version:web.2]
               3:two 4:six
        "#]],
    );
}

#[test]
fn child_jobs_are_counted_in_the_summary_of_their_parent() {
    check(
        "job register cron groups=g periodic
         job register cron/1 groups=g
         job register default/cron/periodic-1 groups=g parent=cron eval=e1
         show summary cron
         plan job=default/cron/periodic-1 create=4 place=a1@n1:g
         show summary cron
         client a1@n1 complete
         eval e1 complete job=default/cron/periodic-1
         show summary cron
         job register default/cron/periodic-2 groups=g parent=cron
         job purge default/cron/periodic-2
         show summary cron
         job purge default/cron/periodic-1
         show summary cron",
        expect![[r#"
            job register cron groups=g periodic: ok [+summary:cron +job:cron +version:cron.0 +launch:cron]
            job register cron/1 groups=g: refused: job "1" is in nonexistent namespace "cron"
            job register default/cron/periodic-1 groups=g parent=cron eval=e1: ok [+summary:cron/periodic-1 ~summary:cron +job:cron/periodic-1 +version:cron/periodic-1.0 ~launch:cron +eval:e1]
               summary cron: g() children(pending=1) create=2 modify=4
            plan job=default/cron/periodic-1 create=4 place=a1@n1:g: ok [~summary:cron/periodic-1 +alloc:a1 ~job:cron/periodic-1 ~summary:cron]
               summary cron: g() children(running=1) create=2 modify=5
            client a1@n1 complete: ok [~summary:cron/periodic-1 ~alloc:a1 ~job:cron/periodic-1 ~summary:cron]
            eval e1 complete job=default/cron/periodic-1: ok [~eval:e1 ~job:cron/periodic-1 ~summary:cron]
               summary cron: g() children(dead=1) create=2 modify=7
            job register default/cron/periodic-2 groups=g parent=cron: ok [+summary:cron/periodic-2 ~summary:cron +job:cron/periodic-2 +version:cron/periodic-2.0 ~launch:cron]
            job purge default/cron/periodic-2: ok [~summary:cron -job:cron/periodic-2 -version:cron/periodic-2.0 -summary:cron/periodic-2]
               summary cron: g() children(dead=2) create=2 modify=9
            job purge default/cron/periodic-1: ok [-job:cron/periodic-1 -version:cron/periodic-1.0 -summary:cron/periodic-1]
               summary cron: g() children(dead=2) create=2 modify=9
        "#]],
    );
}

#[test]
fn summary_reconciliation_recounts_allocs_and_takes_queued_from_the_entry() {
    check(
        "job register web groups=a,b eval=e1
         plan job=web create=2 place=a1@n1:a,a2@n1:a,a3@n1:b
         client a1@n1 failed
         eval reap allocs=a1
         show summary web
         reconcile web=a:4
         show summary web",
        expect![[r#"
            job register web groups=a,b eval=e1: ok [+summary:web +job:web +version:web.0 +eval:e1]
            plan job=web create=2 place=a1@n1:a,a2@n1:a,a3@n1:b: ok [+alloc:a1 +alloc:a2 ~summary:web +alloc:a3 ~job:web]
            client a1@n1 failed: ok [~summary:web ~alloc:a1]
            eval reap allocs=a1: ok [-alloc:a1]
               summary web: a(starting=1 failed=1) b(starting=1) create=2 modify=4
            reconcile web=a:4: ok [~summary:web]
               summary web: a(queued=4 starting=1) b(starting=1) create=2 modify=6
        "#]],
    );
}

#[test]
fn deployment_registered_with_a_job_cancels_the_previous_one() {
    check(
        "job register web groups=g deployment=d1 eval=e1
         job register web groups=g deployment=d2 eval=e2
         show deployment d1
         show deployment d2",
        expect![[r#"
            job register web groups=g deployment=d1 eval=e1: ok [+summary:web +job:web +version:web.0 +deployment:d1 +eval:e1]
            job register web groups=g deployment=d2 eval=e2: ok [~job:web +version:web.1 ~deployment:d1 +deployment:d2 +eval:e2]
               deployment d1: cancelled "Cancelled due to newer version of job" create=2 modify=3 g()
               deployment d2: running "" create=3 modify=3 g()
        "#]],
    );
}

#[test]
fn dead_job_stopped_with_an_evaluation_becomes_pending() {
    check(
        "job register web groups=g
         eval e1 complete job=web
         job stop web eval=e2
         show job web",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            eval e1 complete job=web: ok [+eval:e1 ~job:web]
            job stop web eval=e2: ok [+version:web.1 +eval:e2 ~job:web]
               job web: pending stopped version=1 create=2 modify=4 job-modify=4 groups=g:1
        "#]],
    );
}
