//! Stories of plan results.

use std::sync::Arc;

use expect_test::expect;
use songline_commands::{Actor, ApplyPlan, Command, Envelope, SetDesiredTransitions};
use songline_model::{AllocId, AllocState, Allocation, DesiredTransition, EvalId, StopAlloc, Time};

use crate::story::{check, id, state_after};
use crate::{State, apply};

#[test]
fn plan_places_and_stops_allocs() {
    check(
        "job register web groups=g eval=e1
         plan job=web create=2 place=a1@n1:g,a2@n1:g for=e1
         show eval e1
         client a1@n1 running
         plan job=web stop=a1 lose=a2
         show alloc a1
         show alloc a2
         show summary web",
        expect![[r#"
            job register web groups=g eval=e1: ok [+summary:web +job:web +version:web.0 +eval:e1]
            plan job=web create=2 place=a1@n1:g,a2@n1:g for=e1: ok [~eval:e1 +alloc:a1 ~summary:web +alloc:a2 ~job:web]
               eval e1: pending "" create=2 modify=3
            client a1@n1 running: ok [~summary:web ~alloc:a1]
            plan job=web stop=a1 lose=a2: ok [~alloc:a1 ~summary:web ~alloc:a2 ~job:web]
               alloc a1: stop/running create=3 modify=5 alloc-modify=5 version=0 "alloc not needed"
               alloc a2: stop/lost create=3 modify=5 alloc-modify=5 version=0 "alloc is lost since its node is down" states=lost
               summary web: g(running=1 lost=1) create=2 modify=5
        "#]],
    );
}

#[test]
fn allocations_of_a_plan_share_equal_resources() {
    let state = state_after(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g,a2@n1:g cpu=100",
    );
    let resources = |name| state.alloc(AllocId::from_bytes(id(name))).unwrap().allocated_resources.clone().unwrap();
    assert!(Arc::ptr_eq(&resources("a1"), &resources("a2")));
}

#[test]
fn a_refused_plan_changes_nothing() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g stop=a9
         plan job=web place=a1@n1:g
         plan job=web create=2 place=a1@n1:nogroup
         plan job=web create=2 place=a1@n1:g for=e9
         plan job=web create=2 place=a1@n1:g ineligible=n9
         show summary web
         show tables",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g stop=a9: refused: alloc 61390000-0000-0000-0000-000000000000 doesn't exist
            plan job=web place=a1@n1:g: refused: attempting to upsert allocation "61310000-0000-0000-0000-000000000000" without a job
            plan job=web create=2 place=a1@n1:nogroup: refused: unable to find task group in the job summary: nogroup
            plan job=web create=2 place=a1@n1:g for=e9: refused: unable to find eval id "65390000-0000-0000-0000-000000000000"
            plan job=web create=2 place=a1@n1:g ineligible=n9: refused: node not found
               summary web: g() create=2 modify=2
               changed: jobs=2 job_summary=2 job_version=2
        "#]],
    );
}

#[test]
fn in_place_update_keeps_the_status_that_the_node_reported() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g
         client a1@n1 running healthy
         job register web groups=g
         plan job=web create=2 version=1 job-modify=5 place=a1@n1:g
         show alloc a1
         plan job=web place=a1@n1:g client=unknown
         show alloc a1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            client a1@n1 running healthy: ok [~summary:web ~alloc:a1]
            job register web groups=g: ok [~job:web +version:web.1]
            plan job=web create=2 version=1 job-modify=5 place=a1@n1:g: ok [~alloc:a1]
               alloc a1: run/running create=3 modify=6 alloc-modify=6 version=1 healthy=Some(true)@4 canary=true
            plan job=web place=a1@n1:g client=unknown: ok [~summary:web ~alloc:a1]
               alloc a1: run/unknown create=3 modify=7 alloc-modify=7 version=1 healthy=Some(true)@4 canary=true
        "#]],
    );
}

#[test]
fn replaced_alloc_names_its_replacement() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g
         plan job=web create=2 stop=a1 place=a2@n1:g previous=a1
         show alloc a1
         plan job=web place=a2@n1:g previous=a1
         show alloc a1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            plan job=web create=2 stop=a1 place=a2@n1:g previous=a1: ok [~summary:web +alloc:a2 ~alloc:a1]
               alloc a1: stop/pending create=3 modify=4 alloc-modify=4 version=0 "alloc not needed" next=a2
            plan job=web place=a2@n1:g previous=a1: ok [~alloc:a2]
               alloc a1: stop/pending create=3 modify=4 alloc-modify=4 version=0 "alloc not needed" next=a2
        "#]],
    );
}

#[test]
fn a_preempted_alloc_is_evicted() {
    check(
        "job register web groups=g
         job register db groups=g
         plan job=web create=2 place=a1@n1:g
         plan job=db create=3 place=a2@n1:g preempt=a1:a2
         show alloc a1
         show job web",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            job register db groups=g: ok [+summary:db +job:db +version:db.0]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            plan job=db create=3 place=a2@n1:g preempt=a1:a2: ok [~summary:db +alloc:a2 ~alloc:a1 ~job:db ~job:web]
               alloc a1: evict/pending create=4 modify=5 alloc-modify=5 version=0 "Preempted by alloc ID 61320000-0000-0000-0000-000000000000"
               job web: dead version=0 create=2 modify=5 job-modify=2 groups=g:1
        "#]],
    );
}

