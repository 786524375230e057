//! Ranking of nodes: scores, and the metrics that explain them to users. Each scorer that applies adds one score; a
//! node's final score is their mean.

pub mod affinity;
pub mod first;
pub mod spread;

use std::sync::Arc;

use songline_model::{
    AllocMetric, Amount, FlatMap, Node, NodeId, NodeScoreMeta, Resources, SchedulerAlgorithm, ScoresByName, Str,
    TaskGroup,
};

/// Best raw fit score; divided by it, fit scores are 0 to 1.
const FIT_SCORE_MAX: f64 = 18.0;
/// Most nodes that a metric lists.
const LISTED_NODES_MAX: usize = 5;

/// Fit score of `used` out of `capacity`, 0 to 1: `binpack` prefers full nodes, `spread` empty ones.
pub fn fit_score(algorithm: SchedulerAlgorithm, capacity: Amount, used: Amount) -> f64 {
    let free = |used: i64, of: i64| if of <= 0 { 0.0 } else { 1.0 - used as f64 / of as f64 };
    let total = 10f64.powf(free(used.cpu, capacity.cpu)) + 10f64.powf(free(used.memory, capacity.memory));
    let score = match algorithm {
        SchedulerAlgorithm::Binpack => 20.0 - total,
        SchedulerAlgorithm::Spread => total - 2.0,
    };
    score.clamp(0.0, FIT_SCORE_MAX) / FIT_SCORE_MAX
}

/// Score, 0 or less, for sharing a node with `collisions` allocations of the same group; 0 without any.
pub fn anti_affinity(collisions: u64, count: i64) -> f64 {
    if collisions == 0 { 0.0 } else { -((collisions + 1) as f64) / count.max(1) as f64 }
}

/// The scores of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scores {
    /// Fit score.
    pub fit: f64,
    /// Device score; `None`: no requested device has affinities.
    pub devices: Option<f64>,
    /// Anti-affinity score; 0 does not count in the mean.
    pub anti_affinity: f64,
    /// Whether the node is penalised (score -1) because an earlier attempt failed on it.
    pub penalty: bool,
    /// Affinity score; 0 does not count in the mean. `None`: the group has no affinities.
    pub affinity: Option<f64>,
    /// Spread score; 0 does not count in the mean.
    pub spread: f64,
    /// Preemption score; `None`: no allocation gives way.
    pub preemption: Option<f64>,
    /// Whether no other scorer applies (system jobs), so that the metric lists only the fit and the devices.
    pub fit_only: bool,
}

impl Scores {
    /// The mean of the scores that apply.
    pub fn total(&self) -> f64 {
        let applies = |score: f64| Some(score).filter(|score| *score != 0.0);
        let others = [
            self.devices,
            applies(self.anti_affinity),
            self.penalty.then_some(-1.0),
            self.affinity.and_then(applies),
            applies(self.spread),
            self.preemption,
        ];
        let (sum, count) = others.into_iter().flatten().fold((self.fit, 1.0), |(sum, n), score| (sum + score, n + 1.0));
        sum / count
    }

    fn by_name(&self) -> ScoresByName {
        let compared = |score: f64| (!self.fit_only).then_some(score);
        // Some scorers are listed with a score of 0, some are then left out: this is what Nomad does.
        let listed = [
            ("binpack", Some(self.fit)),
            ("devices", self.devices),
            ("job-anti-affinity", compared(self.anti_affinity)),
            ("node-reschedule-penalty", compared(if self.penalty { -1.0 } else { 0.0 })),
            ("node-affinity", self.affinity.map_or(compared(0.0), |score| (score != 0.0).then_some(score))),
            ("allocation-spread", (self.spread != 0.0).then_some(self.spread)),
            ("preemption", self.preemption),
        ];
        listed.into_iter().filter_map(|(name, score)| Some((Str::new_static(name), score?))).collect()
    }
}

/// Counts the results of a search for a node, in Nomad's words.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    metric: AllocMetric,
    /// The best nodes so far with their totals, best first.
    scored: Vec<(NodeId, Scores, f64)>,
}

impl Metrics {
    /// Starts counting, with the numbers that are known before any node is examined.
    pub fn new(nodes_in_pool: usize, nodes_available: &Arc<FlatMap<Str, i64>>) -> Self {
        let metric = AllocMetric {
            nodes_in_pool: nodes_in_pool as i64,
            nodes_available: Some(Arc::clone(nodes_available)),
            ..AllocMetric::default()
        };
        Self { metric, scored: Vec::new() }
    }

    /// Counts a node as examined.
    pub fn evaluated(&mut self) {
        self.metric.nodes_evaluated += 1;
    }

    /// Counts a node that may not run the group, with the reason.
    pub fn filtered(&mut self, node: &Node, why: &Str) {
        self.metric.nodes_filtered += 1;
        if !node.node_class.is_empty() {
            add(&mut self.metric.class_filtered, &node.node_class);
        }
        if !why.is_empty() {
            add(&mut self.metric.constraint_filtered, why);
        }
    }

    /// Counts a node that has too little of a dimension.
    pub fn exhausted(&mut self, node: &Node, dimension: &str) {
        self.metric.nodes_exhausted += 1;
        if !node.node_class.is_empty() {
            add(&mut self.metric.class_exhausted, &node.node_class);
        }
        add(&mut self.metric.dimension_exhausted, &Str::from(dimension));
    }

    /// Notes a node that a quota keeps the group from, with the dimensions. Each dimension is listed once.
    pub fn over_quota(&mut self, dimensions: Vec<Str>) {
        let listed = self.metric.quota_exhausted.get_or_insert_default();
        for dimension in dimensions {
            if !listed.contains(&dimension) {
                listed.push(dimension);
            }
        }
    }

    /// Records the scores of a node and their total.
    pub fn scored(&mut self, node: NodeId, scores: Scores, total: f64) {
        if self.scored.len() == LISTED_NODES_MAX && self.scored.last().is_some_and(|(.., last)| *last >= total) {
            return;
        }
        let place = self.scored.partition_point(|(.., other)| *other >= total);
        self.scored.truncate(LISTED_NODES_MAX - 1);
        self.scored.insert(place.min(self.scored.len()), (node, scores, total));
    }

    /// The metric of a placement: the best nodes first.
    pub fn finish(mut self) -> AllocMetric {
        if !self.scored.is_empty() {
            let meta = |(node_id, scores, norm_score): (NodeId, Scores, f64)| NodeScoreMeta {
                node_id,
                scores: Some(scores.by_name()),
                norm_score,
            };
            self.metric.score_meta_data = Some(self.scored.into_iter().map(meta).collect());
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

fn add(counts: &mut Option<Box<FlatMap<Str, i64>>>, key: &Str) {
    *counts.get_or_insert_default().or_default(key) += 1;
}

#[cfg(test)]
mod tests;
