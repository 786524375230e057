//! CSI plugins: rows derived from others. Nodes report the instances that run on them, jobs give the number that is
//! expected.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    AllocId, CsiInfo, CsiPluginId, Job, JobId, JobKey, JobSummary, JobType, NamespaceName, NodeId, Str, Task, TaskGroup,
};

/// A CSI plugin, without the allocations, which its instances name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSIPlugin", rename_all = "PascalCase")]
pub struct CsiPlugin {
    #[serde(rename = "ID")]
    pub id: CsiPluginId,
    pub provider: Str,
    pub version: Str,
    /// Whether volumes need a healthy controller. False until the first instance has reported it.
    pub controller_required: bool,
    /// Instances that act for the whole cluster, by the node they run on.
    pub controllers: BTreeMap<NodeId, CsiInfo>,
    /// Instances that mount volumes, by the node they run on.
    pub nodes: BTreeMap<NodeId, CsiInfo>,
    /// Jobs that run controllers.
    pub controller_jobs: JobDescriptions,
    /// Jobs that run node instances.
    pub node_jobs: JobDescriptions,
    pub controllers_healthy: i64,
    pub controllers_expected: i64,
    pub nodes_healthy: i64,
    pub nodes_expected: i64,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Jobs by namespace and id.
pub type JobDescriptions = BTreeMap<NamespaceName, BTreeMap<JobId, JobDescription>>;

/// A job that runs instances of the plugin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDescription {
    pub namespace: NamespaceName,
    #[serde(rename = "ID")]
    pub id: JobId,
    /// Number of instances that the job is to run.
    pub expected: i64,
}

/// Role of a plugin instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsiPluginPart {
    /// Acts for the whole cluster.
    Controller,
    /// Mounts volumes on its node.
    Node,
}

/// Health of a plugin, as its volumes show it. All zero for an unknown plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CsiHealth {
    /// Whether volumes need a healthy controller.
    pub controller_required: bool,
    /// Healthy controllers.
    pub controllers_healthy: i64,
    /// Controllers that jobs should run.
    pub controllers_expected: i64,
    /// Healthy node instances.
    pub nodes_healthy: i64,
    /// Node instances that jobs should run.
    pub nodes_expected: i64,
}

impl CsiHealth {
    /// Whether volumes of the plugin can be used.
    pub fn schedulable(&self) -> bool {
        self.nodes_healthy > 0 && (!self.controller_required || self.controllers_healthy > 0)
    }
}

impl CsiPlugin {
    /// A plugin of which only the id is known.
    pub fn new(id: CsiPluginId, index: u64) -> Self {
        Self { id, create_index: index, ..Self::default() }
    }

    /// The plugin's health.
    pub fn health(&self) -> CsiHealth {
        CsiHealth {
            controller_required: self.controller_required,
            controllers_healthy: self.controllers_healthy,
            controllers_expected: self.controllers_expected,
            nodes_healthy: self.nodes_healthy,
            nodes_expected: self.nodes_expected,
        }
    }

    /// Whether the plugin has no instances and none are expected.
    pub fn is_empty(&self) -> bool {
        self.controllers.is_empty()
            && self.nodes.is_empty()
            && self.controllers_expected == 0
            && self.nodes_expected == 0
    }

    /// Whether a healthy controller has this capability.
    pub fn has_controller_capability(&self, can: impl Fn(&crate::CsiControllerInfo) -> bool) -> bool {
        self.controllers.values().any(|info| info.healthy && info.controller_info.as_ref().is_some_and(&can))
    }

    /// The allocations of the plugin's instances, without duplicates, in order of id.
    pub fn allocs(&self) -> Vec<AllocId> {
        let mut ids: Vec<AllocId> = self
            .controllers
            .values()
            .chain(self.nodes.values())
            .filter_map(|info| info.alloc_id.parse().ok())
            .collect();
        ids.sort();
        ids.dedup();
        ids.retain(|id| !id.is_nil());
        ids
    }

    /// Records a node's report of an instance. The first report of an instance adds it only if it is healthy.
    pub fn set_instance(&mut self, part: CsiPluginPart, node: NodeId, info: &CsiInfo) {
        self.provider = info.provider.clone();
        self.version = info.provider_version.clone();
        let known = match part {
            CsiPluginPart::Controller => {
                if info.controller_info.is_none() {
                    return;
                }
                self.controller_required = info.requires_controller_plugin;
                &mut self.controllers
            }
            CsiPluginPart::Node => {
                if info.node_info.is_none() {
                    return;
                }
                &mut self.nodes
            }
        };
        if info.healthy || known.contains_key(&node) {
            known.insert(node, info.clone());
        }
        self.count_healthy();
    }

