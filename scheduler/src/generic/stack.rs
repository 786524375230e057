//! Finds a node for one allocation. The nodes are shuffled, filtered by feasibility and by free room; of the first few
//! that remain, the one with the best score is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    ALL_NODE_POOL, AllocId, AllocMetric, AllocatedResources, Allocation, Job, JobType, NetworkResource, Node, NodeId,
    NodePoolSchedulerConfiguration, SchedulerAlgorithm, Str, TaskGroup,
};
use songline_projections::State;

use super::usage::Usage;
use crate::feasible::{ClassStatus, Demands, DistinctProperty, Eligibility, resolve, volumes};
use crate::fit::{self, Amount};
use crate::network;
use crate::rank::{self, Metrics, Scores};
use crate::seed::Seed;

/// Number of nodes compared for batch jobs, and the least number for others: the better of two is good enough.
const BATCH_LIMIT: usize = 2;
/// Most nodes with a score of 0 or less that are put aside in the hope of better ones.
const SKIPPED_MAX: usize = 3;
const CLASS_INELIGIBLE: Str = Str::new_static("computed class ineligible");

/// A node for an allocation.
pub(super) struct Selected {
    pub node: Arc<Node>,
    pub resources: Arc<AllocatedResources>,
    pub metric: AllocMetric,
}

/// Finds nodes for the groups of one job during one attempt.
pub(super) struct Stack<'a> {
    view: &'a State,
    job: &'a Arc<Job>,
    nodes: Vec<Arc<Node>>,
    next: usize,
    limit: usize,
    nodes_in_pool: usize,
    nodes_available: BTreeMap<Str, i64>,
    algorithm: SchedulerAlgorithm,
    oversubscribe_memory: bool,
    groups: BTreeMap<Str, Arc<Ask>>,
    usage: BTreeMap<NodeId, Usage>,
    stopped: BTreeSet<AllocId>,
    properties: BTreeMap<(Str, Str), BTreeMap<String, u64>>,
    seed: Seed,
    /// Class eligibility found by this attempt.
    pub eligibility: Eligibility,
}

/// Demands and resources of a group, computed once per attempt.
struct Ask {
    name: Str,
    count: i64,
    demands: Demands,
    amount: Amount,
    resources: Arc<AllocatedResources>,
    network: Option<NetworkResource>,
}

struct Candidate {
    node: Arc<Node>,
    resources: Arc<AllocatedResources>,
    scores: Scores,
}

impl<'a> Stack<'a> {
    pub fn new(view: &'a State, job: &'a Arc<Job>, mut seed: Seed) -> Self {
        let datacenters = job.datacenters.as_deref().unwrap_or_default();
        let pool = if job.node_pool.is_empty() { ALL_NODE_POOL } else { job.node_pool.as_str() };
        let mut nodes = Vec::new();
        let mut nodes_available: BTreeMap<Str, i64> = BTreeMap::new();
        let mut nodes_in_pool = 0;
        for node in view.nodes_in_pool(pool).filter(|node| node.is_ready()) {
            nodes_in_pool += 1;
            if node.is_in_datacenters(datacenters) {
                *nodes_available.entry(node.datacenter.clone()).or_insert(0) += 1;
                nodes.push(node.clone());
            }
        }
        seed.shuffle(&mut nodes);
        let limit = match job.kind {
            JobType::Batch | JobType::SysBatch => BATCH_LIMIT,
            JobType::Service | JobType::System | JobType::Other(_) => BATCH_LIMIT.max(log2_ceil(nodes.len())),
        };
        let (algorithm, oversubscribe_memory) = settings(view, &job.node_pool);
        Self {
            view,
            job,
            nodes,
            next: 0,
            limit,
            nodes_in_pool,
            nodes_available,
            algorithm,
            oversubscribe_memory,
            groups: BTreeMap::new(),
            usage: BTreeMap::new(),
            stopped: BTreeSet::new(),
            properties: BTreeMap::new(),
            seed,
            eligibility: Eligibility::default(),
        }
    }

