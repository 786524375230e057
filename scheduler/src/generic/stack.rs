//! Finds a node for one allocation. The nodes are shuffled, filtered by feasibility and by free room; of the first few
//! that remain, the one with the best score is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    ALL_NODE_POOL, AllocId, AllocMetric, AllocatedResources, Allocation, Amount, Job, Node, NodeId,
    NodePoolSchedulerConfiguration, SchedulerAlgorithm, Str, TaskGroup,
};
use songline_projections::State;

use super::ask::Ask;
use super::grant::{Grant, Lack};
use super::nodes::Nodes;
use super::properties::{Counted, Properties};
use super::quota::Quota;
use super::room::{Room, Search};
use super::usage::{OwnCounts, Usage};
use crate::feasible::{ClassStatus, Eligibility, resolve, volumes};
use crate::preempt::{self, Preempted};
use crate::rank::first::FirstNodes;
use crate::rank::{self, Metrics, Scores};
use crate::seed::Seed;

/// Most nodes with a score of 0 or less that are put aside in the hope of better ones.
const SKIPPED_MAX: usize = 3;
/// Spread score for a value that should get no allocation, until a lower one was given.
const LOWEST_SPREAD: f64 = -1.0;
const CLASS_INELIGIBLE: Str = Str::new_static("computed class ineligible");

/// A node for an allocation.
pub(crate) struct Selected {
    pub node: Arc<Node>,
    pub resources: Arc<AllocatedResources>,
    /// Allocations of lower priority that give way to it.
    pub victims: Vec<Arc<Allocation>>,
    pub metric: AllocMetric,
}

/// Options of one placement, beside its group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options<'a> {
    /// Name of the allocation, whose number selects the volume of a `per_alloc` request.
    pub name: &'a str,
    /// Nodes on which earlier attempts of the allocation failed.
    pub penalties: &'a [NodeId],
    /// Node of the previous allocation whose disk the new one takes over. It is taken whenever it has room.
    pub preferred: Option<NodeId>,
    /// Whether allocations of lower priority may give way.
    pub preempt: bool,
}

/// Finds nodes for the groups of one job during one attempt.
pub(crate) struct Stack<'a> {
    view: &'a State,
    job: &'a Arc<Job>,
    /// `None` until a node is searched: many attempts place nothing.
    nodes: Option<Nodes<'a>>,
    /// Whether the job runs on every node, so that nodes are not compared and the fit is the only score.
    per_node: bool,
    algorithm: SchedulerAlgorithm,
    oversubscribe_memory: bool,
    asks: BTreeMap<Str, Ask>,
    /// Counts of the job's own allocations, made when a node is first looked at.
    own: Option<OwnCounts>,
    usage: BTreeMap<NodeId, Usage>,
    stopped: BTreeSet<AllocId>,
    preempted: Preempted,
    properties: Properties,
    lowest_spread: f64,
    /// The quota of the job's namespace, if it limits something here.
    quota: Option<Quota<'a>>,
    seed: Seed,
    /// Whether jobs of this type may preempt others.
    pub preempts: bool,
    /// Class eligibility found by this attempt.
    pub eligibility: Eligibility,
}

struct Candidate<'a> {
    node: &'a Arc<Node>,
    room: Room,
    score: f64,
}

impl<'a> Stack<'a> {
    pub fn new(view: &'a State, job: &'a Arc<Job>, seed: Seed) -> Self {
        let (algorithm, oversubscribe_memory) = settings(view, &job.node_pool);
        Self {
            view,
            job,
            nodes: None,
            per_node: job.kind.is_per_node(),
            algorithm,
            oversubscribe_memory,
            asks: BTreeMap::new(),
            own: None,
            usage: BTreeMap::new(),
            stopped: BTreeSet::new(),
            preempted: Preempted::default(),
            properties: Properties::default(),
            lowest_spread: LOWEST_SPREAD,
            quota: Quota::of(view, &job.namespace),
            seed,
            preempts: preempt::is_enabled(view, &job.kind),
            eligibility: Eligibility::of(job),
        }
    }

