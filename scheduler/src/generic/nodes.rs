//! The nodes of one attempt: those that the job may use by pool, datacenter and readiness, in the order in which they
//! are examined.

mod order;

use std::sync::Arc;

use songline_model::{ALL_NODE_POOL, FlatMap, Job, JobType, Node, Str};
use songline_projections::{ReadyNodes, State};

use self::order::Order;
use crate::rank::Metrics;
use crate::seed::Seed;

/// Number of nodes compared for batch jobs, and the least number for others: the better of two is good enough.
const BATCH_LIMIT: usize = 2;
/// Branch of the seed for the order of nodes.
const SHUFFLE: u64 = 1;

/// Nodes in the order of examination.
pub(super) struct Nodes<'a> {
    view: &'a State,
    parts: Vec<Part<'a>>,
    order: Order,
    /// Position of the node that is examined next.
    next: usize,
    /// Number of nodes by datacenter.
    available: Arc<FlatMap<Str, i64>>,
}

/// The nodes of one pool and datacenter.
struct Part<'a> {
    nodes: ReadyNodes<'a>,
    /// Number of nodes in the parts before.
    before: usize,
}

impl<'a> Nodes<'a> {
    /// The ready nodes of the job's pool and datacenters, shuffled. No node is copied, because most attempts examine few
    /// of very many.
    pub fn ready(view: &'a State, job: &'a Job, seed: &Seed) -> Self {
        let pool = if job.node_pool.is_empty() { ALL_NODE_POOL } else { job.node_pool.as_str() };
        let (mut parts, mut len, mut available) = (Vec::new(), 0, FlatMap::new());
        for nodes in view.ready_nodes(pool).filter(|nodes| job.includes_datacenter(nodes.datacenter)) {
            parts.push(Part { nodes, before: len });
            len += nodes.len();
            *available.or_default(nodes.datacenter) += nodes.len() as i64;
        }
        Self { view, parts, order: Order::new(len, seed.branch(SHUFFLE)), next: 0, available: Arc::new(available) }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.parts.last().map_or(0, |last| last.before + last.nodes.len())
    }

    /// All nodes.
    pub fn iter(&self) -> impl Iterator<Item = &'a Arc<Node>> + '_ {
        self.parts.iter().flat_map(|part| part.nodes.iter()).filter_map(|id| self.view.node(id))
    }

    /// The next node with its position. After the last node comes the first again. `None`: there are no nodes.
    pub fn draw(&mut self) -> Option<(usize, &'a Arc<Node>)> {
        let position = self.next;
        self.next = (position + 1) % self.len().max(1);
        let place = self.order.number(position)?;
        let part = self.parts.get(self.parts.partition_point(|part| part.before <= place).checked_sub(1)?)?;
        Some((position, self.view.node(part.nodes.get(place - part.before)?)?))
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
