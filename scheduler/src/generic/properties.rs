//! Numbers of allocations per value of a node property, for `distinct_property` and spreads. They are counted once per
//! attempt and updated as the attempt plans, so the cost of a placement does not grow with the number of allocations.

use std::collections::{BTreeMap, BTreeSet};

use songline_model::{AllocId, Allocation, Job, Node, NodeId, Str};
use songline_projections::State;

use crate::feasible::resolve;

/// A property in [`Properties`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PropertyId(usize);

/// A value of a property. `None`: the node lacks the property.
pub(super) type ValueId = Option<u32>;

/// Marks a node whose value is not known yet.
const UNKNOWN: u32 = u32::MAX;
/// Marks a node that lacks the property.
const MISSING: u32 = u32::MAX - 1;

/// The counts of all properties that an attempt needs.
#[derive(Debug, Default)]
pub(super) struct Properties {
    all: Vec<Property>,
    /// Allocations that the plan places or updates in place: group and node of each, for properties counted later.
    planned: Vec<(Str, NodeId, Counted)>,
}

/// One property, counted for one group or for the whole job.
#[derive(Debug)]
pub(super) struct Property {
    target: Str,
    /// Group whose allocations count; empty for the whole job.
    group: Str,
    ids: BTreeMap<Str, u32>,
    counts: Vec<Count>,
    /// Number of used values by their number of uses, so that the least and the greatest number are at hand.
    by_uses: BTreeMap<u64, u64>,
    total_uses: u64,
}

/// A property as one stack uses it. Stacks of several versions of a job share the counts, and each has its own nodes.
#[derive(Debug)]
pub(super) struct Watch {
    property: PropertyId,
    /// Value of each node by its position in the stack, filled in when a node is first asked for.
    of_position: Vec<u32>,
}

/// Allocations with one value.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// Allocations that are not terminal in the view.
    existing: u64,
    /// New allocations of the plan.
    placed: u64,
    /// Existing allocations that the plan updates in place.
    kept: u64,
    /// Existing allocations that the plan stops.
    stopped: u64,
    /// Ended allocations that the plan stops, because they have failed and are rescheduled.
    ended: u64,
}

/// A change of a [`Count`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// The plan places a new allocation.
    Placed,
    /// The plan updates an existing allocation in place.
    Kept,
    /// The plan stops an existing allocation.
    Stopped,
    /// The plan does not stop it after all.
    Resumed,
    /// The plan stops an ended allocation.
    Ended,
    /// The plan does not stop that after all.
    EndedResumed,
}

impl Count {
    /// Number of allocations as Nomad's `distinct_property` counts them, with two differences: one that is updated in place
    /// counts once, and one that has failed and is rescheduled is not subtracted, because more than the limit would run.
    fn allocs(&self) -> u64 {
        self.after(self.placed, self.stopped)
    }

    /// Number of uses as Nomad's spreads count them: an allocation that is updated in place counts twice, and one that has
    /// failed and is rescheduled is subtracted.
    fn uses(&self) -> u64 {
        self.after(self.placed + self.kept, self.stopped + self.ended)
    }

    /// Of several stopped allocations one still counts once the plan uses their value.
    fn after(&self, planned: u64, stopped: u64) -> u64 {
        let stopped = if planned > 0 && stopped > 1 { stopped - 1 } else { stopped };
        (self.existing + planned).saturating_sub(stopped)
    }

    /// Whether any allocation ever had the value.
    fn is_used(&self) -> bool {
        self.existing + self.placed > 0
    }

    fn change(&mut self, by: Counted) {
        match by {
            Counted::Placed => self.placed += 1,
            Counted::Kept => self.kept += 1,
            Counted::Stopped => self.stopped += 1,
            Counted::Resumed => self.stopped = self.stopped.saturating_sub(1),
            Counted::Ended => self.ended += 1,
            Counted::EndedResumed => self.ended = self.ended.saturating_sub(1),
        }
    }
}

