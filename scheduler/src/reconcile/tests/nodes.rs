//! Nodes that go down, drain or stay disconnected.

use expect_test::expect;

use super::check;

#[test]
fn batch_work_that_ended_on_a_lost_node_counts_once_with_its_replacement() {
    check(
        "job batch count=3
         alloc 0 desired=stop client=complete ended=-10
         alloc 0 as=r client=complete ended=0
         alloc 1",
        expect![[r#"
            place: 2
            web: ignore 2, place 1
        "#]],
    );
}

#[test]
fn stop_after_client_disconnect_is_not_cut_short_by_another_eval() {
    check(
        "job count=1 stop_after=60
         alloc 0 node=down client=lost desired=stop states=lost@-10 followup=other",
        expect![[r#"
            web: nothing
        "#]],
    );
}

#[test]
fn stop_after_client_disconnect_ends_with_its_own_eval() {
    check(
        "job count=1 stop_after=60
         alloc 0 node=down client=lost desired=stop states=lost@-10 followup=this",
        expect![[r#"
            place: 0
            web: place 1
        "#]],
    );
}
