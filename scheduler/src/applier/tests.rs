//! Checks of plans that were made on an older view: accepted and refused parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::ApplyPlan;
use songline_model::{
    AllocId, AllocatedDeviceResource, AllocatedResources, AllocatedTaskResources, Allocation, NodeId, Plan, PlanResult,
};

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

/// Places an allocation with these cores and devices on a node where one holds core 0 and device `a1`.
fn beside(cores: &[u64], devices: &[&str]) -> BTreeMap<NodeId, String> {
    let resources = |cores: &[u64], devices: &[&str]| {
        let mut task = AllocatedTaskResources::default();
        task.cpu.reserved_cores = Some(cores.to_vec());
        let ids = Some(devices.iter().map(|id| (*id).into()).collect());
        let kind = AllocatedDeviceResource { kind: "gpu".into(), device_ids: ids, ..Default::default() };
        task.devices = Some(vec![kind]);
        Some(Arc::new(AllocatedResources { tasks: Some([("t".into(), task)].into()), ..AllocatedResources::default() }))
    };
    let mut cluster = Cluster::new();
    ["node n1 cores=2", "job j", "run j"].into_iter().for_each(|line| cluster.line(line));
    let known = cluster.state.allocs().next().cloned().unwrap();
    let held = Allocation { allocated_resources: resources(&[0], &["a1"]), ..Allocation::clone(&known) };
    cluster.commit(ApplyPlan { updated: vec![Arc::new(held)], ..ApplyPlan::default() });
    let node = known.node_id.unwrap();
    let id = AllocId::from_bytes([9; 16]);
    let alloc =
        Allocation { id, node_id: Some(node), allocated_resources: resources(cores, devices), ..Allocation::default() };
    let plan = Plan { node_allocation: [(node, vec![Arc::new(alloc)])].into(), ..Plan::default() };
    evaluate(&cluster.state, &plan).1
}

#[test]
fn plan_with_a_core_or_device_that_another_alloc_holds_is_refused() {
    let why = |refused: BTreeMap<NodeId, String>| refused.into_values().collect::<Vec<_>>();
    assert!(beside(&[1], &["a2"]).is_empty());
    assert_eq!(why(beside(&[0], &["a2"])), ["cores"]);
    assert_eq!(why(beside(&[2], &["a2"])), ["cores"], "the node has no such core");
    assert_eq!(why(beside(&[1], &["a1", "a2"])), ["device oversubscribed"]);
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
