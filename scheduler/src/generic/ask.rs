//! The ask of one group: its demands on a node, prepared once per attempt.

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_model::{
    AllocId, AllocatedResources, Amount, Job, NetworkResource, Node, Str, Task, TaskGroup, VolumeRequest,
};
use songline_projections::State;

use super::properties::{Properties, Watch};
use crate::devices;
use crate::feasible::{Demands, DistinctProperty};
use crate::fit;
use crate::rank::affinity::Affinities;
use crate::rank::spread::{self, DesiredSpread, Spreading};

/// Least number of nodes compared for a group with affinities or spreads.
const WIDE_LIMIT: usize = 100;

/// Demands, preferences and resources of a group.
#[derive(Debug)]
pub(super) struct Ask {
    pub name: Str,
    pub count: i64,
    pub demands: Demands,
    pub distinct: Vec<(DistinctProperty, Watch)>,
    pub amount: Amount,
    pub resources: Arc<AllocatedResources>,
    pub network: Option<NetworkResource>,
    pub volumes: Vec<VolumeRequest>,
    /// Tasks that ask for more than CPU shares and memory.
    pub tasks: Vec<TaskAsk>,
    /// Number of nodes to compare, when it is not the usual number.
    pub limit: Option<usize>,
    /// Whether the last examined node could not be used because the quota has no room, which is so on every node.
    pub is_over_quota: bool,
    affinities: Affinities,
    /// Affinity score of each node by its position in the stack; NaN when it is not known yet.
    affinity_of: Vec<f64>,
    spreads: Vec<SpreadAsk>,
}

/// Resources of one task beside CPU shares and memory.
#[derive(Debug)]
pub(super) struct TaskAsk {
    pub name: Str,
    pub network: Option<NetworkResource>,
    /// Number of reserved cores.
    pub cores: usize,
    pub devices: Vec<devices::Request>,
}

/// One spread with its counts.
#[derive(Debug)]
struct SpreadAsk {
    desired: DesiredSpread,
    values: Watch,
    /// The property's numbers of the values that have a target.
    targets: Vec<u32>,
}

impl Ask {
    /// Prepares `group`. The properties that it needs are counted here.
    pub fn new(
        (view, job, stopped): (&State, &Job, &BTreeSet<AllocId>),
        group: &TaskGroup,
        oversubscribe_memory: bool,
        properties: &mut Properties,
    ) -> Self {
        let demands = Demands::of(job, group);
        let of_job = Str::default();
        let mut watch = |target: &Str, group: &Str| Watch::new(properties.count(target, group, (view, job, stopped)));
        let distinct = demands.distinct.properties.iter().map(|property| {
            let group = if property.whole_job { &of_job } else { &group.name };
            (property.clone(), watch(&property.target, group))
        });
        let distinct = distinct.collect();
        let spreads = || group.spreads.iter().flatten().chain(job.spreads.iter().flatten());
        let weights = spreads().map(|spread| spread.weight).sum();
        let spreads: Vec<SpreadAsk> = spreads()
            .map(|spread| {
                let desired = DesiredSpread::new(spread, group.count, weights);
                let values = watch(&spread.attribute, &group.name);
                SpreadAsk { desired, values, targets: Vec::new() }
            })
            .collect();
        let affinities = Affinities::of(job, group);
        let wide = !spreads.is_empty() || !affinities.is_empty();
        let resources = fit::resources_of_group(group, oversubscribe_memory);
        let mut ask = Self {
            name: group.name.clone(),
            count: group.count,
            demands,
            distinct,
            amount: resources.amount(),
            resources: Arc::new(resources),
            network: group.networks.iter().flatten().next().cloned(),
            volumes: group.volumes.iter().flatten().map(|(_, request)| request.clone()).collect(),
            tasks: group.tasks.iter().flatten().filter_map(TaskAsk::of).collect(),
            limit: wide.then(|| WIDE_LIMIT.max(usize::try_from(group.count).unwrap_or(0))),
            is_over_quota: false,
            affinities,
            affinity_of: Vec::new(),
            spreads,
        };
        for spread in &mut ask.spreads {
            let property = spread.values.property(properties);
            spread.targets = spread.desired.values().map(|value| property.id_of(value)).collect();
        }
        ask
    }

    /// Whether the group or one of its tasks asks for a network.
    pub fn has_ports(&self) -> bool {
        self.network.is_some() || self.tasks.iter().any(|task| task.network.is_some())
    }

    /// The static ports of the group and its tasks.
    pub fn static_ports(&self) -> BTreeSet<i64> {
        let networks = self.network.iter().chain(self.tasks.iter().filter_map(|task| task.network.as_ref()));
        networks.flat_map(|network| network.reserved_ports.iter().flatten()).map(|port| port.value).collect()
    }

    /// Affinity score of a node. `position` is its place in the stack, if it has one. `None`: there are no affinities.
    pub fn affinity(&mut self, node: &Node, position: Option<usize>) -> Option<f64> {
        if self.affinities.is_empty() {
            return None;
        }
        let Some(position) = position else { return Some(self.affinities.score(node)) };
        if self.affinity_of.len() <= position {
            self.affinity_of.resize(position + 1, f64::NAN);
        }
        let known = &mut self.affinity_of[position];
        if known.is_nan() {
            *known = self.affinities.score(node);
        }
        Some(*known)
    }

    /// Spread score of a node, summed over the spreads. `lowest` is the lowest score of a target in this attempt.
    pub fn spread(
        &mut self,
        node: &Node,
        position: Option<usize>,
        properties: &mut Properties,
        lowest: &mut f64,
    ) -> f64 {
        self.spreads.iter_mut().map(|spread| spread.score(node, position, properties, lowest)).sum()
    }
}

impl TaskAsk {
    fn of(task: &Task) -> Option<Self> {
        let asks = task.resources.as_ref()?;
        let ask = Self {
            name: task.name.clone(),
            network: asks.networks.iter().flatten().next().cloned(),
            cores: usize::try_from(asks.cores).unwrap_or(0),
            devices: asks.devices.iter().flatten().map(devices::Request::new).collect(),
        };
        (ask.network.is_some() || ask.cores > 0 || !ask.devices.is_empty()).then_some(ask)
    }
}

impl SpreadAsk {
    fn score(&mut self, node: &Node, position: Option<usize>, properties: &mut Properties, lowest: &mut f64) -> f64 {
        let Some(value) = self.values.value_of(properties, node, position) else { return spread::missing() };
        let property = self.values.property(properties);
        let target = self.desired.target(self.targets.iter().position(|target| *target == value));
        let targeted: u64 = self.targets.iter().map(|target| property.uses(*target)).sum();
        let counts = Spreading {
            here: property.uses(value),
            range: property.range(),
            untargeted: property.total_uses().saturating_sub(targeted),
        };
        self.desired.score(target, counts, lowest)
    }
}
