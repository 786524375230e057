//! Lines about drains, for stories on a [`Cluster`]. The golden cases (`tests/golden`) use them, too.

use std::collections::BTreeMap;

use songline_commands::{ClientAlloc, UpdateAllocsFromClient, UpdateNodeDrain};
use songline_model::{AllocClientStatus, AllocDeploymentStatus, Allocation, DrainStrategy, Dur, EvalId, NodeId, Time};

use super::Cluster;
use crate::leader::{drains, effects, outbox};

const START: Time = Time::from_secs(1_000_000);

/// Result of a line.
pub(crate) enum Line {
    /// It is not about drains.
    Other,
    /// Nothing to tell.
    Done,
    /// These proposals.
    Told(Vec<String>),
}

/// Runs `empty NODE SECS` (drain with a deadline; with `ignore` it leaves system jobs alone), `drains SECS` (proposals
/// at that time), `moved SECS` (commits these proposals) or `report NODE COUNT` (so many of its allocs without a health
/// are healthy now).
pub(crate) fn line(cluster: &mut Cluster, words: &[&str]) -> Line {
    let at = |word: &str| START.plus(Dur::from_secs(word.parse().unwrap()));
    match *words {
        ["empty", node, secs, ref how @ ..] => empty(cluster, node, at(secs), how.contains(&"ignore")),
        ["drains", secs] => {
            return Line::Told(proposals(cluster, at(secs)).iter().map(|effect| told(cluster, effect)).collect());
        }
        ["moved", secs] => commit(cluster, at(secs)),
        ["report", node, count] => report(cluster, node, count.parse().unwrap()),
        _ => return Line::Other,
    }
    Line::Done
}

fn empty(cluster: &mut Cluster, node: &str, deadline: Time, ignore_system_jobs: bool) {
    let node_id = node_of(cluster, node);
    let drain_strategy = Some(DrainStrategy {
        deadline: Dur::from_secs(1),
        force_deadline: Some(deadline),
        ignore_system_jobs,
        ..DrainStrategy::default()
    });
    cluster.commit(UpdateNodeDrain { node_id, drain_strategy, ..UpdateNodeDrain::default() });
}

fn proposals(cluster: &Cluster, at: Time) -> Vec<drains::Effect> {
    let mut machine = drains::Drains::new();
    machine.restore(&cluster.state, START);
    machine.on_time(&cluster.state, at)
}

fn commit(cluster: &mut Cluster, at: Time) {
    for step in proposals(cluster, at) {
        let mut ids = (1..=u8::MAX).map(|n| EvalId::from_bytes([n; 16]));
        let effect = effects::drain(&cluster.state, step, START, || ids.next().unwrap());
        let outbox::Deed::Write { command, .. } = effect.deed else { panic!("{effect:?}") };
        cluster.commit(*command);
    }
}

fn report(cluster: &mut Cluster, node: &str, count: usize) {
    let node_id = node_of(cluster, node);
    let status = AllocDeploymentStatus { healthy: Some(true), timestamp: Some(START), ..Default::default() };
    let said = |alloc: &Allocation| ClientAlloc {
        id: alloc.id,
        node_id,
        client_status: AllocClientStatus::Running,
        deployment_status: Some(status.clone()),
        modify_time: START,
        ..ClientAlloc::default()
    };
    let open = cluster.state.allocs_of_node(node_id).filter(|alloc| !alloc.terminal() && alloc.health().is_none());
    let allocs: Vec<ClientAlloc> = open.take(count).map(|alloc| said(alloc)).collect();
    assert_eq!(allocs.len(), count, "allocs of {node} without a health");
    cluster.commit(UpdateAllocsFromClient { allocs, evals: Vec::new() });
}

fn node_of(cluster: &Cluster, name: &str) -> NodeId {
    cluster.state.nodes().find(|node| node.name == *name).unwrap().id
}

fn told(cluster: &Cluster, effect: &drains::Effect) -> String {
    match effect {
        drains::Effect::Migrate { allocs, .. } => {
            let names: Vec<_> = allocs.keys().map(|id| cluster.state.alloc(*id).unwrap().name.to_string()).collect();
            let counts = names.iter().fold(BTreeMap::new(), |mut counts: BTreeMap<String, usize>, name| {
                *counts.entry(name.split('.').next().unwrap().to_owned()).or_default() += 1;
                counts
            });
            format!("migrate {counts:?}")
        }
        drains::Effect::Complete { event, .. } => {
            let forced = event.details.as_ref().is_some_and(|details| details.contains_key("deadline_reached"));
            format!("{}{}", event.message, if forced { " by its deadline" } else { "" })
        }
    }
}
