//! The applier's rejections: a node whose plans are rejected too often takes no more work, when that is configured.

use std::sync::Arc;

use songline_model::{
    AllocId, AllocatedResources, AllocatedTaskResources, Allocation, Dur, Eligibility, Job, NodeId, Plan, PlanResult,
    StopAlloc,
};
use songline_scheduler::applier::RejectionLimits;

use crate::config::ServerConfig;
use crate::leadership::tests::register_node;
use crate::testing::{Settings, TestServer};

const NODE: NodeId = NodeId::from_bytes([7; 16]);

/// A plan that places an allocation of so many MHz on the node, which has 100,000.
fn place(id: u8, cpu_shares: i64) -> Plan {
    let mut task = AllocatedTaskResources::default();
    task.cpu.cpu_shares = cpu_shares;
    let resources = AllocatedResources { tasks: Some([("t".into(), task)].into()), ..AllocatedResources::default() };
    let alloc = Allocation {
        id: AllocId::from_bytes([id; 16]),
        node_id: Some(NODE),
        allocated_resources: Some(Arc::new(resources)),
        ..Allocation::default()
    };
    Plan { node_allocation: [(NODE, vec![Arc::new(alloc)])].into(), ..Plan::default() }
}

/// A plan that places more on the node than it has.
fn too_much() -> Plan {
    place(1, 200_000)
}

/// Submits such plans to a server. Returns the results, the node's eligibility and events, and the metrics.
async fn reject(limits: RejectionLimits, plans: usize) -> (Vec<PlanResult>, Eligibility, Vec<String>, String) {
    let server = ServerConfig { plan_rejections: limits, ..ServerConfig::default() };
    let server = TestServer::start(Settings { server, ..Settings::default() }).await.expect("it starts");
    register_node(&server.core).await;
    let term = server.core.term().expect("a single server leads");
    let mut results = Vec::new();
    for _ in 0..plans {
        results.push(server.core.submit_plan(&term, too_much()).await.expect("the applier answers"));
    }
    let node = server.core.view().node(NODE).cloned().expect("the node is registered");
    let events = node.events.iter().flatten().filter(|event| event.subsystem == "Scheduler");
    let events = events.map(|event| event.message.to_string()).collect();
    let metrics = server.core.metrics_text();
    server.stop().await;
    (results, node.scheduling_eligibility, events, metrics)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_whose_plans_are_rejected_too_often_becomes_ineligible_once() {
    let limits = RejectionLimits { enabled: true, node_threshold: 3, node_window: Dur::from_mins(5) };
    let (results, eligibility, events, metrics) = reject(limits, 5).await;
    assert_eq!(eligibility, Eligibility::Ineligible);
    assert_eq!(
        events,
        ["Node marked as ineligible for scheduling due to multiple plan rejections, refer to \
          https://www.nomadproject.io/s/port-plan-failure for more information"]
    );
    let marked: Vec<usize> = results.iter().map(|result| result.ineligible_nodes.len()).collect();
    assert_eq!(marked, [0, 0, 1, 0, 0]);
    assert!(results[2].alloc_index > 0 && results[2].refresh_index >= results[2].alloc_index, "{:?}", results[2]);
    let score = format!("nomad_nomad_plan_rejection_tracker_node_score{{node_id=\"{NODE}\"}} 3");
    assert!(metrics.contains(&score), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejections_are_only_counted_while_the_tracker_is_disabled() {
    let limits = RejectionLimits { enabled: false, node_threshold: 3, node_window: Dur::from_mins(5) };
    let (_, eligibility, events, metrics) = reject(limits, 5).await;
    assert_eq!((eligibility, events), (Eligibility::Eligible, Vec::new()));
    assert!(metrics.contains("nomad_nomad_plan_rejection_tracker_node_score"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_that_needs_the_room_of_a_plan_that_was_lost_is_refused() {
    let server = TestServer::start(Settings::default()).await.expect("it starts");
    let core = &server.core;
    register_node(core).await;
    let term = core.term().expect("a single server leads");
    let of_job = |plan: Plan| Plan { job: Some(Arc::new(Job::default())), ..plan };
    let placed = core.submit_plan(&term, of_job(place(1, 90_000))).await.expect("it fits");
    assert_eq!(placed.node_allocation.len(), 1, "{placed:?}");

    // The write of the plan that stops the allocation is held back until the next plan has been checked.
    let (open, gate) = tokio::sync::oneshot::channel();
    core.hooks.lost_plans.lock().push(gate);
    let stop = StopAlloc { id: AllocId::from_bytes([1; 16]), ..StopAlloc::default() };
    let frees = Plan { node_update: [(NODE, vec![stop])].into(), ..Plan::default() };
    let needs = of_job(place(2, 90_000));
    let (lost, refused, ()) = tokio::join!(core.submit_plan(&term, frees), core.submit_plan(&term, needs), async {
        while !core.metrics_text().contains("nomad_nomad_plan_evaluate_count 3") {
            tokio::task::yield_now().await;
        }
        drop(open);
    });
    assert!(lost.is_err(), "{lost:?}");
    let refused = refused.expect("the applier answers");
    assert!(refused.node_allocation.is_empty() && refused.refresh_index > 0, "{refused:?}");
    let allocs: Vec<AllocId> = core.view().allocs_of_node(NODE).map(|alloc| alloc.id).collect();
    assert_eq!(allocs, [AllocId::from_bytes([1; 16])]);
    server.stop().await;
}
