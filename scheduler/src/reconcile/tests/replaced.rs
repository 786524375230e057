//! Allocations that were replaced while their nodes were disconnected: they are not replaced a second time.

use expect_test::expect;

use super::check;

#[test]
fn migrating_disconnected_alloc_with_a_replacement_is_not_replaced_again() {
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
fn migrated_disconnected_alloc_is_lost_and_not_migrated_again() {
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
fn alloc_migrated_while_disconnected_is_not_kept_on_reconnect() {
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
fn reconnected_migrating_alloc_stops_in_favor_of_its_replacement() {
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
fn alloc_that_disconnects_again_before_an_evaluation_keeps_its_replacement() {
    check(
        "job count=2 disconnect=300 delay=1
         alloc 0 node=disconnected states=unknown@-90 next=r
         alloc 0 as=r
         alloc 1",
        expect![[r#"
            unknown until max-disconnect-timeout: 0
            look again in 300s: max-disconnect-timeout
            web: ignore 3
        "#]],
    );
}

#[test]
fn lost_alloc_with_a_replacement_does_not_use_the_placement_of_another() {
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
fn disconnected_alloc_is_replaced_again_when_its_replacement_returns_failed() {
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
fn surplus_allocs_with_a_duplicate_name_stop_first() {
    check(
        "job count=3 disconnect=300
         alloc 0 states=unknown next=r
         alloc 0 as=r client=complete ended=-20
         alloc 0-2",
        expect![[r#"
            stop, alloc not needed due to disconnected client reconnect: 0
            stop, alloc not needed due to job update: 0
            back as running: 0
            web: ignore 3, stop 2
        "#]],
    );
}
