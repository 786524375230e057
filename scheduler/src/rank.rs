//! How well a node suits: scores, and the metrics that tell people why. Each scorer that applies adds one score; a node's final score
//! is their mean.

use std::collections::BTreeMap;

use songline_model::{AllocMetric, Node, NodeId, NodeScoreMeta, Resources, SchedulerAlgorithm, ScoresByName, Str, TaskGroup};

use crate::fit::Amount;

/// The best score that filling a node can get, before it is brought to 0..1.
const FIT_SCORE_MAX: f64 = 18.0;
/// How many nodes a metric lists.
const LISTED_NODES_MAX: usize = 5;

/// How well `used` of `capacity` suits, 0 to 1: full nodes with `binpack`, empty ones with `spread`.
pub fn fit_score(algorithm: SchedulerAlgorithm, capacity: Amount, used: Amount) -> f64 {
    let free = |used: i64, of: i64| if of <= 0 { 0.0 } else { 1.0 - used as f64 / of as f64 };
    let total = 10f64.powf(free(used.cpu, capacity.cpu)) + 10f64.powf(free(used.memory, capacity.memory));
    let score = match algorithm {
        SchedulerAlgorithm::Binpack => 20.0 - total,
        SchedulerAlgorithm::Spread => total - 2.0,
    };
    score.clamp(0.0, FIT_SCORE_MAX) / FIT_SCORE_MAX
}

/// What it costs to share a node with `collisions` allocations of the same group; 0 when there are none.
pub fn anti_affinity(collisions: u64, count: i64) -> f64 {
    if collisions == 0 { 0.0 } else { -((collisions + 1) as f64) / count.max(1) as f64 }
}

/// The scores of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores {
    /// Filling it.
    pub fit: f64,
    /// Not being with others of the group; 0 does not count.
    pub anti_affinity: f64,
    /// Whether an earlier attempt failed here.
    pub penalty: bool,
}

impl Scores {
    /// The mean of the scores that apply.
    pub fn total(&self) -> f64 {
        let mut sum = self.fit;
        let mut count = 1.0;
        if self.anti_affinity != 0.0 {
            sum += self.anti_affinity;
            count += 1.0;
        }
        if self.penalty {
            sum -= 1.0;
            count += 1.0;
        }
        sum / count
    }

    fn by_name(&self) -> ScoresByName {
        ScoresByName::from_iter([
            (Str::new_static("binpack"), self.fit),
            (Str::new_static("job-anti-affinity"), self.anti_affinity),
            (Str::new_static("node-affinity"), 0.0),
            (Str::new_static("node-reschedule-penalty"), if self.penalty { -1.0 } else { 0.0 }),
        ])
    }
}

/// Counts what happens while a node is sought, in the words of the wire.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    metric: AllocMetric,
    scored: Vec<(NodeId, Scores)>,
}

impl Metrics {
    /// Starts counting, with what is known before any node was looked at.
    pub fn new(nodes_in_pool: usize, nodes_available: &BTreeMap<Str, i64>) -> Self {
        let metric =
            AllocMetric { nodes_in_pool: nodes_in_pool as i64, nodes_available: Some(nodes_available.clone()), ..AllocMetric::default() };
        Self { metric, scored: Vec::new() }
    }

    /// A node was looked at.
    pub fn evaluated(&mut self) {
        self.metric.nodes_evaluated += 1;
    }

    /// A node may not run the group.
    pub fn filtered(&mut self, node: &Node, why: &Str) {
        self.metric.nodes_filtered += 1;
        if !node.node_class.is_empty() {
            add(&mut self.metric.class_filtered, &node.node_class);
        }
        if !why.is_empty() {
            add(&mut self.metric.constraint_filtered, why);
        }
    }

    /// All these nodes may not run the group, for each of these reasons.
    pub fn filtered_all(&mut self, nodes: usize, reasons: &[Str]) {
        self.metric.nodes_evaluated += nodes as i64;
        self.metric.nodes_filtered += nodes as i64;
        for why in reasons {
            // The reason is told even when there is no node at all.
            self.metric.constraint_filtered.get_or_insert_default().insert(why.clone(), nodes.max(1) as i64);
        }
    }

    /// A node has too little of something.
    pub fn exhausted(&mut self, node: &Node, dimension: &str) {
        self.metric.nodes_exhausted += 1;
        if !node.node_class.is_empty() {
            add(&mut self.metric.class_exhausted, &node.node_class);
        }
        add(&mut self.metric.dimension_exhausted, &Str::from(dimension));
    }

    /// A node got scores.
    pub fn scored(&mut self, node: NodeId, scores: Scores) {
        self.scored.push((node, scores));
    }

    /// The metric of a placement: the best nodes first.
    pub fn finish(mut self) -> AllocMetric {
        self.scored.sort_by(|(_, one), (_, other)| other.total().total_cmp(&one.total()));
        self.scored.truncate(LISTED_NODES_MAX);
        if !self.scored.is_empty() {
            let meta = |(node_id, scores): &(NodeId, Scores)| NodeScoreMeta {
                node_id: *node_id,
                scores: Some(scores.by_name()),
                norm_score: scores.total(),
            };
            self.metric.score_meta_data = Some(self.scored.iter().map(meta).collect());
        }
        self.metric
    }
}

/// Adds to a failed placement's metric what the tasks of its group asked of the dimensions that ran out.
pub fn exhaust_resources(metric: &mut AllocMetric, group: &TaskGroup) {
    let Some(dimensions) = &metric.dimension_exhausted else { return };
    let (cpu, memory) = (dimensions.contains_key("cpu"), dimensions.contains_key("memory"));
    let exhausted = metric.resources_exhausted.get_or_insert_default();
    for task in group.tasks.iter().flatten() {
        let sum: &mut Resources = exhausted.entry(task.name.clone()).or_default();
        let Some(asks) = &task.resources else { continue };
        if cpu {
            sum.cpu += asks.cpu;
        }
        if memory {
            sum.memory_mb += asks.memory_mb;
        }
    }
}

fn add(counts: &mut Option<BTreeMap<Str, i64>>, key: &Str) {
    *counts.get_or_insert_default().entry(key.clone()).or_insert(0) += 1;
}

#[cfg(test)]
mod tests;