impl Properties {
    /// Counts a property unless it is counted already. An empty `group` counts the whole job.
    pub fn count(
        &mut self,
        target: &Str,
        group: &Str,
        (view, job, stopped): (&State, &Job, &BTreeSet<AllocId>),
    ) -> PropertyId {
        if let Some(known) = self.all.iter().position(|known| known.target == *target && known.group == *group) {
            return PropertyId(known);
        }
        let mut property = Property {
            target: target.clone(),
            group: group.clone(),
            ids: BTreeMap::new(),
            counts: Vec::new(),
            by_uses: BTreeMap::new(),
            total_uses: 0,
        };
        for alloc in view.allocs_of_job(&job.namespace, &job.id) {
            let (exists, stops) = (!alloc.terminal(), stopped.contains(&alloc.id));
            let counts = (exists || stops) && property.includes(&alloc.task_group);
            if let Some(node) = alloc.node_id.filter(|_| counts).and_then(|id| view.node(id)) {
                property.update(node, |count| {
                    count.existing += u64::from(exists);
                    count.stopped += u64::from(exists && stops);
                    count.ended += u64::from(!exists && stops);
                });
            }
        }
        for (group, node, by) in &self.planned {
            if let Some(node) = view.node(*node).filter(|_| property.includes(group)) {
                property.update(node, |count| count.change(*by));
            }
        }
        self.all.push(property);
        PropertyId(self.all.len() - 1)
    }

    /// Counts a change of an allocation of a group on a node.
    pub fn change(&mut self, group: &Str, node: &Node, by: Counted) {
        match by {
            Counted::Placed | Counted::Kept => self.planned.push((group.clone(), node.id, by)),
            // The set of stopped allocations tells these.
            Counted::Stopped | Counted::Resumed | Counted::Ended | Counted::EndedResumed => {}
        }
        for property in self.all.iter_mut().filter(|property| property.includes(group)) {
            property.update(node, |count| count.change(by));
        }
    }

    /// Counts a change of an existing allocation.
    pub fn change_existing(&mut self, view: &State, alloc: &Allocation, by: Counted) {
        let by = match by {
            Counted::Stopped if alloc.terminal() => Counted::Ended,
            Counted::Resumed if alloc.terminal() => Counted::EndedResumed,
            _ if alloc.terminal() => return,
            by => by,
        };
        if self.all.is_empty() && by != Counted::Kept {
            return;
        }
        if let Some(node) = alloc.node_id.and_then(|id| view.node(id)) {
            self.change(&alloc.task_group, node, by);
        }
    }
}

impl Watch {
    pub fn new(property: PropertyId) -> Self {
        Self { property, of_position: Vec::new() }
    }

    /// The counts.
    pub fn property<'p>(&self, properties: &'p mut Properties) -> &'p mut Property {
        &mut properties.all[self.property.0]
    }

    /// Value on the node at this position of the stack. Without a position nothing is remembered.
    pub fn value_of(&mut self, properties: &mut Properties, node: &Node, position: Option<usize>) -> ValueId {
        let known = position.and_then(|position| self.of_position.get(position)).copied().unwrap_or(UNKNOWN);
        let found = match known {
            UNKNOWN => self.property(properties).resolve(node),
            known => known,
        };
        if let Some(position) = position.filter(|_| known == UNKNOWN) {
            if self.of_position.len() <= position {
                self.of_position.resize(position + 1, UNKNOWN);
            }
            self.of_position[position] = found;
        }
        (found != MISSING).then_some(found)
    }
}

impl Property {
    /// Number of the value in counts, also when no allocation has it yet.
    pub fn id_of(&mut self, value: &str) -> u32 {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let id = self.counts.len() as u32;
        self.ids.insert(value.into(), id);
        self.counts.push(Count::default());
        id
    }