    /// Removes an instance. Returns whether there was one.
    pub fn drop_instance(&mut self, part: CsiPluginPart, node: NodeId) -> bool {
        let known = match part {
            CsiPluginPart::Controller => &mut self.controllers,
            CsiPluginPart::Node => &mut self.nodes,
        };
        let dropped = known.remove(&node).is_some();
        self.count_healthy();
        dropped
    }

    /// Removes the instances that an allocation ran. Returns whether there were any.
    pub fn drop_alloc(&mut self, alloc: AllocId) -> bool {
        let before = self.controllers.len() + self.nodes.len();
        let id = alloc.to_string();
        self.controllers.retain(|_, info| info.alloc_id != id);
        self.nodes.retain(|_, info| info.alloc_id != id);
        self.count_healthy();
        self.controllers.len() + self.nodes.len() != before
    }

    /// Records the number of instances that a job is to run: the counts of its groups, or the numbers of the summary
    /// for a system job, which has one allocation on each eligible node.
    pub fn set_job(&mut self, job: &Job, summary: Option<&JobSummary>) {
        let key = job.key();
        self.forget_job(&key);
        for group in job.groups() {
            let expected = expected_of(job, group, summary);
            for kind in group.tasks.iter().flatten().filter_map(|task| kind_of(task, &self.id)) {
                if matches!(kind, "controller" | "monolith") {
                    add(&mut self.controller_jobs, &key, expected);
                }
                if matches!(kind, "node" | "monolith") {
                    add(&mut self.node_jobs, &key, expected);
                }
            }
        }
        self.count_expected();
    }

    /// Removes a job and its expected instances.
    pub fn drop_job(&mut self, key: &JobKey) {
        self.forget_job(key);
        self.count_expected();
    }

    fn forget_job(&mut self, key: &JobKey) {
        for jobs in [&mut self.controller_jobs, &mut self.node_jobs] {
            if let Some(of_namespace) = jobs.get_mut(&key.namespace) {
                of_namespace.remove(&key.id);
                if of_namespace.is_empty() {
                    jobs.remove(&key.namespace);
                }
            }
        }
    }

    fn count_healthy(&mut self) {
        let healthy = |known: &BTreeMap<NodeId, CsiInfo>| count(known.values().filter(|info| info.healthy).count());
        self.controllers_healthy = healthy(&self.controllers);
        self.nodes_healthy = healthy(&self.nodes);
    }

    fn count_expected(&mut self) {
        let expected = |jobs: &JobDescriptions| jobs.values().flat_map(BTreeMap::values).map(|job| job.expected).sum();
        self.controllers_expected = expected(&self.controller_jobs);
        self.nodes_expected = expected(&self.node_jobs);
    }
}

impl Job {
    /// The CSI plugins that the job's tasks are instances of, without duplicates, in task order.
    pub fn csi_plugins(&self) -> Vec<CsiPluginId> {
        let mut ids: Vec<CsiPluginId> = Vec::new();
        for group in self.groups() {
            ids.extend(group.csi_plugins().filter(|id| !ids.contains(id)).collect::<Vec<_>>());
        }
        ids
    }
}

impl TaskGroup {
    /// The CSI plugins that the group's tasks are instances of, in task order.
    pub fn csi_plugins(&self) -> impl Iterator<Item = CsiPluginId> {
        self.tasks.iter().flatten().filter_map(|task| Some(CsiPluginId::from(&task.csi_plugin_config.as_ref()?.id)))
    }
}

/// Kind of instance of this plugin that the task runs.
fn kind_of<'a>(task: &'a Task, plugin: &CsiPluginId) -> Option<&'a str> {
    let config = task.csi_plugin_config.as_ref()?;
    (*plugin == *config.id).then_some(config.kind.as_str())
}

fn expected_of(job: &Job, group: &TaskGroup, summary: Option<&JobSummary>) -> i64 {
    if job.kind != JobType::System {
        return group.count;
    }
    let counts = summary.and_then(|row| row.summary.as_ref()).and_then(|groups| groups.get(&group.name));
    counts.map_or(0, |counts| counts.running + counts.queued + counts.starting)
}

fn add(jobs: &mut JobDescriptions, key: &JobKey, expected: i64) {
    let new = || JobDescription { namespace: key.namespace.clone(), id: key.id.clone(), expected: 0 };
    jobs.entry(key.namespace.clone()).or_default().entry(key.id.clone()).or_insert_with(new).expected += expected;
}

fn count(instances: usize) -> i64 {
    i64::try_from(instances).unwrap_or(i64::MAX)
}
