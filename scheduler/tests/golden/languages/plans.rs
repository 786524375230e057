//! Plans that are made by hand, for the plan applier.

use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocId, AllocatedResources, AllocatedTaskResources, Allocation, NodeId, Plan, StopAlloc,
};

use crate::applier;
use crate::cluster::Cluster;

/// Evaluates a plan of these parts: `evict=NAME`, `unknown=NAME` and `keep=NAME` (an alloc, in place), `new=NODE,CPU`
/// (another alloc), `at_once`. Tells the accepted parts by node and the refusals.
pub(super) fn line(cluster: &mut Cluster, parts: &[&str]) -> String {
    let mut plan = Plan::default();
    for part in parts {
        let (what, of) = part.split_once('=').unwrap_or((part, ""));
        match what {
            "at_once" => plan.all_at_once = true,
            "evict" => evict(&mut plan, &named(cluster, of)),
            "unknown" => {
                let client_status = AllocClientStatus::Unknown;
                place(&mut plan, Allocation { client_status, ..named(cluster, of) });
            }
            "keep" => place(&mut plan, named(cluster, of)),
            "new" => {
                let alloc = new(cluster, of, plan.node_allocation.len());
                place(&mut plan, alloc);
            }
            other => panic!("unknown part {other}"),
        }
    }
    evaluated(cluster, &plan)
}

fn evaluated(cluster: &Cluster, plan: &Plan) -> String {
    let (result, refused) = applier::evaluate(&cluster.state, plan);
    let name = |id: &NodeId| cluster.state.node(*id).map_or("", |node| node.name.as_str()).to_owned();
    let stops = result.node_update.keys().map(|node| format!("stops on {}", name(node)));
    let places = result.node_allocation.keys().map(|node| format!("allocs on {}", name(node)));
    let refusals = refused.iter().map(|(node, why)| format!("refused on {}: {why}", name(node)));
    let again = (result.refresh_index > 0).then(|| "refresh".to_owned());
    let told: Vec<String> = stops.chain(places).chain(refusals).chain(again).collect();
    told.join("; ")
}

fn named(cluster: &Cluster, name: &str) -> Allocation {
    let alloc = cluster.state.allocs().find(|alloc| alloc.name == *name && !alloc.terminal());
    Allocation::clone(alloc.expect("a live alloc of this name"))
}

fn evict(plan: &mut Plan, alloc: &Allocation) {
    let stop = StopAlloc { id: alloc.id, ..StopAlloc::default() };
    plan.node_update.entry(alloc.node_id.expect("a placed alloc")).or_default().push(stop);
}

fn place(plan: &mut Plan, alloc: Allocation) {
    plan.node_allocation.entry(alloc.node_id.expect("a placed alloc")).or_default().push(Arc::new(alloc));
}

fn new(cluster: &Cluster, of: &str, number: usize) -> Allocation {
    let (node, cpu) = of.split_once(',').expect("`NODE,CPU`");
    let mut task = AllocatedTaskResources::default();
    task.cpu.cpu_shares = cpu.parse().expect("a number");
    let resources = AllocatedResources { tasks: Some([("t".into(), task)].into()), ..AllocatedResources::default() };
    Allocation {
        id: AllocId::from_bytes([0xc0 + number as u8; 16]),
        node_id: cluster.state.nodes().find(|known| known.name == *node).map(|node| node.id),
        allocated_resources: Some(Arc::new(resources)),
        ..Allocation::default()
    }
}
