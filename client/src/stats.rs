//! Resource usage of tasks and the machine, in the reference's JSON forms. Read from /proc on request; nothing is
//! sampled in between.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::cgroup::CgroupUsage;
use crate::procfs::{self, PAGE_BYTES, ProcessStat, TICKS_PER_SECOND};

/// Resource usage of one task at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskUsage {
    /// Memory, in bytes.
    pub rss_bytes: u64,
    /// Processor time in user mode, in ticks.
    pub user_ticks: u64,
    /// Processor time in the kernel, in ticks.
    pub system_ticks: u64,
    /// Processes of the task by id, as far as they were read; `None` where there are none to read.
    pub processes: Option<Arc<BTreeMap<i32, ProcessStat>>>,
    /// Usage counted by its cgroups, if they are read instead of its processes.
    pub counted: Option<CgroupUsage>,
    /// Whether a container engine read its cgroups, which passes on less.
    pub of_engine: bool,
}

/// Content of a reading of a task's usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The sums. The processes of a task whose cgroups count it are not read.
    Sums,
    /// Also each process, if the driver lists processes.
    Processes,
}

impl TaskUsage {
    /// Usage of a task without a process: only its memory is shown.
    pub(crate) fn pretended(rss_bytes: u64) -> Self {
        Self { rss_bytes, ..Self::default() }
    }

    /// Usage of a task whose cgroups count it.
    pub(crate) fn counted(counted: &CgroupUsage, processes: BTreeMap<i32, ProcessStat>) -> Self {
        let CgroupUsage { rss_bytes, user_ticks, system_ticks, .. } = *counted;
        let (counted, processes) = (Some(*counted), Some(Arc::new(processes)));
        Self { rss_bytes, user_ticks, system_ticks, processes, counted, of_engine: false }
    }

    /// Usage of a container, as its engine says. Its processes are not listed.
    #[cfg(feature = "docker")]
    pub(crate) fn of_engine(counted: &CgroupUsage) -> Self {
        Self { of_engine: true, processes: None, ..Self::counted(counted, BTreeMap::new()) }
    }

    /// Usage of a task as the sum over its processes.
    pub(crate) fn of_processes(processes: BTreeMap<i32, ProcessStat>) -> Self {
        let sum = |of: fn(&ProcessStat) -> u64| -> u64 { processes.values().map(of).sum() };
        Self {
            rss_bytes: sum(|stat| stat.rss_pages) * PAGE_BYTES,
            user_ticks: sum(|stat| stat.user_ticks),
            system_ticks: sum(|stat| stat.system_ticks),
            processes: Some(Arc::new(processes)),
            counted: None,
            of_engine: false,
        }
    }
}

/// Converts two readings of a task's processor time to percent of one core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub secs: f64,
    pub mhz_per_core: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocResourceUsage {
    resource_usage: ResourceUsage,
    tasks: BTreeMap<String, TaskResourceUsage>,
    timestamp: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskResourceUsage {
    resource_usage: ResourceUsage,
    timestamp: i64,
    pids: Option<BTreeMap<String, ResourceUsage>>,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "PascalCase")]
struct ResourceUsage {
    memory_stats: MemoryStats,
    /// `None` where nothing was measured.
    cpu_stats: Option<CpuStats>,
    device_stats: Option<Vec<()>>,
}

/// Names of the measured values; `None` is null in JSON.
type Measured = Option<Vec<&'static str>>;

#[derive(Serialize, Clone, Default)]
#[serde(rename_all = "PascalCase")]
struct MemoryStats {
    #[serde(rename = "RSS")]
    rss: u64,
    cache: u64,
    swap: u64,
    mapped_file: u64,
    usage: u64,
    max_usage: u64,
    kernel_usage: u64,
    kernel_max_usage: u64,
    measured: Measured,
}

#[derive(Serialize, Clone, Default)]
#[serde(rename_all = "PascalCase")]
struct CpuStats {
    system_mode: f64,
    user_mode: f64,
    total_ticks: f64,
    throttled_periods: u64,
    throttled_time: u64,
    percent: f64,
    measured: Measured,
}