    /// Number of allocations with this value.
    pub fn allocs(&self, value: u32) -> u64 {
        self.counts.get(value as usize).map_or(0, Count::allocs)
    }

    /// Number of uses of this value, as spreads count them.
    pub fn uses(&self, value: u32) -> u64 {
        self.counts.get(value as usize).map_or(0, Count::uses)
    }

    /// Number of uses of all values together.
    pub fn total_uses(&self) -> u64 {
        self.total_uses
    }

    /// Least and greatest number of uses among the values that an allocation had. `None`: there are none. A value
    /// whose last allocation the plan stops has 0.
    pub fn range(&self) -> Option<(u64, u64)> {
        Some((*self.by_uses.first_key_value()?.0, *self.by_uses.last_key_value()?.0))
    }

    fn includes(&self, group: &str) -> bool {
        self.group.is_empty() || self.group == *group
    }

    fn resolve(&mut self, node: &Node) -> u32 {
        let target = self.target.clone();
        resolve(&target, node).map_or(MISSING, |value| self.id_of(&value))
    }

    fn update(&mut self, node: &Node, change: impl FnOnce(&mut Count)) {
        let id = self.resolve(node);
        let Some(count) = self.counts.get_mut(id as usize) else { return };
        let old = count.is_used().then(|| count.uses());
        change(count);
        let new = count.is_used().then(|| count.uses());
        self.total_uses = (self.total_uses + new.unwrap_or(0)).saturating_sub(old.unwrap_or(0));
        if let Some(old) = old {
            let values = self.by_uses.entry(old).or_insert(1);
            *values -= 1;
            if *values == 0 {
                self.by_uses.remove(&old);
            }
        }
        if let Some(new) = new {
            *self.by_uses.entry(new).or_insert(0) += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use songline_commands::{Actor, Command, Envelope, RegisterNode};
    use songline_model::{Job, Node, NodeId, Time};
    use songline_projections::{State, apply};

    use super::{Counted, Properties, Watch};

    fn view_of(datacenters: &[&str]) -> (State, Vec<Arc<Node>>) {
        let mut state = State::new();
        for (at, datacenter) in (1u8..).zip(datacenters) {
            let node = Node { id: NodeId::from_bytes([at; 16]), datacenter: (*datacenter).into(), ..Node::default() };
            let command = Command::from(RegisterNode { node, create_node_pool: true });
            let index = state.raft_index() + 1;
            apply(&mut state, index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command)).result.unwrap();
        }
        let nodes = state.nodes().cloned().collect();
        (state, nodes)
    }

    #[test]
    fn stacks_that_share_counts_keep_the_order_of_their_own_nodes() {
        let (view, nodes) = view_of(&["dc1", "dc2"]);
        let (job, stopped) = (Job::default(), BTreeSet::new());
        let mut properties = Properties::default();
        let property = properties.count(&"${node.datacenter}".into(), &"g".into(), (&view, &job, &stopped));
        let (mut one, mut other) = (Watch::new(property), Watch::new(property));
        let first = one.value_of(&mut properties, &nodes[0], Some(0));
        let second = other.value_of(&mut properties, &nodes[1], Some(0));
        assert_ne!(first, second);
        assert_eq!(one.value_of(&mut properties, &nodes[0], Some(0)), first);
    }

    #[test]
    fn property_counted_late_sees_the_allocs_of_the_plan() {
        let (view, nodes) = view_of(&["dc1"]);
        let (job, stopped) = (Job::default(), BTreeSet::new());
        let mut properties = Properties::default();
        properties.change(&"g".into(), &nodes[0], Counted::Placed);
        properties.change(&"h".into(), &nodes[0], Counted::Placed);
        let property = properties.count(&"${node.datacenter}".into(), &"g".into(), (&view, &job, &stopped));
        let mut values = Watch::new(property);
        let value = values.value_of(&mut properties, &nodes[0], None).unwrap();
        assert_eq!(values.property(&mut properties).allocs(value), 1);
    }
}
