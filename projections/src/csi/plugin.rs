//! CSI plugins: rows derived from the instances that nodes report and from the instances that jobs are to run. They
//! are written together with the node, job or allocation they follow from; no command writes one, and only empty ones
//! can be deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_commands::DeleteCsiPlugin;
use songline_model::{Allocation, CsiPlugin, CsiPluginId, CsiPluginPart, Job, JobKey, JobType, Node, NodeId};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, Table, tables};
use crate::tx::Tx;

impl Rules<CsiPluginId, CsiPlugin> for tables::CsiPlugins {
    fn key(row: &CsiPlugin) -> CsiPluginId {
        row.id.clone()
    }

    #[cfg(test)]
    fn in_story(row: &CsiPlugin) -> String {
        format!("plugin:{}", row.id)
    }
}

impl State {
    /// The plugin with this id.
    pub fn csi_plugin(&self, id: &str) -> Option<&Arc<CsiPlugin>> {
        self.tables.csi_plugins.get(&CsiPluginId::from(id))
    }

    /// All plugins, by id.
    pub fn csi_plugins(&self) -> impl DoubleEndedIterator<Item = &Arc<CsiPlugin>> {
        self.tables.csi_plugins.iter()
    }
}

/// Deletes a plugin. An unknown plugin counts as deleted.
pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteCsiPlugin) -> Result<(), Rejected> {
    match tx.csi_plugin(&cmd.id) {
        Some(plugin) if !plugin.is_empty() => Err(Rejected::CsiPluginInUse),
        Some(_) => {
            tx.delete::<tables::CsiPlugins>(&cmd.id);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Records the instances that a node reports, and removes those that it no longer reports.
pub(crate) fn node_registered(tx: &mut Tx<'_>, node: &Node) {
    tx.bump(Table::CsiPlugins);
    let told =
        [(CsiPluginPart::Controller, &node.csi_controller_plugins), (CsiPluginPart::Node, &node.csi_node_plugins)];
    for (part, instances) in told {
        for info in instances.iter().flatten().map(|(_, info)| info) {
            let id = CsiPluginId::from(&info.plugin_id);
            // An unhealthy instance alone does not create a plugin.
            if info.healthy || tx.csi_plugin(&id).is_some() {
                change(tx, &id, Missing::Make, Keep::Always, |plugin| plugin.set_instance(part, node.id, info));
            }
        }
    }
    for (part, instances) in told {
        let running: BTreeSet<&str> = instances.iter().flatten().map(|(_, info)| info.plugin_id.as_str()).collect();
        let left: Vec<CsiPluginId> = tx
            .csi_plugins()
            .filter(|plugin| has(plugin, part, node.id) && !running.contains(plugin.id.as_str()))
            .map(|plugin| plugin.id.clone())
            .collect();
        for id in left {
            change(tx, &id, Missing::Skip, Keep::UnlessEmpty, |plugin| {
                plugin.drop_instance(part, node.id);
            });
        }
    }
}

/// Removes every instance on a node.
pub(crate) fn node_deregistered(tx: &mut Tx<'_>, node: NodeId) {
    let on_it =
        |plugin: &CsiPlugin| has(plugin, CsiPluginPart::Controller, node) || has(plugin, CsiPluginPart::Node, node);
    let ids: Vec<CsiPluginId> =
        tx.csi_plugins().filter(|plugin| on_it(plugin)).map(|plugin| plugin.id.clone()).collect();
    for id in ids {
        change(tx, &id, Missing::Skip, Keep::UnlessEmpty, |plugin| {
            plugin.drop_instance(CsiPluginPart::Controller, node);
            plugin.drop_instance(CsiPluginPart::Node, node);
        });
    }
}

/// Records the instances that a new version of a job is to run, before the first of them reports, and even if there
/// are none.
pub(crate) fn job_registered(tx: &mut Tx<'_>, before: Option<&Job>, job: &Job) {
    let key = job.key();
    let now = job.csi_plugins();
    for id in before.map(Job::csi_plugins).unwrap_or_default() {
        if !now.contains(&id) {
            change(tx, &id, Missing::Skip, Keep::WithJobs, |plugin| plugin.drop_job(&key));
        }
    }
    for id in now {
        set_job(tx, &id, Missing::Make, job);
    }
}

/// Records the number of instances of a system job, which only the job summary has.
pub(crate) fn job_counted(tx: &mut Tx<'_>, key: &JobKey) {
    let Some(job) = tx.job_by_key(key).filter(|job| job.kind == JobType::System).cloned() else {
        return;
    };
    for id in job.csi_plugins() {
        set_job(tx, &id, Missing::Skip, &job);
    }
}

/// Removes a purged job, and the instances that its allocations ran.
pub(crate) fn job_purged(tx: &mut Tx<'_>, job: &Job) {
    let key = job.key();
    for id in job.csi_plugins() {
        let allocs: Vec<_> = tx.allocs_of_job(&key.namespace, &key.id).map(|alloc| alloc.id).collect();
        change(tx, &id, Missing::Skip, Keep::UnlessEmpty, |plugin| {
            allocs.iter().for_each(|alloc| {
                plugin.drop_alloc(*alloc);
            });
            plugin.drop_job(&key);
        });
    }
}

/// Removes the instances of an allocation that the servers stopped, and records the number of a system job's
/// instances.
pub(crate) fn alloc_written(tx: &mut Tx<'_>, alloc: &Allocation) {
    let Some(group) = alloc.job.as_ref().and_then(|job| job.group(&alloc.task_group)) else {
        return;
    };
    let plugins: Vec<CsiPluginId> = group.csi_plugins().collect();
    if plugins.is_empty() {
        return;
    }
    if alloc.server_terminal() {
        for id in plugins {
            change(tx, &id, Missing::Skip, Keep::UnlessEmpty, |plugin| {
                plugin.drop_alloc(alloc.id);
            });
        }
    }
    job_counted(tx, &alloc.job_key());
}

fn set_job(tx: &mut Tx<'_>, id: &CsiPluginId, missing: Missing, job: &Job) {
    let summary = tx.job_summary(&job.namespace, &job.id).cloned();
    change(tx, id, missing, Keep::WithJobs, |plugin| plugin.set_job(job, summary.as_deref()));
}

fn has(plugin: &CsiPlugin, part: CsiPluginPart, node: NodeId) -> bool {
    match part {
        CsiPluginPart::Controller => plugin.controllers.contains_key(&node),
        CsiPluginPart::Node => plugin.nodes.contains_key(&node),
    }
}

/// Handling of a change to a plugin without a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Skip,
}

/// Condition under which the row is kept after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// The row is always kept.
    Always,
    /// The row is kept if a job names the plugin, even if no instance is expected.
    WithJobs,
    /// The row is kept if an instance runs or is expected.
    UnlessEmpty,
}

fn change(tx: &mut Tx<'_>, id: &CsiPluginId, missing: Missing, keep: Keep, change: impl FnOnce(&mut CsiPlugin)) {
    let stored = tx.csi_plugin(id).cloned();
    let mut row = match (&stored, missing) {
        (Some(stored), _) => CsiPlugin::clone(stored),
        (None, Missing::Make) => CsiPlugin::new(id.clone(), tx.index()),
        (None, Missing::Skip) => return,
    };
    change(&mut row);
    let stays = match keep {
        Keep::Always => true,
        Keep::WithJobs => !(row.is_empty() && row.controller_jobs.is_empty() && row.node_jobs.is_empty()),
        Keep::UnlessEmpty => !row.is_empty(),
    };
    if !stays {
        tx.delete::<tables::CsiPlugins>(id);
    } else if stored.as_deref() != Some(&row) {
        row.modify_index = tx.index();
        tx.put::<tables::CsiPlugins>(row);
    }
}

#[cfg(test)]
mod tests;
