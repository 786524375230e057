//! New versions of a system job, and its end.

use expect_test::expect;

use super::check;

#[test]
fn change_of_tasks_replaces_every_alloc_on_its_node() {
    check(
        "node a
         node b
         job j system env=1
         run j
         client j.web[0] running
         job j system env=2
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              place after j.web[0] on b
              stop j.web[0] on a: alloc is being updated due to job update
              stop j.web[0] on b: alloc is being updated due to job update
              would: web ignore 0 place 0 stop 0 destructive 2
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn change_that_concerns_no_task_is_made_in_place() {
    check(
        "node a
         node b
         job j system
         run j
         client j.web[0] running
         job j system kill=9
         run j annotate
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              update j.web[0] on a
              update j.web[0] on b
              would: web ignore 0 place 0 stop 0 in place 2
              eval complete, queued web 0
            run j:
              would: web ignore 2 place 0 stop 0
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn rolling_update_replaces_max_parallel_allocs_at_a_time() {
    check(
        "node a
         node b
         node c
         job j system env=1 parallel=2 stagger=30
         run j
         client j.web[0] running
         job j system env=2 parallel=2 stagger=30
         run j annotate
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              place j.web[0] on c
              eval complete, queued web 0
            run j:
              new eval rolling-update pending in 30s
              place after j.web[0] on a
              place after j.web[0] on b
              stop j.web[0] on a: alloc is being updated due to job update
              stop j.web[0] on b: alloc is being updated due to job update
              would: web ignore 0 place 0 stop 0 destructive 3
              eval complete, queued web 0, then another
            run j:
              place after j.web[0] on c
              stop j.web[0] on c: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn rolling_update_counts_the_replacements_of_a_partly_accepted_plan() {
    check(
        "node a
         node b
         node c
         node d
         job j system env=1 parallel=2 stagger=30
         run j
         client j.web[0] running
         job j system env=2 parallel=2 stagger=30
         run j partly
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              place j.web[0] on c
              place j.web[0] on d
              eval complete, queued web 0
            run j:
              new eval rolling-update pending in 30s
              place after j.web[0] on a
              stop j.web[0] on a: alloc is being updated due to job update
              place after j.web[0] on b
              stop j.web[0] on b: alloc is being updated due to job update
              eval complete, queued web 0, then another
            run j:
              place after j.web[0] on c
              place after j.web[0] on d
              stop j.web[0] on c: alloc is being updated due to job update
              stop j.web[0] on d: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn alloc_ends_where_a_new_constraint_excludes_its_node() {
    check(
        "node a meta.rack=r1
         node b meta.rack=r2
         job j system
         run j
         client j.web[0] running
         job j system constraint=${meta.rack},=,r1
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              stop j.web[0] on b: alloc is being updated due to job update
              update j.web[0] on a
              would: web ignore 0 place 0 stop 0 in place 1 destructive 1
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 0; constraints {${meta.rack} = r1: 1}
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn dry_run_counts_a_new_alloc_beside_one_that_its_constraint_ends() {
    check(
        "node a meta.rack=r1
         node b meta.rack=r2
         job j system
         run j
         node c meta.rack=r1
         job j system constraint=${meta.rack},=,r1
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              place j.web[0] on c
              stop j.web[0] on b: alloc is being updated due to job update
              update j.web[0] on a
              would: web ignore 0 place 1 stop 0 in place 1 destructive 1
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn alloc_ends_where_the_job_leaves_its_datacenter() {
    check(
        "node a dc=eu
         node b dc=us
         job j system
         run j
         job j system dcs=eu
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              stop j.web[0] on b: alloc not needed due to job update
              update j.web[0] on a
              would: web ignore 0 place 0 stop 1 in place 1
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn ineligible_node_keeps_its_alloc_through_an_update() {
    check(
        "node a
         node b
         job j system env=1
         run j
         client j.web[0] running
         ineligible a
         job j system env=2
         run j
         eligible a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              place after j.web[0] on b
              stop j.web[0] on b: alloc is being updated due to job update
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              stop j.web[0] on a: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn stopped_and_purged_jobs_end_on_every_node() {
    check(
        "node a
         node b
         job j system
         run j
         stop j
         run j
         job k system
         run k
         purge k
         run k",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              stop j.web[0] on a: alloc not needed due to job update
              stop j.web[0] on b: alloc not needed due to job update
              eval complete, queued web 0
            run k:
              place k.web[0] on a
              place k.web[0] on b
              eval complete, queued web 0
            run k:
              stop k.web[0] on a: alloc not needed due to job update
              stop k.web[0] on b: alloc not needed due to job update
              eval complete, queued 
        "#]],
    );
}

#[test]
fn removed_group_ends_on_every_node() {
    check(
        "node a
         job j system second_constraint=${node.unique.name},!=,z
         run j
         job j system
         run j annotate",
        expect![[r#"
            run j:
              place j.second[0] on a
              place j.web[0] on a
              eval complete, queued second 0 web 0
            run j:
              stop j.second[0] on a: alloc not needed due to job update
              update j.web[0] on a
              would: second ignore 0 place 0 stop 1
              would: web ignore 0 place 0 stop 0 in place 1
              eval complete, queued web 0
        "#]],
    );
}
