//! Random clusters in which jobs of many priorities compete: what gives way has a much lower priority, and nothing
//! gives way in vain.

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_model::{AllocId, Allocation};

use crate::fit::allocs_fit;
use crate::generic::tests::cluster::Cluster;
use crate::seed::Seed;

const CLUSTERS: u64 = 60;
const JOBS: u64 = 12;

#[test]
fn nothing_gives_way_to_a_near_priority_or_in_vain() {
    let mut preemptions = 0;
    for seed in 0..CLUSTERS {
        let mut dice = Seed::new(seed);
        let mut cluster = Cluster::new();
        cluster.line("settings service_preempts batch_preempts");
        for node in 0..=dice.below(2) {
            cluster.line(&format!("node n{node} cpu=2500 mem=2048 devices=nvidia/gpu/a:a1,a2;nvidia/gpu/b:b1"));
        }
        for job in 0..JOBS {
            cluster.line(&random_job(&mut dice, job));
            let before: BTreeSet<AllocId> = cluster.state.allocs().map(|alloc| alloc.id).collect();
            cluster.line(&format!("run j{job}"));
            preemptions += check_new(&cluster, &before, seed);
            end_preempted(&mut cluster);
        }
    }
    assert!(preemptions > 100, "only {preemptions} preemptions");
}

fn random_job(dice: &mut Seed, job: u64) -> String {
    let kind = if dice.below(3) == 0 { " batch" } else { "" };
    let extra = match dice.below(6) {
        0 => format!(" port={}", 8080 + dice.below(2)),
        1 => format!(" device=gpu,{}", 1 + dice.below(2)),
        2 => " dynamic task_port=8081".to_owned(),
        _ => String::new(),
    };
    let (priority, count) = (5 + 5 * dice.below(19), 1 + dice.below(3));
    let (cpu, mem) = (100 + 100 * dice.below(12), 50 + 50 * dice.below(12));
    format!("job j{job}{kind} priority={priority} count={count} cpu={cpu} mem={mem} max_migrate=1{extra}")
}

/// Checks the allocations placed since `before`, in the order in which they were placed. Returns the number of those
/// that gave way.
fn check_new(cluster: &Cluster, before: &BTreeSet<AllocId>, seed: u64) -> usize {
    let mut gone: BTreeSet<AllocId> = BTreeSet::new();
    let mut there = before.clone();
    let mut new: Vec<&Arc<Allocation>> = cluster.state.allocs().filter(|alloc| !before.contains(&alloc.id)).collect();
    new.sort_by(|one, other| one.name.cmp(&other.name));
    for alloc in new {
        there.insert(alloc.id);
        let victims = alloc.preempted_allocations.clone().unwrap_or_default();
        gone.extend(&victims);
        assert!(fits_on_node(cluster, alloc, &there, &gone), "seed {seed}: {} does not fit", alloc.name);
        for id in victims {
            let victim = cluster.state.alloc(id).unwrap();
            let priority = |alloc: &Allocation| alloc.job.as_ref().unwrap().priority;
            let (name, by) = (&victim.name, &alloc.name);
            assert_eq!(victim.node_id, alloc.node_id, "seed {seed}: {name} for {by}");
            assert_eq!(victim.preempted_by_allocation, Some(alloc.id), "seed {seed}: {name} for {by}");
            assert!(priority(alloc) - priority(victim) >= 10, "seed {seed}: {name} for {by}");
            gone.remove(&id);
            assert!(!fits_on_node(cluster, alloc, &there, &gone), "seed {seed}: {name} in vain for {by}");
            gone.insert(id);
        }
    }
    gone.len()
}

/// Whether those of `there` that are not gone fit on the allocation's node.
fn fits_on_node(cluster: &Cluster, alloc: &Allocation, there: &BTreeSet<AllocId>, gone: &BTreeSet<AllocId>) -> bool {
    let node = cluster.state.node(alloc.node_id.unwrap()).unwrap();
    let stays = |alloc: &&Arc<Allocation>| there.contains(&alloc.id) && !gone.contains(&alloc.id);
    let allocs: Vec<&Allocation> = cluster.state.allocs_of_node(node.id).filter(stays).map(|alloc| &**alloc).collect();
    allocs_fit(node, allocs).is_ok()
}

/// Has the nodes report that what gave way has ended.
fn end_preempted(cluster: &mut Cluster) {
    let ending = cluster.state.allocs().filter(|alloc| alloc.server_terminal() && !alloc.client_terminal());
    let ending: Vec<String> =
        ending.map(|alloc| format!("client {}@{} complete", alloc.name, alloc.node_name)).collect();
    for line in ending.iter().collect::<BTreeSet<_>>() {
        cluster.line(line);
    }
}
