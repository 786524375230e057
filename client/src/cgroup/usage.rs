//! Resource usage as the kernel counts it in a cgroup, read on request.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Cgroups;
use crate::procfs::TICKS_PER_SECOND;

/// Resource usage of the processes of a cgroup. A value that the layout does not count is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupUsage {
    /// Whether the values are from version 1, which counts more of the memory.
    pub per_controller: bool,
    /// Anonymous memory of processes, in bytes.
    pub rss_bytes: u64,
    /// Page cache, in bytes.
    pub cache_bytes: u64,
    /// Memory that was swapped out, in bytes.
    pub swap_bytes: u64,
    /// Files that are mapped into memory, in bytes.
    pub mapped_bytes: u64,
    /// All counted memory, in bytes.
    pub usage_bytes: u64,
    /// Peak of `usage_bytes`, in bytes.
    pub usage_max_bytes: u64,
    /// Memory of the kernel, in bytes.
    pub kernel_bytes: u64,
    /// Peak of `kernel_bytes`, in bytes.
    pub kernel_max_bytes: u64,
    /// Processor time in user mode, in ticks.
    pub user_ticks: u64,
    /// Processor time in the kernel, in ticks.
    pub system_ticks: u64,
    /// Number of periods in which the processes were throttled.
    pub throttled_periods: u64,
    /// Total throttled time, in nanoseconds.
    pub throttled_nanos: u64,
}

/// Reads the usage; `None` when the cgroups are gone or do not count memory.
pub(super) fn read(cgroups: &Cgroups) -> Option<CgroupUsage> {
    match cgroups {
        Cgroups::Unified(dir) => unified(dir),
        Cgroups::PerController(dirs) => {
            Some(per_controller(dirs.get("memory")?, dirs.get("cpuacct")?, dirs.get("cpu")?))
        }
    }
}

fn unified(dir: &Path) -> Option<CgroupUsage> {
    let (memory, cpu) = (keyed(&dir.join("memory.stat")), keyed(&dir.join("cpu.stat")));
    let of = |told: &BTreeMap<String, u64>, key: &str| told.get(key).copied().unwrap_or(0);
    let ticks = |key: &str| of(&cpu, key) * TICKS_PER_SECOND / 1_000_000;
    Some(CgroupUsage {
        per_controller: false,
        usage_bytes: number(&dir.join("memory.current"))?,
        rss_bytes: of(&memory, "anon"),
        cache_bytes: of(&memory, "file"),
        mapped_bytes: of(&memory, "file_mapped"),
        swap_bytes: number(&dir.join("memory.swap.current")).unwrap_or(0),
        usage_max_bytes: number(&dir.join("memory.peak")).unwrap_or(0),
        kernel_bytes: of(&memory, "kernel"),
        kernel_max_bytes: 0,
        user_ticks: ticks("user_usec"),
        system_ticks: ticks("system_usec"),
        throttled_periods: of(&cpu, "nr_throttled"),
        throttled_nanos: of(&cpu, "throttled_usec") * 1000,
    })
}

fn per_controller(memory: &Path, cpuacct: &Path, cpu: &Path) -> CgroupUsage {
    let (held, times, throttled) =
        (keyed(&memory.join("memory.stat")), keyed(&cpuacct.join("cpuacct.stat")), keyed(&cpu.join("cpu.stat")));
    let of = |told: &BTreeMap<String, u64>, key: &str| told.get(key).copied().unwrap_or(0);
    let bytes = |file: &str| number(&memory.join(file)).unwrap_or(0);
    CgroupUsage {
        per_controller: true,
        rss_bytes: of(&held, "rss"),
        cache_bytes: of(&held, "cache"),
        swap_bytes: of(&held, "swap"),
        mapped_bytes: of(&held, "mapped_file"),
        usage_bytes: bytes("memory.usage_in_bytes"),
        usage_max_bytes: bytes("memory.max_usage_in_bytes"),
        kernel_bytes: bytes("memory.kmem.usage_in_bytes"),
        kernel_max_bytes: bytes("memory.kmem.max_usage_in_bytes"),
        user_ticks: of(&times, "user"),
        system_ticks: of(&times, "system"),
        throttled_periods: of(&throttled, "nr_throttled"),
        throttled_nanos: of(&throttled, "throttled_time"),
    }
}

/// A file of lines of a word and a number.
pub(super) fn keyed(file: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(key, value)| Some((key.to_owned(), value.trim().parse().ok()?)))
        .collect()
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
