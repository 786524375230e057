//! Defects of the reference that are fixed here and show only in the scheduler as a whole.

use std::sync::Arc;

use expect_test::expect;
use songline_model::{AllocClientStatus, Allocation, Job, Node};
use songline_projections::State;

use super::check;
use crate::generic::usage::{OwnCounts, Usage};
use crate::reconcile::{Stop, why};

#[test]
fn fixed_delayed_evaluation_still_creates_a_follow_up() {
    check(
        "node a
         job j count=2 delay=60
         run j
         client j.web[0] failed
         run j due
         wait 60
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
            run j:
              new eval alloc-failure pending in 60s
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              place again j.web[0] on a
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn fixed_failed_placement_blocks_although_a_follow_up_is_pending() {
    check(
        "node a cpu=500
         job j count=1 cpu=500 delay=60
         run j
         client j.web[0] failed
         job j count=2 cpu=500 delay=60
         node b cpu=100
         down a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval alloc-failure pending in 60s
              new eval queued-allocs blocked, classes 1 yes 0 no
              update j.web[0] on a
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 500 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn fixed_disconnect_timeout_of_reconnected_allocs_is_canceled() {
    check(
        "node a
         job j count=1 disconnect=300 delay=60
         run j
         client j.web[0] running
         disconnect a
         run j
         connect a
         client j.web[0] running
         evals j
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 60s
              update j.web[0] on a
              eval complete, queued web 0
            evals j:
              alloc-failure pending in 60s: created for delayed rescheduling
              max-disconnect-timeout canceled in 300s: allocs reconnected
            run j:
              update j.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn fixed_job_of_the_same_name_in_another_namespace_has_no_anti_affinity() {
    let job = Job { id: "j".into(), namespace: "one".into(), ..Job::default() };
    let alloc = |namespace: &str| Allocation {
        job_id: "j".into(),
        namespace: namespace.into(),
        task_group: "web".into(),
        ..Allocation::default()
    };
    let view = State::new();
    let mut usage = Usage::of(&view, &Node::default(), &OwnCounts::of(&view, &job));
    usage.add(&alloc("two"), &job);
    assert_eq!((usage.of_job, usage.of_group("web")), (0, 0));
    usage.add(&alloc("one"), &job);
    assert_eq!((usage.of_job, usage.of_group("web")), (1, 1));
}

#[test]
fn fixed_lost_and_unknown_status_is_recorded_in_the_alloc_history() {
    let stop = |client_status| {
        let alloc = Arc::new(Allocation::default());
        Stop { alloc, description: why::LOST, client_status, followup: None }
            .planned(songline_model::Time::from_secs(5))
            .append_state
    };
    assert_eq!(
        stop(Some(AllocClientStatus::Lost)).map(|state| (state.value, state.time.secs())),
        Some(("lost".into(), 5))
    );
    assert_eq!(stop(Some(AllocClientStatus::Unknown)).map(|state| state.value), Some("unknown".into()));
    assert_eq!((stop(Some(AllocClientStatus::Failed)), stop(None)), (None, None));
}
