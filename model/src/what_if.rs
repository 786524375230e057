//! What-if questions: hypothetical changes of a cluster, and what its schedulers would do about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{AllocId, AllocMetric, Job, JobId, JobKey, NamespaceName, NodeId, SchedulerConfiguration, Str};

/// One hypothetical change.
#[derive(Debug, Clone, PartialEq)]
pub enum Supposition {
    /// This job, which has passed admission, is registered.
    Register(Arc<Job>),
    /// The job is stopped.
    Deregister(JobKey),
    /// The node is drained at once, system jobs included.
    Drain(NodeId),
    /// The node is down.
    Lose(NodeId),
    /// Nodes like this one join, empty and ready.
    Add {
        /// The node to copy.
        like: NodeId,
        /// Number of nodes.
        count: u32,
    },
    /// The scheduler configuration is this.
    Configure(SchedulerConfiguration),
}

/// The difference between a state and the same state after hypothetical changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WhatIf {
    /// Index of the state that the changes were made to.
    pub index: u64,
    /// Jobs whose allocations would change, by namespace and id.
    pub jobs: Vec<JobOutcome>,
    /// Nodes whose allocations would change, by name.
    pub nodes: Vec<NodeOutcome>,
}

/// Outcome of one job: its allocations after the hypothetical changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobOutcome {
    pub namespace: NamespaceName,
    #[serde(rename = "ID")]
    pub id: JobId,
    /// New allocations that replace none.
    pub placed: Vec<AllocOutcome>,
    /// Allocations that are replaced, each with the nodes of the first and of the last one.
    pub moved: Vec<AllocOutcome>,
    /// Allocations that end and are not replaced.
    pub stopped: Vec<AllocOutcome>,
    /// Allocations that give way to those of a job of higher priority, and are not replaced.
    pub preempted: Vec<AllocOutcome>,
    /// Groups that find no room for some of their allocations.
    pub blocked: BTreeMap<Str, BlockedGroup>,
}

/// One allocation of an outcome.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocOutcome {
    pub name: Str,
    pub task_group: Str,
    /// The allocation that exists now; none for one that would be placed.
    #[serde(rename = "AllocID", skip_serializing_if = "Option::is_none")]
    pub alloc_id: Option<AllocId>,
    /// Name of the node that it leaves.
    pub from: Str,
    /// Name of the node that it comes to.
    pub to: Str,
    /// The reason, as the allocation would have it in its description.
    pub reason: Str,
    /// Whether a job of higher priority takes its place.
    pub preempted: bool,
}

/// A group without room, with the dimensions that ran out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct BlockedGroup {
    /// Number of allocations without a node.
    pub queued: i64,
    pub metric: AllocMetric,
}

/// How many allocations would come to and leave one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeOutcome {
    pub name: Str,
    /// Number of allocations that would come.
    pub comes: u64,
    /// Number of allocations that would leave.
    pub leaves: u64,
}

impl WhatIf {
    /// Leaves out the jobs of namespaces that the caller may not read, and counts the nodes' allocations: only those
    /// that the caller sees.
    #[must_use]
    pub fn shown(mut self, may_read: impl Fn(&str) -> bool) -> Self {
        self.jobs.retain(|job| may_read(&job.namespace));
        let mut nodes: BTreeMap<Str, (u64, u64)> = BTreeMap::new();
        let lists = |job: &JobOutcome| [&job.placed, &job.moved, &job.stopped, &job.preempted].map(Clone::clone);
        for alloc in self.jobs.iter().flat_map(lists).flatten().filter(|alloc| alloc.from != alloc.to) {
            if !alloc.to.is_empty() {
                nodes.entry(alloc.to.clone()).or_default().0 += 1;
            }
            if !alloc.from.is_empty() {
                nodes.entry(alloc.from).or_default().1 += 1;
            }
        }
        self.nodes = nodes.into_iter().map(|(name, (comes, leaves))| NodeOutcome { name, comes, leaves }).collect();
        self
    }
}
