//! Evaluations: statuses, blocked evaluations, repeated attempts.

use expect_test::expect;
use songline_model::{EvalTrigger, Evaluation, JobType, PlanResult};

use super::check;
use super::cluster::Cluster;
use crate::attempts::{Scheduler, Step};

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
fn driver_that_a_node_lacks_rules_out_the_other_nodes_of_its_class() {
    check(
        "node a driverless
         node b driverless
         node c driverless
         job j count=1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 0 yes 1 no
              failed web: evaluated 3 filtered 3 exhausted 0 coalesced 0 in pool 3; available {dc1: 3}; constraints {computed class ineligible: 2, missing drivers: 1}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn sick_driver_leaves_the_class_to_the_group_that_needs_it() {
    check(
        "node a sick
         node b sick
         job j count=1 second_constraint=${meta.rack},=,r1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed second: evaluated 2 filtered 2 exhausted 0 coalesced 0 in pool 2; available {dc1: 2}; constraints {computed class ineligible: 1, missing drivers: 1}
              failed web: evaluated 2 filtered 2 exhausted 0 coalesced 0 in pool 2; available {dc1: 2}; constraints {missing drivers: 2}
              eval complete, queued second 1 web 1
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

#[test]
fn constraint_of_a_group_that_needs_nothing_escapes_node_classes_too() {
    check(
        "node a
         job j count=1 second_constraint=${node.unique.name},!=,b
         run j
         job j count=1 second_constraint=${node.unique.name},!=,b group_constraint=${meta.rack},=,none
         run j",
        expect![[r#"
            run j:
              place j.second[0] on a
              place j.web[0] on a
              eval complete, queued second 0 web 0
            run j:
              new eval queued-allocs blocked, escaped
              update j.second[0] on a
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {${meta.rack} = none: 1}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn first_follow_up_evaluation_alone_has_a_description() {
    check(
        "node a
         job j count=2 delay=60
         run j
         client j.web[0] failed
         wait 8
         client j.web[1] failed
         run j
         evals j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
            run j:
              new eval alloc-failure pending in 52s
              new eval alloc-failure pending in 60s
              update j.web[0] on a
              update j.web[1] on a
              eval complete, queued web 0
            evals j:
              alloc-failure pending in 52s: created for delayed rescheduling
              alloc-failure pending in 60s: 
        "#]],
    );
}
