//! The applier's rejections: a node whose plans are rejected too often takes no more work, when that is configured.

use std::sync::Arc;

use songline_model::{
    AllocId, AllocatedResources, AllocatedTaskResources, Allocation, Dur, Eligibility, NodeId, Plan, PlanResult,
};
use songline_scheduler::applier::RejectionLimits;

use crate::config::ServerConfig;
use crate::leadership::tests::register_node;
use crate::testing::{Settings, TestServer};

const NODE: NodeId = NodeId::from_bytes([7; 16]);

/// A plan that places more on the node than it has.
fn too_much() -> Plan {
    let mut task = AllocatedTaskResources::default();
    task.cpu.cpu_shares = 200_000;
    let resources = AllocatedResources { tasks: Some([("t".into(), task)].into()), ..AllocatedResources::default() };
    let alloc = Allocation {
        id: AllocId::from_bytes([1; 16]),
        node_id: Some(NODE),
        allocated_resources: Some(Arc::new(resources)),
        ..Allocation::default()
    };
    Plan { node_allocation: [(NODE, vec![Arc::new(alloc)])].into(), ..Plan::default() }
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
