//! Allocations that were replaced while their nodes were disconnected: they are not replaced a second time.

use expect_test::expect;

use super::check;

#[test]
fn one_that_is_away_and_has_to_move_is_not_replaced_a_second_time() {
    check(
        "job count=4 disconnect=300
         alloc 0 node=disconnected client=unknown states=unknown@-90,running@-60,unknown@-30 followup=other migrate next=r
         alloc 0 as=r
         alloc 1-2 node=disconnected client=unknown states=unknown@-2 followup=other
         alloc 3",
        expect![[r#"
            stop, alloc not needed due to job update: 0
            web: ignore 4, stop 1
        "#]],
    );
}

#[test]
fn one_that_is_away_and_was_moved_is_not_moved_again() {
    check(
        "job count=3 disconnect=300
         alloc 0 node=disconnected desired=stop client=unknown states=unknown@-400 migrate next=r
         alloc 0 as=r
         alloc 1 node=down desired=stop client=unknown states=unknown@-90 migrate next=r
         alloc 1 as=r
         alloc 2 node=disconnected client=unknown states=unknown@-2 followup=other",
        expect![[r#"
            stop as lost, alloc is lost since its node is down: 0-1
            web: ignore 3, stop 2
        "#]],
    );
}

#[test]
fn one_that_was_moved_while_it_was_away_comes_back_to_end() {
    check(
        "job count=3 disconnect=300
         alloc 0 desired=stop states=unknown@-90 migrate next=r
         alloc 0 as=r
         alloc 1
         alloc 2 node=disconnected client=unknown states=unknown@-2 followup=other",
        expect![[r#"
            web: ignore 4
        "#]],
    );
}

#[test]
fn one_that_comes_back_and_has_to_move_leaves_its_place_to_its_replacement() {
    check(
        "job count=3 disconnect=300
         alloc 0 states=unknown@-90 migrate next=r
         alloc 0 as=r
         alloc 1
         alloc 2 node=disconnected client=unknown states=unknown@-2 followup=other",
        expect![[r#"
            stop, alloc not needed due to job update: 0
            web: ignore 3, stop 1
        "#]],
    );
}

#[test]
fn one_that_goes_away_again_before_anybody_looked_keeps_its_replacement() {
    check(
        "job count=2 disconnect=300 delay=1
         alloc 0 node=disconnected states=unknown@-90 next=r
         alloc 0 as=r
         alloc 1",
        expect![[r#"
            unknown: 0
            look again in 300s: max-disconnect-timeout
            web: ignore 3
        "#]],
    );
}

#[test]
fn a_lost_one_that_was_replaced_does_not_take_the_place_of_another_lost_one() {
    check(
        "job count=3 disconnect=300
         alloc 0 node=disconnected client=unknown states=unknown@-400 next=r
         alloc 0 as=r
         alloc 1 node=down
         alloc 2",
        expect![[r#"
            place after lost: 1
            stop as lost, alloc is lost since its node is down: 0-1
            web: ignore 2, place 1, stop 2
        "#]],
    );
}

#[test]
fn one_that_is_away_is_replaced_anew_when_its_replacement_comes_back_failed() {
    check(
        "job count=2 disconnect=300
         alloc 0 node=disconnected client=unknown states=unknown@-90 followup=other next=r
         alloc 0 as=r client=failed states=unknown@-60 ended=-5
         alloc 1",
        expect![[r#"
            place again: 0
            stop as failed, alloc was rescheduled because it failed: 0
            web: ignore 1, place 1, stop 1
        "#]],
    );
}

#[test]
fn of_too_many_those_with_the_name_of_another_go_first() {
    check(
        "job count=3 disconnect=300
         alloc 0 states=unknown next=r
         alloc 0 as=r client=complete ended=-20
         alloc 0-2",
        expect![[r#"
            stop, alloc not needed due to disconnected client reconnect: 0
            stop, alloc not needed due to job update: 0
            back: 0
            web: ignore 3, stop 2
        "#]],
    );
}
