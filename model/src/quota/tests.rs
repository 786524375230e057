//! Amounts that allocations count with, and the limits that a use exceeds.

use std::sync::Arc;

use super::{QuotaLimit, QuotaSpec, QuotaUsed};
use crate::{
    AllocClientStatus, AllocDesiredStatus, AllocatedResources, AllocatedTaskResources, Allocation, RequestedDevice,
    Resources, Str, TaskLifecycleConfig,
};

/// An alloc with tasks of this hook, whether each is a sidecar, MHz, MiB and maximal MiB.
fn alloc(tasks: &[(&str, bool, i64, i64, i64)]) -> Allocation {
    let mut resources = AllocatedResources::default();
    for (n, (hook, sidecar, cpu, memory, memory_max)) in tasks.iter().enumerate() {
        let mut task = AllocatedTaskResources::default();
        task.cpu.cpu_shares = *cpu;
        task.memory.memory_mb = *memory;
        task.memory.memory_max_mb = *memory_max;
        let name: Str = format!("t{n}").into();
        resources.tasks.get_or_insert_default().insert(name.clone(), task);
        let lifecycle = (!hook.is_empty()).then(|| TaskLifecycleConfig { hook: (*hook).into(), sidecar: *sidecar });
        resources.task_lifecycles.get_or_insert_default().insert(name, lifecycle);
    }
    Allocation { allocated_resources: Some(Arc::new(resources)), ..Allocation::default() }
}

#[test]
fn tasks_that_do_not_run_together_count_with_the_larger_amount() {
    let used = |tasks: &[_]| {
        let used = QuotaUsed::of(&alloc(tasks));
        (used.allocations, used.cpu, used.memory_mb, used.memory_max_mb)
    };
    assert_eq!(used(&[("", false, 100, 10, 0), ("", false, 50, 5, 20)]), (1, 150, 15, 30));
    assert_eq!(used(&[("", false, 100, 10, 0), ("prestart", false, 300, 5, 0)]), (1, 300, 10, 10));
    assert_eq!(used(&[("", false, 100, 10, 0), ("prestart", true, 300, 5, 0)]), (1, 400, 15, 15));
    assert_eq!(used(&[("", false, 100, 10, 0), ("poststop", false, 50, 50, 0)]), (1, 100, 50, 50));
    assert_eq!(used(&[]), (1, 0, 0, 0));
}

#[test]
fn terminal_allocs_count_with_nothing() {
    let running = alloc(&[("", false, 100, 10, 0)]);
    let stopped = Allocation { desired_status: AllocDesiredStatus::Stop, ..running.clone() };
    let lost = Allocation { client_status: AllocClientStatus::Lost, ..running.clone() };
    let unknown = Allocation { client_status: AllocClientStatus::Unknown, ..running };
    assert_eq!([&stopped, &lost, &unknown].map(|alloc| QuotaUsed::of(alloc).is_zero()), [true, true, false]);
}

#[test]
fn use_above_a_limit_is_told_with_the_numbers_only_if_it_grows() {
    let device = |name: &str, count| RequestedDevice { name: name.into(), count, ..RequestedDevice::default() };
    let limit = QuotaLimit {
        region_limit: Some(Resources {
            cpu: 500,
            memory_mb: -1,
            devices: Some(vec![device("gpu", 1), device("amd/gpu", 0)]),
            ..Resources::default()
        }),
        ..QuotaLimit::default()
    };
    let used = |cpu, memory_mb, gpus: i64| {
        let devices = [("nvidia/gpu/t4".into(), gpus)].into();
        QuotaUsed { cpu, memory_mb, cores: 99, devices, ..QuotaUsed::default() }
    };
    let told = |before, after| limit.exceeded(&before, &after).iter().map(Str::to_string).collect::<Vec<_>>();
    assert_eq!(told(used(400, 0, 1), used(500, 0, 1)), Vec::<String>::new());
    assert_eq!(
        told(used(400, 0, 1), used(501, 1, 2)),
        [
            "cpu exhausted (501 needed > 500 limit)",
            "memory exhausted (1 needed > 0 limit)",
            "device gpu exhausted (2 needed > 1 limit)"
        ]
    );
    assert_eq!(told(used(900, 5, 3), used(800, 5, 3)), Vec::<String>::new());
}

#[test]
fn quota_allows_more_when_a_limit_is_raised_or_gone() {
    let quota = |cpu, memory_mb| QuotaSpec {
        limits: Some(vec![QuotaLimit {
            region_limit: Some(Resources { cpu, memory_mb, ..Resources::default() }),
            ..QuotaLimit::default()
        }]),
        ..QuotaSpec::default()
    };
    let more = |new: (i64, i64), old: (i64, i64)| quota(new.0, new.1).allows_more_than(&quota(old.0, old.1));
    assert!(more((200, 50), (100, 50)) && more((0, 50), (100, 50)) && more((50, 60), (100, 50)));
    assert!(more((1, 1), (-1, 1)));
    assert!(!more((100, 50), (100, 50)) && !more((100, 50), (0, 0)) && !more((-1, -1), (1, 1)));
    assert!(QuotaSpec::default().allows_more_than(&quota(1, 0)));
}
