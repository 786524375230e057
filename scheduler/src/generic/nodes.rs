//! The nodes of one attempt: those that the job may use by pool, datacenter and readiness, in the order in which they
//! are examined.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{ALL_NODE_POOL, Job, JobType, Node, Str};
use songline_projections::State;

use crate::rank::Metrics;
use crate::seed::Seed;

/// Number of nodes compared for batch jobs, and the least number for others: the better of two is good enough.
const BATCH_LIMIT: usize = 2;

/// Nodes in the order of examination.
pub(super) struct Nodes<'a> {
    nodes: Vec<&'a Arc<Node>>,
    /// Position of the node that is examined next.
    next: usize,
    /// Number of nodes by datacenter.
    available: BTreeMap<Str, i64>,
}

impl<'a> Nodes<'a> {
    /// The ready nodes of the job's pool and datacenters: shuffled, but in order of id if the job runs on every node.
    pub fn ready(view: &'a State, job: &Job, seed: &mut Seed) -> Self {
        let datacenters = job.datacenters.as_deref().unwrap_or_default();
        let pool = if job.node_pool.is_empty() { ALL_NODE_POOL } else { job.node_pool.as_str() };
        let mut nodes = Vec::new();
        // There are few datacenters and many nodes, so each datacenter is matched once.
        let mut known: Vec<(&Str, bool, i64)> = Vec::new();
        for node in view.nodes_in_pool(pool).filter(|node| node.is_ready()) {
            let at = known.iter().position(|(name, ..)| **name == node.datacenter).unwrap_or_else(|| {
                known.push((&node.datacenter, node.is_in_datacenters(datacenters), 0));
                known.len() - 1
            });
            let (_, wanted, count) = &mut known[at];
            if *wanted {
                *count += 1;
                nodes.push(node);
            }
        }
        if !job.kind.is_per_node() {
            seed.shuffle(&mut nodes);
        }
        let available = known.into_iter().filter(|(_, wanted, _)| *wanted);
        Self { nodes, next: 0, available: available.map(|(name, _, count)| (name.clone(), count)).collect() }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes.
    pub fn iter(&self) -> impl Iterator<Item = &'a Arc<Node>> + '_ {
        self.nodes.iter().copied()
    }

    /// The next node with its position. After the last node comes the first again. Panics without nodes.
    pub fn draw(&mut self) -> (usize, &'a Arc<Node>) {
        let position = self.next;
        self.next = (position + 1) % self.nodes.len();
        (position, self.nodes[position])
    }

    /// Number of nodes with room that are compared for one placement.
    pub fn limit(&self, kind: &JobType) -> usize {
        match kind {
            JobType::Batch | JobType::SysBatch => BATCH_LIMIT,
            JobType::Service | JobType::System | JobType::Other(_) => BATCH_LIMIT.max(log2_ceil(self.len())),
        }
    }

    /// Starts the counts of one search. Nomad counts the pool after its nodes were filtered by datacenter.
    pub fn metrics(&self) -> Metrics {
        Metrics::new(self.len(), &self.available)
    }
}

fn log2_ceil(n: usize) -> usize {
    if n <= 1 { 0 } else { (usize::BITS - (n - 1).leading_zeros()) as usize }
}
