//! Usage of the machine and of tasks as gauges, under the reference's names. Reading at intervals is in
//! [`crate::agent`].

use std::sync::Arc;

use songline_rpc::Gauge;

use super::{CpuStats, CpuTimes, Interval, MemoryStats, TaskUsage, core_usage, disks, usage};
use crate::procfs;

/// Labels of a gauge: names and values.
type Labels = Arc<[(&'static str, String)]>;

/// Gauges of the machine, from two readings of the processor times.
pub(crate) fn of_host(before: &CpuTimes, after: &CpuTimes, mhz_per_core: f64, node: &Labels) -> Vec<Gauge> {
    let mut out = Vec::new();
    let with = |name: &'static str, value: String| -> Labels { node.iter().cloned().chain([(name, value)]).collect() };
    let mut gauge =
        |name, help, labels: &Labels, value| out.push(Gauge { name, help, labels: Arc::clone(labels), value });
    for ((name, then), (_, now)) in before.0.iter().zip(&after.0) {
        let (core, labels) = (core_usage(name, then, now, mhz_per_core), with("cpu", name.clone()));
        gauge("nomad.client.host.cpu.user", "Processor time in user mode, in percent.", &labels, core.user);
        gauge("nomad.client.host.cpu.system", "Processor time in the kernel, in percent.", &labels, core.system);
        gauge("nomad.client.host.cpu.idle", "Idle processor time, in percent.", &labels, core.idle);
        gauge("nomad.client.host.cpu.total", "Processor time in use, in percent.", &labels, core.total_percent);
    }
    let memory = procfs::memory();
    let bytes = |name: &str| memory.get(name).copied().unwrap_or(0) as f64;
    let (total, available) = (bytes("MemTotal"), bytes("MemAvailable"));
    gauge("nomad.client.host.memory.total", "Memory of the machine, in bytes.", node, total);
    gauge("nomad.client.host.memory.available", "Memory for further programs, in bytes.", node, available);
    gauge("nomad.client.host.memory.used", "Memory in use, in bytes.", node, total - available);
    gauge("nomad.client.host.memory.free", "Memory that holds nothing, in bytes.", node, bytes("MemFree"));
    for disk in disks() {
        let labels = with("disk", disk.device.clone());
        gauge("nomad.client.host.disk.size", "Size of a file system, in bytes.", &labels, disk.size as f64);
        gauge("nomad.client.host.disk.used", "Use of a file system, in bytes.", &labels, disk.used as f64);
        gauge("nomad.client.host.disk.available", "Free for tasks, in bytes.", &labels, disk.available as f64);
        gauge("nomad.client.host.disk.used_percent", "Use of a file system, in percent.", &labels, disk.used_percent);
        let inodes = disk.inodes_used_percent;
        gauge("nomad.client.host.disk.inodes_percent", "Use of its inodes, in percent.", &labels, inodes);
    }
    gauge("nomad.client.uptime", "Time since the machine started, in seconds.", node, procfs::uptime_secs() as f64);
    out
}

/// Gauges of a task that was read twice.
pub(crate) fn of_task(before: &TaskUsage, after: &TaskUsage, interval: Interval, task: &Labels) -> Vec<Gauge> {
    let mut out = Vec::new();
    let mut gauge = |name, help, value| out.push(Gauge { name, help, labels: Arc::clone(task), value });
    let told = usage(before, after, interval);
    let MemoryStats { rss, cache, swap, mapped_file, usage, max_usage, kernel_usage, kernel_max_usage, .. } =
        told.memory_stats;
    for (name, help, bytes) in [
        ("nomad.client.allocs.memory.rss", "Memory of a task's processes, in bytes.", rss),
        ("nomad.client.allocs.memory.cache", "Page cache of a task, in bytes.", cache),
        ("nomad.client.allocs.memory.swap", "Swapped memory of a task, in bytes.", swap),
        ("nomad.client.allocs.memory.mapped_file", "Mapped files of a task, in bytes.", mapped_file),
        ("nomad.client.allocs.memory.usage", "Memory that counts against a task's limit, in bytes.", usage),
        ("nomad.client.allocs.memory.max_usage", "Largest such memory so far, in bytes.", max_usage),
        ("nomad.client.allocs.memory.kernel_usage", "Kernel memory of a task, in bytes.", kernel_usage),
        ("nomad.client.allocs.memory.kernel_max_usage", "Largest kernel memory so far, in bytes.", kernel_max_usage),
    ] {
        gauge(name, help, bytes as f64);
    }
    if let Some(CpuStats { system_mode, user_mode, total_ticks, throttled_periods, throttled_time, percent, .. }) =
        told.cpu_stats
    {
        for (name, help, value) in [
            ("nomad.client.allocs.cpu.user", "User mode of a task, in percent of a core.", user_mode),
            ("nomad.client.allocs.cpu.system", "Kernel mode of a task, in percent of a core.", system_mode),
            ("nomad.client.allocs.cpu.total_percent", "Processor time of a task, in percent of a core.", percent),
            ("nomad.client.allocs.cpu.total_ticks", "Processor use of a task, in MHz.", total_ticks),
            (
                "nomad.client.allocs.cpu.throttled_periods",
                "Periods in which a task was throttled.",
                throttled_periods as f64,
            ),
            (
                "nomad.client.allocs.cpu.throttled_time",
                "Time for which a task was throttled, in nanoseconds.",
                throttled_time as f64,
            ),
        ] {
            gauge(name, help, value);
        }
    }
    out
}
