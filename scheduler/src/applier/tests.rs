//! Checks of plans that were made on an older view: accepted and refused parts.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_model::{AllocId, AllocatedResources, AllocatedTaskResources, Allocation, Plan, PlanResult};

use super::{Queue, evaluate, written};
use crate::generic::tests::cluster::Cluster;

/// Places one allocation of `cpu` MHz on each node of the story and tells which nodes took it.
fn check(story: &str, cpu: i64, all_at_once: bool, expected: Expect) {
    let mut cluster = Cluster::new();
    story.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| cluster.line(line));
    let mut plan = Plan { all_at_once, ..Plan::default() };
    for (n, node) in cluster.state.nodes().enumerate() {
        let mut task = AllocatedTaskResources::default();
        task.cpu.cpu_shares = cpu;
        let resources =
            AllocatedResources { tasks: Some([("t".into(), task)].into()), ..AllocatedResources::default() };
        let id = AllocId::from_bytes([n as u8 + 1; 16]);
        let alloc = Allocation {
            id,
            node_id: Some(node.id),
            allocated_resources: Some(Arc::new(resources)),
            ..Allocation::default()
        };
        plan.node_allocation.insert(node.id, vec![Arc::new(alloc)]);
    }
    let (result, refused) = evaluate(&cluster.state, &plan);
    let mut said = String::new();
    for node in cluster.state.nodes() {
        let verdict = if result.node_allocation.contains_key(&node.id) { "taken" } else { "not taken" };
        let why = refused.get(&node.id).map_or(String::new(), |why| format!(": {why}"));
        said.push_str(&format!("{} {verdict}{why}\n", node.name));
    }
    said.push_str(if result.refresh_index > 0 { "look again\n" } else { "all of it\n" });
    expected.assert_eq(&said);
}

#[test]
fn plan_that_fits_is_accepted() {
    check(
        "node n1
         node n2",
        100,
        false,
        expect![[r#"
            n1 taken
            n2 taken
            all of it
        "#]],
    );
}

#[test]
fn placements_on_full_or_down_nodes_are_refused_and_others_accepted() {
    check(
        "node n1
         node n2 cpu=50
         node n3
         down n3",
        100,
        false,
        expect![[r#"
            n1 taken
            n2 not taken: cpu
            n3 not taken: node is not ready for placements
            look again
        "#]],
    );
}

#[test]
fn all_at_once_plan_is_refused_whole_when_one_node_does_not_fit() {
    check(
        "node n1
         node n2 cpu=50",
        100,
        true,
        expect![[r#"
            n1 not taken
            n2 not taken: cpu
            look again
        "#]],
    );
}

#[test]
fn plan_queue_is_ordered_by_priority_then_arrival() {
    let mut queue = Queue::default();
    for (priority, name) in [(50, "first"), (90, "urgent"), (50, "second"), (10, "idle"), (90, "urgent too")] {
        queue.push(priority, name);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(order, ["urgent", "urgent too", "first", "second", "idle"]);
    assert!(queue.is_empty());
}

#[test]
fn refresh_index_of_a_refused_plan_is_at_least_its_alloc_index() {
    for (asked, told) in [(0, 0), (7, 12), (20, 20)] {
        let result = written(PlanResult { refresh_index: asked, ..PlanResult::default() }, 12);
        assert_eq!((result.alloc_index, result.refresh_index), (12, told));
    }
}