    /// Exchanges what the plan has changed so far (rooms, stopped and preempted allocations, counts of properties, use
    /// of the quota) with the stack of another version of the job.
    pub fn exchange_plan(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.usage, &mut other.usage);
        std::mem::swap(&mut self.stopped, &mut other.stopped);
        std::mem::swap(&mut self.preempted, &mut other.preempted);
        std::mem::swap(&mut self.properties, &mut other.properties);
        std::mem::swap(&mut self.quota, &mut other.quota);
    }

    /// Finds a node for one more allocation of `group`; `Err` is the metric with the reasons.
    pub fn select(&mut self, group: &TaskGroup, options: &Options<'_>) -> Result<Selected, Box<AllocMetric>> {
        let preferred = options.preferred.and_then(|id| self.view.node(id));
        if let Some(node) = preferred.filter(|node| node.is_ready() && self.is_eligible(node))
            && let Ok(selected) = self.select_on(group, node, options)
        {
            return Ok(selected);
        }
        let mut ask = self.take_ask(group);
        let mut metrics = self.nodes().metrics();
        let best = self.best_of(&mut ask, options, &mut metrics);
        let selected = selected(&ask, best, metrics);
        self.asks.insert(group.name.clone(), ask);
        selected
    }

    /// Finds room on this one node for an allocation of `group`. For a job that runs on every node it is the only
    /// selection: a full node that should give room has to be asked for it in `examine`.
    pub fn select_on(
        &mut self,
        group: &TaskGroup,
        node: &Arc<Node>,
        options: &Options<'_>,
    ) -> Result<Selected, Box<AllocMetric>> {
        let mut ask = self.take_ask(group);
        let mut metrics = self.nodes().metrics();
        let only = self.examine(&mut ask, options, node, None, &mut metrics);
        let selected = selected(&ask, only, metrics);
        self.asks.insert(group.name.clone(), ask);
        selected
    }

    /// The best of the first nodes that remain.
    fn best_of(&mut self, ask: &mut Ask, options: &Options<'_>, metrics: &mut Metrics) -> Option<Candidate<'a>> {
        let kind = &self.job.kind;
        let nodes = self.nodes();
        let mut unseen = nodes.len();
        let limit = ask.limit.unwrap_or_else(|| nodes.limit(kind));
        let mut first = FirstNodes::new(SKIPPED_MAX);
        let mut best: Option<Candidate<'a>> = None;
        for _ in 0..limit {
            let draw = || self.draw(ask, options, &mut unseen, metrics);
            let Some(candidate) = first.next(|candidate| candidate.score, draw) else { break };
            // The first of equals wins.
            if best.as_ref().is_none_or(|best| candidate.score > best.score) {
                best = Some(candidate);
            }
        }
        best
    }

    /// The ready nodes of the job's pool and datacenters.
    pub fn ready_nodes(&mut self) -> impl Iterator<Item = &'a Arc<Node>> + '_ {
        self.nodes().iter()
    }

    fn nodes(&mut self) -> &mut Nodes<'a> {
        let (view, job, seed) = (self.view, self.job, &self.seed);
        self.nodes.get_or_insert_with(|| Nodes::ready(view, job, seed))
    }

    /// Classes of nodes, each with whether it could run a group; `None`: constraints escape the node class.
    pub fn class_eligibility(&self) -> Option<BTreeMap<Str, bool>> {
        if self.eligibility.has_escaped() { None } else { Some(self.eligibility.classes()) }
    }

    /// Counts a new allocation of `group` on the node that was selected for it, in place of those that give way.
    pub fn place(&mut self, group: &TaskGroup, selected: &Selected) {
        for victim in &selected.victims {
            self.preempted.add(victim);
            if self.stopped.insert(victim.id) {
                self.on_node_of(victim, |usage, job| usage.remove(victim, job));
                self.count_in_quota(|quota, view| quota.stop(view, victim));
            }
        }
        self.count_in_quota(|quota, _| quota.place(&selected.resources));
        self.usage_of(&selected.node).place(&group.name, &selected.resources);
        self.properties.change(&group.name, &selected.node, Counted::Placed);
    }

    /// Frees the resources of an allocation that the plan stops.
    pub fn stop(&mut self, alloc: &Allocation) {
        if self.stopped.insert(alloc.id) {
            self.on_node_of(alloc, |usage, job| usage.remove(alloc, job));
            self.count_in_quota(|quota, view| quota.stop(view, alloc));
            self.properties.change_existing(self.view, alloc, Counted::Stopped);
        }
    }

    /// Takes the resources again of an allocation that the plan does not stop after all.
    pub fn resume(&mut self, alloc: &Allocation) {
        if self.stopped.remove(&alloc.id) {
            self.on_node_of(alloc, |usage, job| usage.add(alloc, job));
            self.count_in_quota(|quota, _| quota.resume(alloc));
            self.properties.change_existing(self.view, alloc, Counted::Resumed);
        }
    }

    /// Counts an allocation that the plan updates in place.
    pub fn keep(&mut self, alloc: &Allocation) {
        self.properties.change_existing(self.view, alloc, Counted::Kept);
    }

    /// The resources of `group`, if an allocation of the group could stay on its node with them.
    pub fn fits_in_place(&mut self, alloc: &Allocation, group: &TaskGroup) -> Option<Arc<AllocatedResources>> {
        let node = self.view.node(alloc.node_id?)?.clone();
        if !self.is_eligible(&node) {
            return None;
        }
        let mut ask = self.take_ask(group);
        let fits = self.fits_again(&mut ask, alloc, &node);
        let resources = ask.resources.clone();
        self.asks.insert(group.name.clone(), ask);
        fits.then_some(resources)
    }

    fn fits_again(&mut self, ask: &mut Ask, alloc: &Allocation, node: &Arc<Node>) -> bool {
        let demands = &ask.demands;
        let has_volumes = volumes::check(self.view, self.job, &ask.volumes, &alloc.name, node).is_ok();
        if !has_volumes || demands.check_node(node).is_err() {
            return false;
        }
        self.stop(alloc);
        let distinct = self.check_distinct(ask, node, None).is_ok();
        // The allocation keeps its cores, which the group's own amount leaves out.
        let amount = if ask.tasks.iter().any(|task| task.cores > 0) { alloc.amount() } else { ask.amount };
        let usage = self.usage_of(node);
        let fits = usage.used.plus(amount).exceeds(usage.capacity).is_none();
        let over_quota = self.over_quota(&ask.resources);
        self.resume(alloc);
        distinct && fits && over_quota.is_empty()
    }

    /// Whether the node is in the job's pool and datacenters.
    fn is_eligible(&self, node: &Node) -> bool {
        let pool = self.job.node_pool.as_str();
        let in_pool = pool.is_empty() || pool == ALL_NODE_POOL || node.node_pool == *pool;
        in_pool && self.job.includes_datacenter(&node.datacenter)
    }

    /// The next node that may run the group and has room, in shuffled order. `None`: all nodes were seen.
    fn draw(
        &mut self,
        ask: &mut Ask,
        options: &Options<'_>,
        unseen: &mut usize,
        metrics: &mut Metrics,
    ) -> Option<Candidate<'a>> {
        while *unseen > 0 {
            *unseen -= 1;
            let Some((position, node)) = self.nodes().draw() else { continue };
            let candidate = self.examine(ask, options, node, Some(position), metrics);
            if candidate.is_some() {
                return candidate;
            }
            // The quota refuses the group on every node, so the others are not looked at.
            if ask.is_over_quota {
                *unseen = 0;
            }
        }
        None
    }

    /// Takes one node through all steps: feasibility, free room, scores. `None`: it dropped out.
    fn examine<'n>(
        &mut self,
        ask: &mut Ask,
        options: &Options<'_>,
        node: &'n Arc<Node>,
        position: Option<usize>,
        metrics: &mut Metrics,
    ) -> Option<Candidate<'n>> {
        metrics.evaluated();
        ask.is_over_quota = false;
        if let Err(why) = self.check(ask, options, node, position) {
            metrics.filtered(node, &why);
            return None;
        }
        let over_quota = self.over_quota(&ask.resources);
        ask.is_over_quota = !over_quota.is_empty();
        if ask.is_over_quota {
            metrics.over_quota(over_quota);
            return None;
        }
        let room = match self.find_room(ask, node, options.preempt) {
            // Which devices an allocation gets, and what its cores are worth, depends on the node.
            Ok(room) if self.quota.is_some() && !ask.tasks.is_empty() => {
                let over_quota = self.over_quota(&room.grant.clone().resources(ask, node));
                if !over_quota.is_empty() {
                    // Another node may have what the quota allows, so the evaluation waits for capacity, too.
                    metrics.exhausted(node, "quota");
                    metrics.over_quota(over_quota);
                    return None;
                }
                room
            }
            Ok(room) => room,
            // Nomad does not count a node whose ports are held by allocations that need not give way.
            Err(Lack::Ports(_)) if options.preempt => return None,
            Err(lack) => {
                metrics.exhausted(node, &lack.to_string());
                return None;
            }
        };
        let (algorithm, per_node) = (self.algorithm, self.per_node);
        let usage = self.usage_of(node);
        let fit = rank::fit_score(algorithm, usage.capacity, usage.used.minus(room.gone).plus(room.grant.amount));
        let collisions = usage.of_group(&ask.name);
        let scores = if per_node {
            Scores { fit, devices: room.grant.device_score, fit_only: true, ..Scores::default() }
        } else {
            Scores {
                fit,
                devices: room.grant.device_score,
                anti_affinity: rank::anti_affinity(collisions, ask.count),
                penalty: options.penalties.contains(&node.id),
                affinity: ask.affinity(node, position),
                spread: ask.spread(node, position, &mut self.properties, &mut self.lowest_spread),
                preemption: room.score,
                fit_only: false,
            }
        };
        let score = scores.total();
        metrics.scored(node.id, scores, score);
        Some(Candidate { node, room, score })
    }

    /// Finds free resources on the node, or those of allocations that give way.
    fn find_room(&mut self, ask: &Ask, node: &Node, preempt: bool) -> Result<Room, Lack> {
        let (view, job, stopped) = (self.view, self.job, &self.stopped);
        let own = self.own.get_or_insert_with(|| OwnCounts::of(view, job));
        let usage = self.usage.entry(node.id).or_insert_with(|| Usage::of(view, node, own));
        let lack = match Grant::find(ask, node, usage, (view, stopped), &mut self.seed) {
            Ok(grant) => return Ok(Room { grant, victims: Vec::new(), gone: Amount::default(), score: None }),
            Err(lack) => lack,
        };
        let staying = if preempt { preempt::candidates(view, node, job, stopped, &self.preempted) } else { Vec::new() };
        if staying.is_empty() {
            return Err(lack);
        }
        let (usage, stopped) = (usage.clone(), stopped.clone());
        let search = Search { ask, node, job, view, usage, stopped, staying, leaving: Vec::new() };
        search.find(&mut self.seed)
    }

    /// Checks whether the node may run the group; `Err` is the filter text.
    fn check(
        &mut self,
        ask: &mut Ask,
        options: &Options<'_>,
        node: &Arc<Node>,
        position: Option<usize>,
    ) -> Result<(), Str> {
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
        self.check_group(ask, node)?;
        // Volumes come and go without a change of class.
        volumes::check(self.view, self.job, &ask.volumes, options.name, node)?;
        // Last, because nodes of the reference's agents never fail here: the texts before are theirs.
        if let Err(why) = ask.demands.check_abilities(node) {
            self.eligibility.record_group(&ask.name, class, false);
            return Err(why);
        }
        self.check_distinct(ask, node, position)
    }

    /// Checks the group's demands, as far as the node's class does not tell the result; `Err` is the filter text.
    fn check_group(&mut self, ask: &Ask, node: &Node) -> Result<(), Str> {
        let (class, demands) = (&node.computed_class, &ask.demands);
        match self.eligibility.group_status(&ask.name, class) {
            ClassStatus::Ineligible => Err(CLASS_INELIGIBLE),
            ClassStatus::Eligible => demands.check_group_in_class(node),
            ClassStatus::Unknown => {
                let checked = demands.check_group(node);
                // A sick driver or too few devices say nothing about other nodes of the class.
                let eligible = checked.is_ok() || demands.may_meet_in_class(node);
                self.eligibility.record_group(&ask.name, class, eligible);
                checked
            }
            ClassStatus::Escaped => demands.check_group(node),
        }
    }

    fn check_distinct(&mut self, ask: &mut Ask, node: &Arc<Node>, position: Option<usize>) -> Result<(), Str> {
        let distinct = &ask.demands.distinct;
        if distinct.hosts_of_job && self.usage_of(node).of_job > 0 {
            return Err("distinct_hosts".into());
        }
        if distinct.hosts_of_group && self.usage_of(node).of_group(&ask.name) > 0 {
            return Err("distinct_hosts".into());
        }
        for (property, values) in &mut ask.distinct {
            let limit = match &property.limit {
                Ok(limit) => (*limit).max(1),
                Err(text) => {
                    return Err(format!(
                        "failed to convert RTarget {text:?} to uint64: strconv.ParseUint: parsing {text:?}: invalid syntax"
                    )
                    .into());
                }
            };
            let Some(value) = values.value_of(&mut self.properties, node, position) else {
                return Err(format!("missing property {:?}", property.target).into());
            };
            let used = values.property(&mut self.properties).allocs(value);
            if used >= limit {
                let value = resolve(&property.target, node).unwrap_or_default();
                return Err(format!("distinct_property: {}={value} used by {used} allocs", property.target).into());
            }
        }
        Ok(())
    }

    /// The group's ask. The caller puts it back.
    fn take_ask(&mut self, group: &TaskGroup) -> Ask {
        if let Some(ask) = self.asks.remove(&group.name) {
            return ask;
        }
        let known = (self.view, &**self.job, &self.stopped);
        let mut ask = Ask::new(known, group, self.oversubscribe_memory, &mut self.properties);
        if self.per_node {
            // One allocation per node and name is what such a job asks for.
            ask.demands.distinct.hosts_of_job = false;
            ask.demands.distinct.hosts_of_group = false;
        }
        ask
    }

    /// The quota's dimensions that one more allocation with these resources would exceed.
    fn over_quota(&self, resources: &AllocatedResources) -> Vec<Str> {
        self.quota.as_ref().map(|quota| quota.exceeded(resources)).unwrap_or_default()
    }

    fn count_in_quota(&mut self, change: impl FnOnce(&mut Quota<'_>, &State)) {
        if let Some(quota) = &mut self.quota {
            change(quota, self.view);
        }
    }

    /// Name of the quota of the job's namespace; empty without one.
    pub fn quota_name(&self) -> Str {
        self.quota.as_ref().map(|quota| quota.name().clone()).unwrap_or_default()
    }

    fn usage_of(&mut self, node: &Node) -> &mut Usage {
        let (view, job) = (self.view, self.job);
        let own = self.own.get_or_insert_with(|| OwnCounts::of(view, job));
        self.usage.entry(node.id).or_insert_with(|| Usage::of(view, node, own))
    }

    /// Changes the usage of the allocation's node, unless the node is gone or has ended the allocation itself.
    fn on_node_of(&mut self, alloc: &Allocation, change: impl FnOnce(&mut Usage, &Job)) {
        let job = self.job;
        if let Some(node) = alloc.node_id.and_then(|id| self.view.node(id)).filter(|_| !alloc.client_terminal()) {
            change(self.usage_of(node), job);
        }
    }
}

fn selected(ask: &Ask, candidate: Option<Candidate<'_>>, metrics: Metrics) -> Result<Selected, Box<AllocMetric>> {
    match candidate {
        Some(Candidate { node, room, .. }) => {
            let resources = room.grant.resources(ask, node);
            Ok(Selected { node: node.clone(), resources, victims: room.victims, metric: metrics.finish() })
        }
        None => Err(Box::new(metrics.finish())),
    }
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
