//! Usage of an allocation in its wire form.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::Value;

use super::*;

/// Shows the measured values of each part, and their sums.
fn check(tasks: &[(&str, TaskUsage)], expected: Expect) {
    let tasks = tasks
        .iter()
        .map(|(name, usage)| ((*name).to_owned(), (usage.clone(), usage.clone())))
        .collect::<BTreeMap<_, _>>();
    let bytes = alloc_usage(&tasks, Interval { secs: 0.2, mhz_per_core: 1000.0 }, 7);
    let json: Value = serde_json::from_slice(&bytes).expect("it is JSON");
    let line = |name: &str, part: &Value| {
        let usage = &part["ResourceUsage"];
        let (memory, cpu) = (&usage["MemoryStats"], &usage["CpuStats"]);
        let cpu = if cpu.is_null() { "none".to_owned() } else { cpu["Measured"].to_string() };
        format!(
            "{name}: rss {} of {}, cpu {cpu}, devices {}, at {}\n",
            memory["RSS"], memory["Measured"], usage["DeviceStats"], part["Timestamp"]
        )
    };
    let tasks = json["Tasks"].as_object().expect("an object").iter().map(|(name, part)| line(name, part));
    expected.assert_eq(&std::iter::once(line("all", &json)).chain(tasks).collect::<String>());
}

#[test]
fn task_without_a_process_reports_only_memory() {
    check(
        &[("a", TaskUsage::pretended(5)), ("b", TaskUsage::pretended(6))],
        expect![[r#"
            all: rss 11 of ["RSS"], cpu null, devices [], at 7
            a: rss 5 of ["RSS"], cpu none, devices null, at 7
            b: rss 6 of ["RSS"], cpu none, devices null, at 7
        "#]],
    );
}

#[test]
fn alloc_stats_cover_every_measure_of_its_tasks() {
    let processes = Some(Arc::default());
    check(
        &[("a", TaskUsage::pretended(5)), ("b", TaskUsage { rss_bytes: 1, processes, ..TaskUsage::default() })],
        expect![[r#"
            all: rss 6 of ["RSS","Swap"], cpu ["System Mode","User Mode","Percent"], devices [], at 7
            a: rss 5 of ["RSS"], cpu none, devices null, at 7
            b: rss 1 of ["RSS","Swap"], cpu ["System Mode","User Mode","Percent"], devices null, at 7
        "#]],
    );
}

#[test]
fn cgroup_version_1_reports_more_memory_measures() {
    let counted = |per_controller| {
        let counted = CgroupUsage { per_controller, rss_bytes: 3, usage_bytes: 4, ..CgroupUsage::default() };
        TaskUsage::counted(&counted, BTreeMap::new())
    };
    check(
        &[("a", counted(false)), ("b", counted(true))],
        expect![[r#"
            all: rss 6 of ["Cache","Swap","Usage","RSS","Max Usage","Kernel Usage","Kernel Max Usage"], cpu ["System Mode","User Mode","Throttled Periods","Throttled Time","Percent"], devices [], at 7
            a: rss 3 of ["Cache","Swap","Usage"], cpu ["System Mode","User Mode","Throttled Periods","Throttled Time","Percent"], devices null, at 7
            b: rss 3 of ["RSS","Cache","Swap","Usage","Max Usage","Kernel Usage","Kernel Max Usage"], cpu ["System Mode","User Mode","Throttled Periods","Throttled Time","Percent"], devices null, at 7
        "#]],
    );
}

#[test]
fn alloc_without_tasks_has_no_measurements_and_time_zero() {
    check(
        &[],
        expect![[r#"
            all: rss 0 of null, cpu null, devices [], at 0
        "#]],
    );
}

#[test]
fn usage_of_processes_is_their_sum_and_names_each() {
    let stat = |user_ticks, rss_pages| ProcessStat {
        start_ticks: 1,
        group: 1,
        session: 1,
        parent: 1,
        zombie: false,
        user_ticks,
        system_ticks: 2,
        rss_pages,
    };
    let usage = TaskUsage::of_processes(BTreeMap::from([(7, stat(3, 1)), (9, stat(4, 2))]));
    assert_eq!((usage.rss_bytes, usage.user_ticks, usage.system_ticks), (3 * PAGE_BYTES, 7, 4));
    let tasks = BTreeMap::from([("a".to_owned(), (usage.clone(), usage))]);
    let bytes = alloc_usage(&tasks, Interval { secs: 0.2, mhz_per_core: 1000.0 }, 7);
    let json: Value = serde_json::from_slice(&bytes).expect("it is JSON");
    let pids = json["Tasks"]["a"]["Pids"].as_object().expect("an object");
    let shown: Vec<String> = pids.iter().map(|(pid, usage)| format!("{pid} {}", usage["MemoryStats"]["RSS"])).collect();
    assert_eq!(shown, ["7 4096", "9 8192"]);
}