/// Memory values that are measured of processes.
const PROCESS_MEMORY: &[&str] = &["RSS", "Swap"];
/// Processor values that are measured of processes.
const PROCESS_CPU: &[&str] = &["System Mode", "User Mode", "Percent"];
/// Memory values that are measured of cgroups of version 1.
const PER_CONTROLLER_MEMORY: &[&str] =
    &["RSS", "Cache", "Swap", "Usage", "Max Usage", "Kernel Usage", "Kernel Max Usage"];
/// Memory values that are measured of cgroups of version 2.
const UNIFIED_MEMORY: &[&str] = &["Cache", "Swap", "Usage"];
/// Memory values that are measured of containers whose cgroups have version 1.
const ENGINE_MEMORY: &[&str] = &["RSS", "Cache", "Swap", "Usage", "Max Usage"];
/// Processor values that are measured of containers.
const ENGINE_CPU: &[&str] = &["Throttled Periods", "Throttled Time", "Percent"];
/// Processor values that are measured of cgroups.
const CGROUP_CPU: &[&str] = &["System Mode", "User Mode", "Throttled Periods", "Throttled Time", "Percent"];

/// `AllocResourceUsage` of tasks that were read twice. Without tasks its timestamp is 0.
pub(crate) fn alloc_usage(
    tasks: &BTreeMap<String, (TaskUsage, TaskUsage)>,
    interval: Interval,
    timestamp: i64,
) -> Vec<u8> {
    let rows: BTreeMap<String, TaskResourceUsage> = tasks
        .iter()
        .map(|(name, (before, after))| {
            let own = usage(before, after, interval);
            let pids = after
                .processes
                .as_ref()
                .map(|processes| processes.iter().map(|(pid, stat)| (pid.to_string(), process_usage(stat))).collect());
            (name.clone(), TaskResourceUsage { resource_usage: own, timestamp, pids })
        })
        .collect();
    let timestamp = if rows.is_empty() { 0 } else { timestamp };
    encode(&AllocResourceUsage {
        resource_usage: sum(rows.values().map(|row| &row.resource_usage)),
        tasks: rows,
        timestamp,
    })
}

/// Usage of an allocation: the sum over its tasks. A value counts as measured if any task has it measured.
fn sum<'a>(tasks: impl Iterator<Item = &'a ResourceUsage>) -> ResourceUsage {
    let (mut memory, mut cpu) = (MemoryStats::default(), CpuStats::default());
    for task in tasks {
        memory.add(&task.memory_stats);
        join(&mut memory.measured, &task.memory_stats.measured);
        if let Some(of_task) = &task.cpu_stats {
            cpu.percent += of_task.percent;
            cpu.system_mode += of_task.system_mode;
            cpu.user_mode += of_task.user_mode;
            cpu.total_ticks += of_task.total_ticks;
            cpu.throttled_periods += of_task.throttled_periods;
            cpu.throttled_time += of_task.throttled_time;
            join(&mut cpu.measured, &of_task.measured);
        }
    }
    ResourceUsage { memory_stats: memory, cpu_stats: Some(cpu), device_stats: Some(Vec::new()) }
}

impl MemoryStats {
    fn of(usage: &TaskUsage) -> Self {
        let Some(counted) = &usage.counted else {
            return Self { rss: usage.rss_bytes, measured: Some(PROCESS_MEMORY.to_vec()), ..Self::default() };
        };
        let measured = match (counted.per_controller, usage.of_engine) {
            (true, false) => PER_CONTROLLER_MEMORY,
            (true, true) => ENGINE_MEMORY,
            (false, _) => UNIFIED_MEMORY,
        };
        Self {
            rss: counted.rss_bytes,
            cache: counted.cache_bytes,
            swap: counted.swap_bytes,
            mapped_file: counted.mapped_bytes,
            usage: counted.usage_bytes,
            max_usage: counted.usage_max_bytes,
            kernel_usage: counted.kernel_bytes,
            kernel_max_usage: counted.kernel_max_bytes,
            measured: Some(measured.to_vec()),
        }
    }

