//! The engine's statistics of a container as resource usage of its task. Pure.

use bollard::models::ContainerStatsResponse;

use crate::cgroup::CgroupUsage;
use crate::procfs::TICKS_PER_SECOND;
use crate::stats::TaskUsage;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Converts one reading; `None` if the container does not run, for then the engine counts nothing.
pub(super) fn usage(stats: &ContainerStatsResponse) -> Option<TaskUsage> {
    let (memory, cpu) = (stats.memory_stats.as_ref()?, stats.cpu_stats.as_ref()?);
    let usage_bytes = memory.usage?;
    // Names of version 2 of cgroups, then of version 1.
    let of = |names: [&str; 2]| {
        let stats = memory.stats.as_ref();
        names.iter().find_map(|name| stats?.get(*name)).copied().unwrap_or(0)
    };
    // Podman passes on the sum alone.
    let rss_bytes = if memory.stats.is_some() { of(["anon", "rss"]) } else { usage_bytes };
    let spent = cpu.cpu_usage.clone().unwrap_or_default();
    let ticks = |nanos: u64| nanos * TICKS_PER_SECOND / NANOS_PER_SEC;
    let (total, kernel) = (spent.total_usage.unwrap_or(0), spent.usage_in_kernelmode.unwrap_or(0));
    let throttled = cpu.throttling_data.clone().unwrap_or_default();
    Some(TaskUsage::of_engine(&CgroupUsage {
        per_controller: memory.max_usage.is_some(),
        rss_bytes,
        cache_bytes: of(["file", "cache"]),
        swap_bytes: of(["swap", "swap"]),
        mapped_bytes: of(["file_mapped", "mapped_file"]),
        usage_bytes,
        usage_max_bytes: memory.max_usage.unwrap_or(0),
        user_ticks: ticks(total.saturating_sub(kernel)),
        system_ticks: ticks(kernel.min(total)),
        throttled_periods: throttled.throttled_periods.unwrap_or(0),
        throttled_nanos: throttled.throttled_time.unwrap_or(0),
        ..CgroupUsage::default()
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statistics_of_either_version_of_cgroups_are_usage() {
        let cpu = json!({"cpu_usage": {"total_usage": 2_500_000_000_u64, "usage_in_kernelmode": 500_000_000}});
        let story = [
            json!({"cpu_stats": cpu, "memory_stats": {"usage": 9, "max_usage": 12, "stats": {"rss": 3, "cache": 4, "swap": 1}}}),
            json!({"cpu_stats": cpu, "memory_stats": {"usage": 9, "stats": {"anon": 3, "file": 4, "file_mapped": 2}}}),
            json!({"cpu_stats": cpu, "memory_stats": {"usage": 9, "limit": 30}}),
            json!({"cpu_stats": {}, "memory_stats": {}}),
        ]
        .map(|stats| {
            let usage = usage(&serde_json::from_value(stats).expect("statistics"));
            let Some(counted) = usage.and_then(|usage| usage.counted) else { return "nothing".to_owned() };
            let CgroupUsage { per_controller, rss_bytes, cache_bytes, usage_bytes, usage_max_bytes, .. } = counted;
            let ticks = (counted.user_ticks, counted.system_ticks);
            format!("{per_controller} {rss_bytes} {cache_bytes} {usage_bytes} {usage_max_bytes} {ticks:?}")
        });
        assert_eq!(story, ["true 3 4 9 12 (200, 50)", "false 3 4 9 0 (200, 50)", "false 9 0 9 0 (200, 50)", "nothing"]);
    }
}