    /// Marks the whole group as not placeable for these reasons and returns its metric. Nodes that lack a volume of the
    /// group are filtered for that instead. Node classes that only these reasons exclude become ineligible, so that the
    /// blocked evaluation does not wait for them.
    pub fn refuse(&mut self, group: &TaskGroup, alloc_name: &str, reasons: &[Str]) -> AllocMetric {
        let mut metrics = Metrics::new(self.nodes_in_pool, &self.nodes_available);
        let mut refused = 0;
        for node in &self.nodes {
            match volumes::check(self.view, self.job, group, alloc_name, node) {
                Ok(()) => {
                    refused += 1;
                    self.eligibility.record_group(&group.name, &node.computed_class, false);
                }
                Err(why) => {
                    metrics.evaluated();
                    metrics.filtered(node, &why);
                }
            }
        }
        if refused > 0 || self.nodes.is_empty() {
            metrics.filtered_all(refused, reasons);
        }
        metrics.finish()
    }

    /// Finds a node for one more allocation of `group`; `Err` is the metric with the reasons.
    pub fn select(&mut self, group: &TaskGroup, penalties: &[NodeId]) -> Result<Selected, Box<AllocMetric>> {
        let ask = self.ask(group);
        let mut metrics = Metrics::new(self.nodes_in_pool, &self.nodes_available);
        let mut unseen = self.nodes.len();
        let mut skipped: std::collections::VecDeque<Candidate> = std::collections::VecDeque::new();
        let mut skips = 0;
        let mut best: Option<(f64, Candidate)> = None;
        for _ in 0..self.limit {
            let mut candidate = self.draw(&ask, penalties, &mut unseen, &mut metrics);
            while skips < SKIPPED_MAX && candidate.as_ref().is_some_and(|candidate| candidate.scores.total() <= 0.0) {
                skips += 1;
                skipped.extend(candidate);
                candidate = self.draw(&ask, penalties, &mut unseen, &mut metrics);
            }
            let Some(candidate) = candidate.or_else(|| skipped.pop_front()) else { break };
            let score = candidate.scores.total();
            // The first of equals wins.
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, candidate));
            }
        }
        match best {
            Some((_, Candidate { node, resources, .. })) => Ok(Selected { node, resources, metric: metrics.finish() }),
            None => Err(Box::new(metrics.finish())),
        }
    }

    /// Counts a new allocation of `group` on the node that was selected for it.
    pub fn place(&mut self, group: &TaskGroup, node: &Arc<Node>, resources: &AllocatedResources) {
        let ask = self.ask(group);
        self.usage_of(node).place(&ask.name, ask.amount, resources);
        for property in &ask.demands.distinct.properties {
            self.count_property(property, &ask.name, node, 1);
        }
    }

    /// Frees the resources of an allocation that the plan stops.
    pub fn stop(&mut self, alloc: &Allocation) {
        if self.stopped.insert(alloc.id) {
            self.on_node_of(alloc, |usage, job| usage.remove(alloc, job));
            self.count_stopped(alloc, -1);
        }
    }

    /// Takes the resources again of an allocation that the plan does not stop after all.
    pub fn resume(&mut self, alloc: &Allocation) {
        if self.stopped.remove(&alloc.id) {
            self.on_node_of(alloc, |usage, job| usage.add(alloc, job));
            self.count_stopped(alloc, 1);
        }
    }

    /// The resources of `group`, if an allocation of the group could stay on its node with them.
    pub fn fits_in_place(&mut self, alloc: &Allocation, group: &TaskGroup) -> Option<Arc<AllocatedResources>> {
        let node = self.view.node(alloc.node_id?)?.clone();
        let pool = self.job.node_pool.as_str();
        let in_pool = pool.is_empty() || pool == ALL_NODE_POOL || node.node_pool == *pool;
        if !in_pool || !node.is_in_datacenters(self.job.datacenters.as_deref().unwrap_or_default()) {
            return None;
        }
        let ask = self.ask(group);
        ask.demands.check_job(&node).ok()?;
        ask.demands.check_drivers(&node).ok()?;
        ask.demands.check_group(&node).ok()?;
        self.stop(alloc);
        let distinct = self.check_distinct(&ask, &node).is_ok();
        let usage = self.usage_of(&node);
        let fits = usage.used.plus(ask.amount).exceeds(usage.capacity).is_none();
        self.resume(alloc);
        (distinct && fits).then(|| ask.resources.clone())
    }

    /// The next node that may run the group and has room, in shuffled order. `None`: all nodes were seen.
    fn draw(
        &mut self,
        ask: &Ask,
        penalties: &[NodeId],
        unseen: &mut usize,
        metrics: &mut Metrics,
    ) -> Option<Candidate> {
        while *unseen > 0 {
            *unseen -= 1;
            let node = self.nodes[self.next].clone();
            self.next = (self.next + 1) % self.nodes.len();
            metrics.evaluated();
            if let Err(why) = self.check(ask, &node) {
                metrics.filtered(&node, &why);
                continue;
            }
            let resources = match self.fit(ask, &node) {
                Ok(resources) => resources,
                Err(dimension) => {
                    metrics.exhausted(&node, &dimension);
                    continue;
                }
            };
            let usage = self.usage_of(&node);
            let collisions = usage.of_group(&ask.name);
            let (capacity, used) = (usage.capacity, usage.used.plus(ask.amount));
            let scores = Scores {
                fit: rank::fit_score(self.algorithm, capacity, used),
                anti_affinity: rank::anti_affinity(collisions, ask.count),
                penalty: penalties.contains(&node.id),
            };
            metrics.scored(node.id, scores.clone());
            return Some(Candidate { node, resources, scores });
        }
        None
    }

    fn check(&mut self, ask: &Ask, node: &Arc<Node>) -> Result<(), Str> {
        let class = &node.computed_class;
        match self.eligibility.job_status(class) {
            ClassStatus::Ineligible => return Err(CLASS_INELIGIBLE),
            ClassStatus::Eligible => {}
            status @ (ClassStatus::Unknown | ClassStatus::Escaped) => {
                let checked = ask.demands.check_job(node);
                if status == ClassStatus::Unknown {
                    self.eligibility.record_job(class, checked.is_ok());
                }
                checked?;
            }
        }
        // Driver health is not part of a node's class, so drivers are checked on each node.
        ask.demands.check_drivers(node)?;
        match self.eligibility.group_status(&ask.name, class) {
            ClassStatus::Ineligible => return Err(CLASS_INELIGIBLE),
            ClassStatus::Eligible => {}
            status @ (ClassStatus::Unknown | ClassStatus::Escaped) => {
                let checked = ask.demands.check_group(node);
                if status == ClassStatus::Unknown {
                    self.eligibility.record_group(&ask.name, class, checked.is_ok());
                }
                checked?;
            }
        }
        self.check_distinct(ask, node)
    }

    fn check_distinct(&mut self, ask: &Ask, node: &Arc<Node>) -> Result<(), Str> {
        let distinct = &ask.demands.distinct;
        if distinct.hosts_of_job && self.usage_of(node).of_job > 0 {
            return Err("distinct_hosts".into());
        }
        if distinct.hosts_of_group && self.usage_of(node).of_group(&ask.name) > 0 {
            return Err("distinct_hosts".into());
        }
        for property in &distinct.properties {
            let limit = match &property.limit {
                Ok(limit) => (*limit).max(1),
                Err(text) => {
                    return Err(format!(
                        "failed to convert RTarget {text:?} to uint64: strconv.ParseUint: parsing {text:?}: invalid syntax"
                    )
                    .into());
                }
            };
            let Some(value) = resolve(&property.target, node) else {
                return Err(format!("missing property {:?}", property.target).into());
            };
            let used = self.property_counts(property, &ask.name).get(value.as_ref()).copied().unwrap_or(0);
            if used >= limit {
                return Err(format!("distinct_property: {}={value} used by {used} allocs", property.target).into());
            }
        }
        Ok(())
    }

    /// Resources for one more allocation on the node; `Err` is the exhausted dimension.
    fn fit(&mut self, ask: &Ask, node: &Arc<Node>) -> Result<Arc<AllocatedResources>, String> {
        let resources = match &ask.network {
            None => ask.resources.clone(),
            Some(network) => {
                let mut seed = self.seed.branch(self.next as u64);
                self.seed.number();
                self.usage_of(node);
                let (view, stopped) = (self.view, &self.stopped);
                let usage = self.usage.get_mut(&node.id).expect("it was counted just now");
                let ports = usage.ports(view, node, stopped)?;
                let offer = ports.assign(node, network, &mut seed).map_err(|why| format!("network: {why}"))?;
                let mut resources = (*ask.resources).clone();
                resources.shared.networks = Some(vec![network::granted(network, &offer, node)]);
                resources.shared.ports = Some(offer);
                Arc::new(resources)
            }
        };
        let usage = self.usage_of(node);
        match usage.used.plus(ask.amount).exceeds(usage.capacity) {
            Some(dimension) => Err(dimension.to_owned()),
            None => Ok(resources),
        }
    }

    fn ask(&mut self, group: &TaskGroup) -> Arc<Ask> {
        if let Some(ask) = self.groups.get(&group.name) {
            return ask.clone();
        }
        let demands = Demands::of(self.job, group);
        self.eligibility.set_job(demands.job_escapes);
        self.eligibility.set_group(&group.name, demands.group_escapes);
        let resources = fit::resources_of_group(group, self.oversubscribe_memory);
        let ask = Arc::new(Ask {
            name: group.name.clone(),
            count: group.count,
            demands,
            amount: fit::asked(&resources),
            resources: Arc::new(resources),
            network: group.networks.iter().flatten().next().cloned(),
        });
        self.groups.insert(group.name.clone(), ask.clone());
        ask
    }

    fn usage_of(&mut self, node: &Arc<Node>) -> &mut Usage {
        self.usage.entry(node.id).or_insert_with(|| Usage::count(self.view, node, self.job, &self.stopped))
    }

    fn on_node_of(&mut self, alloc: &Allocation, change: impl FnOnce(&mut Usage, &Job)) {
        // A node without cached usage is counted when it is first drawn; stopped allocations are left out then.
        let usage = alloc.node_id.and_then(|id| self.usage.get_mut(&id));
        if let Some(usage) = usage.filter(|_| !alloc.client_terminal()) {
            change(usage, self.job);
        }
    }

    /// Number of live allocations per value of a property.
    fn property_counts(&mut self, property: &DistinctProperty, group: &Str) -> &mut BTreeMap<String, u64> {
        let (view, job, stopped) = (self.view, self.job, &self.stopped);
        self.properties.entry(property_key(property, group)).or_insert_with(|| {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for alloc in view.allocs_of_job(&job.namespace, &job.id) {
                let counts_here = !alloc.terminal()
                    && !stopped.contains(&alloc.id)
                    && (property.whole_job || alloc.task_group == *group);
                let node = alloc.node_id.filter(|_| counts_here).and_then(|id| view.node(id));
                if let Some(value) = node.and_then(|node| resolve(&property.target, node)) {
                    *counts.entry(value.into_owned()).or_insert(0) += 1;
                }
            }
            counts
        })
    }

    fn count_property(&mut self, property: &DistinctProperty, group: &Str, node: &Node, by: i64) {
        if let Some(value) = resolve(&property.target, node) {
            let count = self.property_counts(property, group).entry(value.into_owned()).or_insert(0);
            *count = count.saturating_add_signed(by);
        }
    }

    fn count_stopped(&mut self, alloc: &Allocation, by: i64) {
        if self.properties.is_empty() || alloc.terminal() {
            return;
        }
        let Some(node) = alloc.node_id.and_then(|id| self.view.node(id)) else { return };
        for ((target, group), counts) in &mut self.properties {
            if !group.is_empty() && *group != alloc.task_group {
                continue;
            }
            if let Some(value) = resolve(target, node) {
                let count = counts.entry(value.into_owned()).or_insert(0);
                *count = count.saturating_add_signed(by);
            }
        }
    }
}

/// Key of a property's counts. Properties of the whole job have an empty group.
fn property_key(property: &DistinctProperty, group: &Str) -> (Str, Str) {
    (property.target.clone(), if property.whole_job { Str::default() } else { group.clone() })
}

/// The cluster's scheduler settings, overridden by those of the node pool.
fn settings(view: &State, pool: &str) -> (SchedulerAlgorithm, bool) {
    let (mut algorithm, mut oversubscribe) =
        view.scheduler_config().map_or((SchedulerAlgorithm::default(), false), |config| {
            (config.scheduler_algorithm, config.memory_oversubscription_enabled)
        });
    let of_pool: Option<&NodePoolSchedulerConfiguration> =
        view.node_pool(pool).and_then(|pool| pool.scheduler_configuration.as_ref());
    if let Some(of_pool) = of_pool {
        algorithm = SchedulerAlgorithm::from_word(&of_pool.scheduler_algorithm).unwrap_or(algorithm);
        oversubscribe = of_pool.memory_oversubscription_enabled.unwrap_or(oversubscribe);
    }
    (algorithm, oversubscribe)
}

fn log2_ceil(n: usize) -> usize {
    if n <= 1 { 0 } else { (usize::BITS - (n - 1).leading_zeros()) as usize }
}
