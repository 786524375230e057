//! Gauges of the node and of its tasks for the agent's metrics: read at intervals, so that a scrape waits for nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocId, Allocation, Amount, Node, Str, TaskRunState, Time};
use songline_rpc::{Count, Gauge, Gauges, Servers};

use super::{Client, Inner};
use crate::config::PublishSettings;
use crate::fingerprint::mhz_per_core;
use crate::runner::Waits;
use crate::stats::gauges::{of_host, of_task};
use crate::stats::{CpuTimes, Detail, Interval, TaskUsage};

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// Labels of a gauge: names and values.
pub(super) type Labels = Arc<[(&'static str, String)]>;

/// Usage as it was read at one time.
struct Reading {
    at: Time,
    cpu: CpuTimes,
    tasks: BTreeMap<(AllocId, Str), TaskUsage>,
}

impl<S: Servers> Gauges for Client<S> {
    fn gauges(&self) -> Arc<Vec<Gauge>> {
        Arc::clone(&self.inner.gauges.lock())
    }

    fn counts(&self) -> Vec<Count> {
        let shared = &self.inner.shared;
        if !shared.config.publish.allocs {
            return Vec::new();
        }
        shared.counts.read(&self.inner.loops.all().into_keys().collect(), self.inner.now())
    }
}

impl<S: Servers> Inner<S> {
    /// Reads the gauges at intervals, unless none is published.
    pub(super) async fn publish_gauges(self: Arc<Self>) {
        let settings = self.shared.config.publish;
        if !settings.node && !settings.allocs {
            return;
        }
        let mhz_per_core = mhz_per_core();
        let mut before = self.read_usage(settings).await;
        loop {
            tokio::time::sleep(settings.interval.to_std()).await;
            let after = self.read_usage(settings).await;
            *self.gauges.lock() = Arc::new(self.gauges_between(settings, mhz_per_core, &before, &after));
            before = after;
        }
    }

    async fn read_usage(&self, settings: PublishSettings) -> Reading {
        let mut tasks = BTreeMap::new();
        if settings.allocs {
            for (id, runner) in self.loops.all() {
                let view = runner.view();
                let running = view.update.tasks().filter(|(_, state)| state.state == TaskRunState::Running);
                for name in running.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
                    if let Some(usage) = runner.usage(&name, Detail::Sums).await {
                        tasks.insert((id, name), usage);
                    }
                }
            }
        }
        Reading { at: self.now(), cpu: CpuTimes::read(), tasks }
    }

    fn gauges_between(
        &self,
        settings: PublishSettings,
        mhz_per_core: f64,
        before: &Reading,
        after: &Reading,
    ) -> Vec<Gauge> {
        let node = self.loops.node();
        let labels = labels_of_node(&node);
        let allocs: BTreeMap<AllocId, Arc<Allocation>> =
            self.loops.all().into_iter().map(|(id, runner)| (id, runner.view().alloc)).collect();
        let mut out = Vec::new();
        if settings.node {
            out.extend(of_host(&before.cpu, &after.cpu, mhz_per_core, &labels));
            out.extend(of_allocated(&node, allocs.values(), &labels));
            out.extend(of_waits(&self.shared.waits, &labels));
        }
        let secs = after.at.since(before.at).to_std().as_secs_f64();
        for ((id, name), usage) in &after.tasks {
            let Some(alloc) = allocs.get(id) else { continue };
            let earlier = before.tasks.get(&(*id, name.clone())).unwrap_or(usage);
            let labels = labels_of_task(alloc, name);
            out.extend(of_task(earlier, usage, Interval { secs, mhz_per_core }, &labels));
            out.extend(of_limits(alloc, name, &labels));
        }
        out
    }
}

fn labels_of_node(node: &Node) -> Labels {
    let class = if node.node_class.is_empty() { "none" } else { node.node_class.as_str() };
    Arc::new([
        ("node_id", node.id.to_string()),
        ("datacenter", node.datacenter.to_string()),
        ("node_class", class.to_owned()),
        ("node_pool", node.node_pool.to_string()),
    ])
}

pub(super) fn labels_of_task(alloc: &Allocation, task: &Str) -> Labels {
    Arc::new([
        ("alloc_id", alloc.id.to_string()),
        ("namespace", alloc.namespace.to_string()),
        ("job", alloc.job_id.to_string()),
        ("task_group", alloc.task_group.to_string()),
        ("task", task.to_string()),
    ])
}

/// Resources of the node that allocations have which are not over, and those that are left.
fn of_allocated<'a>(node: &Node, allocs: impl Iterator<Item = &'a Arc<Allocation>>, labels: &Labels) -> Vec<Gauge> {
    let active = allocs.filter(|alloc| !alloc.terminal());
    let used = active.fold(Amount::default(), |sum, alloc| sum.plus(alloc.amount()));
    let free = node.capacity().minus(used);
    [
        ("nomad.client.allocated.cpu", "CPU shares that allocations have, in MHz.", used.cpu),
        ("nomad.client.allocated.memory", "Memory that allocations have, in MiB.", used.memory),
        ("nomad.client.allocated.disk", "Disk that allocations have, in MiB.", used.disk),
        ("nomad.client.unallocated.cpu", "CPU shares for further allocations, in MHz.", free.cpu),
        ("nomad.client.unallocated.memory", "Memory for further allocations, in MiB.", free.memory),
        ("nomad.client.unallocated.disk", "Disk for further allocations, in MiB.", free.disk),
    ]
    .map(|(name, help, value)| Gauge { name, help, labels: Arc::clone(labels), value: value as f64 })
    .into()
}

/// Allocations that do not start yet because of an earlier one.
fn of_waits(waits: &Waits, labels: &Labels) -> Vec<Gauge> {
    let blocked = "Allocations that wait for the end of an earlier one.";
    let migrating = "Allocations that take the data of an earlier one over.";
    [
        ("nomad.client.allocations.blocked", blocked, waits.blocked()),
        ("nomad.client.allocations.migrating", migrating, waits.migrating()),
    ]
    .map(|(name, help, value)| Gauge { name, help, labels: Arc::clone(labels), value: value as f64 })
    .into()
}

/// Bounds of the resources of a task.
fn of_limits(alloc: &Allocation, task: &Str, labels: &Labels) -> Vec<Gauge> {
    let tasks = alloc.allocated_resources.as_ref().and_then(|resources| resources.tasks.as_ref());
    let Some(limits) = tasks.and_then(|tasks| tasks.get(task)) else { return Vec::new() };
    let memory = limits.memory.memory_mb as f64 * MIB;
    let most = limits.memory.memory_max_mb.max(limits.memory.memory_mb) as f64 * MIB;
    [
        ("nomad.client.allocs.cpu.allocated", "CPU shares of a task, in MHz.", limits.cpu.cpu_shares as f64),
        ("nomad.client.allocs.memory.allocated", "Memory of a task, in bytes.", memory),
        ("nomad.client.allocs.memory.max_allocated", "Most memory that a task may use, in bytes.", most),
    ]
    .map(|(name, help, value)| Gauge { name, help, labels: Arc::clone(labels), value })
    .into()
}