    fn add(&mut self, other: &Self) {
        self.rss += other.rss;
        self.cache += other.cache;
        self.swap += other.swap;
        self.mapped_file += other.mapped_file;
        self.usage += other.usage;
        self.max_usage += other.max_usage;
        self.kernel_usage += other.kernel_usage;
        self.kernel_max_usage += other.kernel_max_usage;
    }
}

fn join(all: &mut Measured, more: &Measured) {
    for word in more.iter().flatten() {
        let all = all.get_or_insert_default();
        if !all.contains(word) {
            all.push(word);
        }
    }
}

fn usage(before: &TaskUsage, after: &TaskUsage, interval: Interval) -> ResourceUsage {
    if after.processes.is_none() && !after.of_engine {
        let memory_stats = MemoryStats { rss: after.rss_bytes, measured: Some(vec!["RSS"]), ..MemoryStats::default() };
        return ResourceUsage { memory_stats, cpu_stats: None, device_stats: None };
    }
    let percent = |before: u64, after: u64| {
        let ticks = after.saturating_sub(before) as f64;
        if interval.secs > 0.0 { ticks / TICKS_PER_SECOND as f64 / interval.secs * 100.0 } else { 0.0 }
    };
    let user_mode = percent(before.user_ticks, after.user_ticks);
    let system_mode = percent(before.system_ticks, after.system_ticks);
    let percent = user_mode + system_mode;
    let counted = after.counted.unwrap_or_default();
    let measured = match after.counted {
        Some(_) if after.of_engine => ENGINE_CPU,
        Some(_) => CGROUP_CPU,
        None => PROCESS_CPU,
    };
    ResourceUsage {
        memory_stats: MemoryStats::of(after),
        cpu_stats: Some(CpuStats {
            system_mode,
            user_mode,
            percent,
            total_ticks: percent / 100.0 * interval.mhz_per_core,
            throttled_periods: counted.throttled_periods,
            throttled_time: counted.throttled_nanos,
            measured: Some(measured.to_vec()),
        }),
        device_stats: None,
    }
}

fn process_usage(stat: &ProcessStat) -> ResourceUsage {
    ResourceUsage {
        memory_stats: MemoryStats {
            rss: stat.rss_pages * PAGE_BYTES,
            measured: Some(PROCESS_MEMORY.to_vec()),
            ..MemoryStats::default()
        },
        cpu_stats: Some(CpuStats { measured: Some(PROCESS_CPU.to_vec()), ..CpuStats::default() }),
        device_stats: None,
    }
}

/// Processor time of the machine since its start, per core.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuTimes(Vec<(String, [u64; 4])>);

