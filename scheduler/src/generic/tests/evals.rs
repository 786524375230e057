//! Evaluations: statuses, blocked evaluations, repeated attempts.

use expect_test::expect;
use songline_model::{EvalTrigger, Evaluation, JobType, PlanResult};

use super::check;
use super::cluster::Cluster;
use crate::attempts::{Scheduler, Step};

#[test]
fn job_blocks_whole_when_there_are_no_nodes() {
    check(
        "job j count=10
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 0 yes 0 no
              failed web: evaluated 0 filtered 0 exhausted 0 coalesced 9 in pool 0
              eval complete, queued web 10
        "#]],
    );
}

#[test]
fn blocked_evaluation_lists_eligible_and_ineligible_classes() {
    check(
        "settings
         node full cpu=100 class=x
         node other attr.kernel.name=windows class=y
         job j count=2 constraint=${attr.kernel.name},=,linux
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 1 no
              failed web: evaluated 2 filtered 1 exhausted 1 coalesced 1 in pool 2; available {dc1: 2}; constraints {${attr.kernel.name} = linux: 1}; dimensions {cpu: 1}; classes {y: 1}; task t cpu 1000 memory 0
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn class_of_a_node_without_the_driver_is_ineligible() {
    check(
        "node a driverless attr.x=1
         node b sick attr.x=2
         job j count=1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 1 no
              failed web: evaluated 2 filtered 2 exhausted 0 coalesced 0 in pool 2; available {dc1: 2}; constraints {missing drivers: 2}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn group_is_placed_although_another_group_is_blocked() {
    check(
        "node a class=class_0
         job j count=2 second_constraint=${node.class},=,class_1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on a
              place j.web[1] on a
              failed second: evaluated 1 filtered 1 exhausted 0 coalesced 1 in pool 1; available {dc1: 1}; constraints {${node.class} = class_1: 1}; classes {class_0: 1}
              eval complete, queued second 2 web 0
        "#]],
    );
}

#[test]
fn constraint_on_a_unique_attribute_escapes_node_classes() {
    check(
        "node a
         job j count=1 constraint=${node.unique.name},=,b
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, escaped
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {${node.unique.name} = b: 1}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn placement_failure_metric_says_how_much_memory_was_asked() {
    check(
        "node a mem=300
         job j count=3 mem=256
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on a
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 1 in pool 1; available {dc1: 1}; dimensions {memory: 1}; task t cpu 0 memory 512
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn service_evaluation_fails_after_five_refused_plans() {
    check(
        "node a
         job j count=1
         run j refused",
        expect![[r#"
            run j:
              plan refused
              plan refused
              plan refused
              plan refused
              plan refused
              new eval max-plan-attempts blocked, classes 1 yes 0 no
              eval failed (maximum attempts reached (5)), queued web 1
        "#]],
    );
}

#[test]
fn batch_evaluation_fails_after_two_refused_plans() {
    check(
        "node a
         job j count=1 batch
         run j refused",
        expect![[r#"
            run j:
              plan refused
              plan refused
              new eval max-plan-attempts blocked, classes 1 yes 0 no
              eval failed (maximum attempts reached (2)), queued web 1
        "#]],
    );
}

#[test]
fn a_blocked_evaluation_stays_blocked_until_there_is_room() {
    check(
        "node a cpu=500
         job j count=2 cpu=500
         run j
         run j blocked
         node b cpu=500
         run j blocked",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on a
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 500 memory 0
              eval complete, queued web 1
            run j:
              blocked again
            run j:
              place j.web[1] on b
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn plan_annotations_list_the_desired_updates() {
    check(
        "node a
         job j count=10 cpu=100
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              place j.web[2] on a
              place j.web[3] on a
              place j.web[4] on a
              place j.web[5] on a
              place j.web[6] on a
              place j.web[7] on a
              place j.web[8] on a
              place j.web[9] on a
              would: web ignore 0 place 10 stop 0
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn blocked_evaluation_gets_the_classes_of_a_group_that_fails_in_a_later_attempt() {
    let mut cluster = Cluster::new();
    let nodes = ["a", "c", "d", "e"];
    cluster.line("settings");
    nodes.iter().for_each(|name| cluster.line(&format!("node {name} class=x")));
    ["node b class=y cpu=100", "job j second_constraint=${node.class},=,z"].iter().for_each(|line| cluster.line(line));
    let class = cluster.state.nodes().find(|node| node.name == "b").unwrap().computed_class.clone();
    let eval = Evaluation {
        namespace: "default".into(),
        job_id: "j".into(),
        kind: JobType::Service,
        triggered_by: EvalTrigger::JobRegister,
        ..Evaluation::default()
    };
    let created = |step: Step| match step {
        Step::Submit { create, .. } | Step::Done { create, .. } => create,
    };
    let known = |eval: &Evaluation| eval.class_eligibility.as_ref().and_then(|classes| classes.get(&class)).copied();
    // An order of the nodes in which the first attempt places `web` without a look at `b`, which only the other group
    // has found unfit.
    let begun = (0..100).find_map(|seed| {
        let mut scheduler = Scheduler::new(eval.clone(), seed);
        let first = created(scheduler.step(&cluster.state, cluster.now, None)).swap_remove(0);
        (known(&first) == Some(false)).then_some((scheduler, first))
    });
    let (mut scheduler, first) = begun.unwrap();
    nodes.iter().for_each(|name| cluster.line(&format!("ineligible {name}")));
    let refused = PlanResult { refresh_index: 1, ..PlanResult::default() };
    let again = created(scheduler.step(&cluster.state, cluster.now, Some(&refused))).swap_remove(0);
    assert_eq!(again.id, first.id);
    assert_eq!(known(&again), Some(true));
}
