//! Steady state, scaling, and changes of the job.

use expect_test::expect;

use super::check;

#[test]
fn a_new_job_is_placed_whole() {
    check(
        "job count=10",
        expect![[r#"
            place: 0-9
            web: place 10
        "#]],
    );
}

#[test]
fn missing_allocs_are_placed_under_free_names() {
    check(
        "job count=10
         alloc 0-4",
        expect![[r#"
            place: 5-9
            web: ignore 5, place 5
        "#]],
    );
}

#[test]
fn surplus_is_stopped_from_the_highest_name_down() {
    check(
        "job count=10
         alloc 0-19",
        expect![[r#"
            stop, alloc not needed due to job update: 10-19
            web: ignore 10, stop 10
        "#]],
    );
}

#[test]
fn count_zero_stops_all() {
    check(
        "job count=0
         alloc 0-19",
        expect![[r#"
            stop, alloc not needed due to job update: 0-19
            web: stop 20
        "#]],
    );
}

#[test]
fn allocs_with_duplicate_names_are_stopped_too() {
    check(
        "job count=0
         alloc 0-1 copies=10",
        expect![[r#"
            stop, alloc not needed due to job update: 0-1 (20 of them)
            web: stop 20
        "#]],
    );
}

#[test]
fn changes_in_place_keep_their_allocs() {
    check(
        "job count=10
         alloc 0-9 change=inplace",
        expect![[r#"
            change in place: 0-9
            web: in place 10
        "#]],
    );
}

#[test]
fn changes_in_place_with_a_higher_count_place_the_rest() {
    check(
        "job count=15
         alloc 0-9 change=inplace",
        expect![[r#"
            place: 10-14
            change in place: 0-9
            web: place 5, in place 10
        "#]],
    );
}

#[test]
fn changes_in_place_with_a_lower_count_stop_the_rest() {
    check(
        "job count=5
         alloc 0-9 change=inplace",
        expect![[r#"
            change in place: 0-4
            stop, alloc not needed due to job update: 5-9
            web: stop 5, in place 5
        "#]],
    );
}

#[test]
fn destructive_changes_without_an_update_block_happen_at_once() {
    check(
        "job count=10
         alloc 0-9 change=old",
        expect![[r#"
            replace: 0-9
            web: destructive 10
        "#]],
    );
}

#[test]
fn max_parallel_zero_is_no_update_block() {
    check(
        "job count=10 parallel=0
         alloc 0-9 change=old",
        expect![[r#"
            replace: 0-9
            web: destructive 10
        "#]],
    );
}

#[test]
fn destructive_changes_with_a_higher_count_also_place_the_rest() {
    check(
        "job count=15
         alloc 0-9 change=old",
        expect![[r#"
            place: 10-14
            replace: 0-9
            web: place 5, destructive 10
        "#]],
    );
}

#[test]
fn destructive_changes_with_a_lower_count_stop_the_rest() {
    check(
        "job count=5
         alloc 0-9 change=old",
        expect![[r#"
            replace: 0-4
            stop, alloc not needed due to job update: 5-9
            web: stop 5, destructive 5
        "#]],
    );
}

#[test]
fn a_renamed_group_is_stopped_and_placed_anew() {
    check(
        "job count=10 group=different
         alloc 0-9 group=web",
        expect![[r#"
            place (different): 0-9
            stop, alloc not needed due to job update: 0-9
            different: place 10
            web: stop 10
        "#]],
    );
}

#[test]
fn a_stopped_job_stops_its_allocs() {
    check(
        "job count=10 stopped
         alloc 0-9",
        expect![[r#"
            stop, alloc not needed due to job update: 0-9
            web: stop 10
        "#]],
    );
}

#[test]
fn a_purged_job_stops_its_allocs() {
    check(
        "job count=10 gone
         alloc 0-9",
        expect![[r#"
            stop, alloc not needed due to job update: 0-9
            web: stop 10
        "#]],
    );
}

#[test]
fn a_stopped_job_leaves_terminal_allocs_alone() {
    check(
        "job count=10 stopped
         alloc 0-4 desired=stop client=running
         alloc 5-9 client=failed",
        expect![[r#"
            web: nothing
        "#]],
    );
}

#[test]
fn a_second_group_is_placed_beside_the_first() {
    check(
        "job count=10
         group foo count=10
         alloc 0-1",
        expect![[r#"
            place (foo): 0-9
            place: 2-9
            foo: place 10
            web: ignore 2, place 8
        "#]],
    );
}

#[test]
fn a_batch_job_registered_anew_runs_anew() {
    check(
        "job batch count=10 created=20
         alloc 0-9 created=10 client=complete desired=stop ended=-5",
        expect![[r#"
            place: 0-9
            web: ignore 10, place 10
        "#]],
    );
}

#[test]
fn a_complete_service_alloc_is_replaced() {
    check(
        "job count=5
         alloc 0-3
         alloc 4 client=complete",
        expect![[r#"
            place: 4
            web: ignore 4, place 1
        "#]],
    );
}

#[test]
fn a_stopped_failed_alloc_is_replaced_without_delay() {
    check(
        "job count=5
         alloc 0-3
         alloc 4 client=failed desired=stop ended=0",
        expect![[r#"
            place: 4
            web: ignore 4, place 1
        "#]],
    );
}

#[test]
fn a_batch_chain_of_failures_waits_for_its_delay() {
    check(
        "job batch count=4 attempts=3 delay=15
         alloc 5 client=complete
         alloc 0-1
         alloc 2 as=a next=b client=failed ended=-40
         alloc 2 as=b next=c client=failed ended=-20 events=1
         alloc 2 as=c client=failed ended=0 events=2",
        expect![[r#"
            later: 2
            look again in 15s: alloc-failure
            web: ignore 4
        "#]],
    );
}