#[test]
fn node_that_refuses_plans_becomes_ineligible() {
    check(
        "node register n1
         job register web groups=g
         plan job=web create=3 place=a1@n1:g ineligible=n1
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g ineligible=n1: ok [~node:n1 ~summary:web +alloc:a1 ~job:web]
               node n1: initializing ineligible pool=default create=2 modify=4 missed=0 told=0 events=["Node registered@0", "Node marked as ineligible for scheduling due to multiple plan rejections, refer to https://www.nomadproject.io/s/port-plan-failure for more information@4"]
        "#]],
    );
}

#[test]
fn an_ended_deployment_does_not_refuse_the_plan() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g
         plan job=web create=2 end=d1
         plan job=web create=2 end=d1 place=a1@n1:g
         plan job=web create=2 end=d9
         show deployment d1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g: ok [+deployment:d1]
            plan job=web create=2 end=d1: ok [~deployment:d1 ~version:web.0 ~job:web]
            plan job=web create=2 end=d1 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            plan job=web create=2 end=d9: ok
               deployment d1: successful "Deployment marked as successful" create=3 modify=4 g()
        "#]],
    );
}

#[test]
fn allocs_of_a_purged_job_do_not_count_in_the_summary_of_a_new_one() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g
         job purge web
         job register web groups=g
         client a1@n1 running
         show summary web
         show job web",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            job purge web: ok [-job:web -version:web.0 -summary:web]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            client a1@n1 running: ok [~alloc:a1]
               summary web: g() create=5 modify=5
               job web: running version=0 create=5 modify=5 job-modify=5 groups=g:1
        "#]],
    );
}

#[test]
fn alloc_state_history_only_grows() {
    let mut state = state_after(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g",
    );
    let words = |state: &State| -> String {
        let row = state.alloc(AllocId::from_bytes(id("a1"))).unwrap();
        row.alloc_states.iter().flatten().map(|state| state.value.to_string()).collect::<Vec<_>>().join(" ")
    };
    let mut plan = |states: Option<Vec<&str>>| {
        let mut row = Allocation::clone(state.alloc(AllocId::from_bytes(id("a1"))).unwrap());
        let said = |value: &str| AllocState { value: value.into(), ..AllocState::default() };
        row.alloc_states = states.map(|states| states.into_iter().map(said).collect());
        let index = state.raft_index() + 1;
        let command = ApplyPlan { updated: vec![Arc::new(row)], ..ApplyPlan::default() };
        apply(&mut state, index, &Envelope::new(Time::from_secs(9), Actor::Anonymous, command)).result.unwrap();
        words(&state)
    };
    assert_eq!(plan(Some(vec!["unknown"])), "unknown");
    assert_eq!(plan(Some(vec!["unknown", "running"])), "unknown running");
    assert_eq!(plan(Some(vec!["unknown"])), "unknown running", "an older copy");
    assert_eq!(plan(Some(vec!["unknown", "lost", "unknown"])), "unknown running", "a copy that knew otherwise");
    assert_eq!(plan(None), "unknown running", "a copy without any");
}

#[test]
fn plan_keeps_a_transition_that_was_set_while_it_was_made() {
    let transition_after = |keeps_transitions| {
        let mut state = state_after(
            "job register web groups=g
             plan job=web create=2 place=a1@n1:g",
        );
        let a1 = AllocId::from_bytes(id("a1"));
        let followup = Some(EvalId::from_bytes(id("e2")));
        let row = Allocation { followup_eval_id: followup, ..Allocation::clone(state.alloc(a1).unwrap()) };
        let transition = DesiredTransition { force_reschedule: Some(true), ..DesiredTransition::default() };
        let forced = SetDesiredTransitions { allocs: [(a1, transition)].into(), ..SetDesiredTransitions::default() };
        let plan = ApplyPlan { updated: vec![Arc::new(row)], keeps_transitions, ..ApplyPlan::default() };
        for command in [Command::from(forced), Command::from(plan)] {
            let index = state.raft_index() + 1;
            apply(&mut state, index, &Envelope::new(Time::from_secs(9), Actor::Anonymous, command)).result.unwrap();
        }
        let row = state.alloc(a1).unwrap();
        assert_eq!(row.followup_eval_id, followup);
        row.desired_transition.force_reschedule
    };
    assert_eq!(transition_after(true), Some(true));
    assert_eq!(transition_after(false), None, "of a server that does not keep them");
}

#[test]
fn empty_alloc_state_is_not_added_to_the_history() {
    let mut state = state_after(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g",
    );
    let stop = StopAlloc {
        id: AllocId::from_bytes(id("a1")),
        append_state: Some(AllocState::default()),
        ..StopAlloc::default()
    };
    let command = ApplyPlan { stopped: vec![stop], ..ApplyPlan::default() };
    let index = state.raft_index() + 1;
    apply(&mut state, index, &Envelope::new(Time::from_secs(9), Actor::Anonymous, command)).result.unwrap();
    assert_eq!(state.alloc(AllocId::from_bytes(id("a1"))).unwrap().alloc_states, None);
}
