//! Random changes of nodes and of the job: after each evaluation every ready node has its allocation.

use songline_model::{Allocation, Node};
use songline_projections::Table;

use super::cluster::Cluster;
use crate::seed::Seed;

const STEPS: usize = 60;

#[test]
fn every_ready_node_has_one_alloc_of_the_newest_version_whatever_happened() {
    for number in 0..12 {
        let mut seed = Seed::new(number);
        let mut cluster = Cluster::new();
        for name in ["a", "b", "c", "d"] {
            cluster.line(&format!("node {name}"));
        }
        cluster.line("job j system cpu=10 mem=10 env=0");
        for step in 0..STEPS {
            let node = ["a", "b", "c", "d"][seed.below(4) as usize];
            cluster.line(&match seed.below(8) {
                0 => format!("down {node}"),
                1 => format!("ineligible {node}"),
                2 => format!("drain {node}"),
                3 => format!("undrain {node}"),
                4 => format!("job j system cpu=10 mem=10 env={step}"),
                5 => format!("job j system cpu=10 mem=10 kill={step}"),
                6 | 7 => format!("connect {node}"),
                other => unreachable!("{other}"),
            });
            cluster.line("run j");
            let place = format!("seed {number} step {step}");
            check(&cluster, &place);
            let settled = cluster.state.table_index(Table::Allocs);
            cluster.line("run j");
            assert_eq!(
                cluster.state.table_index(Table::Allocs),
                settled,
                "{place}: a second evaluation changes nothing"
            );
        }
    }
}

fn check(cluster: &Cluster, place: &str) {
    let job = cluster.state.job("default", "j").unwrap();
    for node in cluster.state.nodes() {
        let live: Vec<&Allocation> =
            cluster.state.allocs_of_node(node.id).filter(|alloc| !alloc.terminal()).map(|alloc| &**alloc).collect();
        let told = || format!("{place}: node {} {}", node.name, shown(node, &live));
        assert!(live.len() <= 1, "{}", told());
        if node.is_ready() {
            assert_eq!(live.len(), 1, "{}", told());
            let own = live[0].job.as_ref().unwrap();
            assert_eq!(own.job_modify_index, job.job_modify_index, "{}", told());
        }
    }
}

fn shown(node: &Node, live: &[&Allocation]) -> String {
    format!("{} {} has {} live allocs", node.status, node.scheduling_eligibility.as_str(), live.len())
}