impl CpuTimes {
    /// Reads the current times: user, system, idle, total.
    pub fn read() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cores = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        Self(
            cores
                .filter_map(|line| {
                    let mut fields = line.split_ascii_whitespace();
                    let name = fields.next()?.to_owned();
                    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
                    let [user, nice, system, idle, ..] = ticks.as_slice() else { return None };
                    Some((name, [user + nice, *system, *idle, ticks.iter().sum()]))
                })
                .collect(),
        )
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostStats {
    memory: HostMemory,
    #[serde(rename = "CPU")]
    cpu: Vec<HostCpu>,
    disk_stats: Vec<HostDisk>,
    alloc_dir_stats: Option<HostDisk>,
    device_stats: Vec<()>,
    uptime: u64,
    timestamp: i64,
    #[serde(rename = "CPUTicksConsumed")]
    cpu_ticks_consumed: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostMemory {
    total: u64,
    available: u64,
    used: u64,
    free: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostCpu {
    #[serde(rename = "CPU")]
    cpu: String,
    user: f64,
    system: f64,
    idle: f64,
    total_percent: f64,
    total_ticks: f64,
}

/// Usage of a file system.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct HostDisk {
    pub device: String,
    pub mountpoint: String,
    pub size: u64,
    pub used: u64,
    pub available: u64,
    pub used_percent: f64,
    pub inodes_used_percent: f64,
}

/// `HostStats`, from two readings of the processor times.
pub(crate) fn host_usage(
    before: &CpuTimes,
    after: &CpuTimes,
    mhz_per_core: f64,
    alloc_dir: &Path,
    timestamp: i64,
) -> Vec<u8> {
    let memory = procfs::memory();
    let bytes = |name: &str| memory.get(name).copied().unwrap_or(0);
    let (total, available, free) = (bytes("MemTotal"), bytes("MemAvailable"), bytes("MemFree"));
    let cpu: Vec<HostCpu> = before
        .0
        .iter()
        .zip(&after.0)
        .map(|((name, then), (_, now))| core_usage(name, then, now, mhz_per_core))
        .collect();
    let cpu_ticks_consumed = cpu.iter().map(|core| core.total_ticks).sum();
    encode(&HostStats {
        memory: HostMemory { total, available, used: total.saturating_sub(available), free },
        cpu,
        disk_stats: disks(),
        alloc_dir_stats: disk_of(alloc_dir),
        device_stats: Vec::new(),
        uptime: procfs::uptime_secs(),
        timestamp,
        cpu_ticks_consumed,
    })
}

fn core_usage(name: &str, then: &[u64; 4], now: &[u64; 4], mhz_per_core: f64) -> HostCpu {
    let all = now[3].saturating_sub(then[3]) as f64;
    let share =
        |index: usize| if all > 0.0 { now[index].saturating_sub(then[index]) as f64 / all * 100.0 } else { 0.0 };
    let (user, system, idle) = (share(0), share(1), share(2));
    let total_percent = if all > 0.0 { 100.0 - idle } else { 0.0 };
    HostCpu {
        cpu: name.to_owned(),
        user,
        system,
        idle,
        total_percent,
        total_ticks: total_percent / 100.0 * mhz_per_core,
    }
}

/// Every mounted file system that is on a device.
fn disks() -> Vec<HostDisk> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut seen = BTreeMap::new();
    for line in mounts.lines() {
        let mut fields = line.split_ascii_whitespace();
        if let (Some(device), Some(at)) = (fields.next(), fields.next())
            && device.starts_with("/dev/")
            && !seen.contains_key(device)
            && let Some(disk) = disk(device, at)
        {
            seen.insert(device.to_owned(), disk);
        }
    }
    seen.into_values().collect()
}

/// The file system of a directory.
pub(crate) fn disk_of(dir: &Path) -> Option<HostDisk> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let dir = dir.canonicalize().ok()?;
    let holds = |line: &&str| line.split_ascii_whitespace().nth(1).is_some_and(|at| dir.starts_with(at));
    let line =
        mounts.lines().filter(holds).max_by_key(|line| line.split_ascii_whitespace().nth(1).map_or(0, str::len))?;
    let mut fields = line.split_ascii_whitespace();
    disk(fields.next()?, fields.next()?)
}

fn disk(device: &str, at: &str) -> Option<HostDisk> {
    let stat = rustix::fs::statvfs(at).ok()?;
    let (size, free, available) =
        (stat.f_blocks * stat.f_frsize, stat.f_bfree * stat.f_frsize, stat.f_bavail * stat.f_frsize);
    let used = size.saturating_sub(free);
    let percent = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 * 100.0 } else { 0.0 };
    Some(HostDisk {
        device: device.to_owned(),
        mountpoint: at.to_owned(),
        size,
        used,
        available,
        used_percent: percent(used, used + available),
        inodes_used_percent: percent(stat.f_files.saturating_sub(stat.f_ffree), stat.f_files),
    })
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers and texts always encode")
}

pub(crate) mod gauges;
#[cfg(test)]
mod tests;
