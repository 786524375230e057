//! Sums of tasks that do not all run at the same time, and checks against a node's capacity.

use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocatedDeviceResource, AllocatedPortMapping, AllocatedResources,
    Allocation, Amount, Node, NodeResources, Str, Task, TaskGroup, TaskLifecycleConfig,
};

use super::{allocs_fit, resources_of_group};

/// `tasks`: name, hook, sidecar, cpu.
fn sum(tasks: &[(&str, &str, bool, i64)]) -> i64 {
    let task = |(name, hook, sidecar, cpu): &(&str, &str, bool, i64)| {
        let lifecycle = (!hook.is_empty()).then(|| TaskLifecycleConfig { hook: Str::from(*hook), sidecar: *sidecar });
        let resources = songline_model::Resources { cpu: *cpu, ..Default::default() };
        Task { name: (*name).into(), lifecycle, resources: Some(resources), ..Task::default() }
    };
    let group = TaskGroup { tasks: Some(tasks.iter().map(task).collect()), ..TaskGroup::default() };
    resources_of_group(&group, false).amount().cpu
}

#[test]
fn tasks_of_different_lifecycle_stages_share_resources() {
    assert_eq!(sum(&[("init", "prestart", false, 700), ("main", "", false, 500)]), 700);
    assert_eq!(sum(&[("log", "prestart", true, 100), ("main", "", false, 500), ("end", "poststop", false, 550)]), 600);
    assert_eq!(sum(&[("log", "prestart", true, 100), ("init", "prestart", false, 450), ("main", "", false, 400)]), 550);
}

#[test]
fn fixed_poststart_tasks_count_beside_main_tasks() {
    assert_eq!(
        sum(&[("main", "", false, 500), ("poll", "poststart", true, 200), ("once", "poststart", false, 50)]),
        750
    );
}

fn node() -> Node {
    let mut resources = NodeResources::default();
    resources.cpu.cpu_shares = 1000;
    resources.memory.memory_mb = 1000;
    resources.disk.disk_mb = 1000;
    Node { node_resources: Some(Arc::new(resources)), ..Node::default() }
}

fn alloc(cpu: i64, port: i64) -> Allocation {
    let mut resources = AllocatedResources::default();
    let mut task = songline_model::AllocatedTaskResources::default();
    task.cpu.cpu_shares = cpu;
    resources.tasks = Some([("t".into(), task)].into());
    if port > 0 {
        resources.shared.ports = Some(vec![AllocatedPortMapping {
            value: port,
            host_ip: "10.0.0.1".into(),
            ..AllocatedPortMapping::default()
        }]);
    }
    Allocation { allocated_resources: Some(Arc::new(resources)), ..Allocation::default() }
}

#[test]
fn exceeded_dimension_is_named() {
    let fit = |allocs: &[Allocation]| allocs_fit(&node(), allocs);
    assert_eq!(fit(&[alloc(600, 0), alloc(400, 0)]), Ok(Amount { cpu: 1000, memory: 0, disk: 0 }));
    assert_eq!(fit(&[alloc(600, 0), alloc(401, 0)]), Err("cpu".into()));
    assert_eq!(fit(&[alloc(1, 80), alloc(1, 80)]), Err("reserved alloc port collision: 80".into()));
    assert!(fit(&[alloc(1, 80), alloc(1, 81)]).is_ok());
}

#[test]
fn only_allocs_terminal_on_the_node_free_their_resources() {
    let complete = Allocation { client_status: AllocClientStatus::Complete, ..alloc(900, 0) };
    let stopping = Allocation { desired_status: AllocDesiredStatus::Stop, ..alloc(900, 0) };
    assert!(allocs_fit(&node(), [&complete, &alloc(500, 0)]).is_ok());
    assert!(allocs_fit(&node(), [&stopping, &alloc(500, 0)]).is_err());
}

#[test]
fn reserved_core_belongs_to_one_alloc() {
    let mut node = node();
    let mut resources = NodeResources::clone(node.node_resources.as_ref().unwrap());
    resources.cpu.total_cpu_cores = 4;
    resources.cpu.reservable_cpu_cores = Some(vec![0, 1, 2]);
    node.node_resources = Some(Arc::new(resources));
    let with = |cores: &[u64]| {
        let mut alloc = alloc(100, 0);
        let mut resources = AllocatedResources::clone(alloc.allocated_resources.as_ref().unwrap());
        resources.tasks.as_mut().unwrap().get_mut("t").unwrap().cpu.reserved_cores = Some(cores.to_vec());
        alloc.allocated_resources = Some(Arc::new(resources));
        alloc
    };
    assert!(allocs_fit(&node, &[with(&[0]), with(&[1, 2])]).is_ok());
    assert_eq!(allocs_fit(&node, &[with(&[0, 1]), with(&[1])]), Err("cores".into()));
    assert_eq!(allocs_fit(&node, &[with(&[3])]), Err("cores".into()));
}

#[test]
fn device_belongs_to_one_alloc() {
    let with = |id: &str| {
        let mut alloc = alloc(100, 0);
        let mut resources = AllocatedResources::clone(alloc.allocated_resources.as_ref().unwrap());
        let device = AllocatedDeviceResource {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            name: "1080ti".into(),
            device_ids: Some(vec![id.into()]),
        };
        resources.tasks.as_mut().unwrap().get_mut("t").unwrap().devices = Some(vec![device]);
        alloc.allocated_resources = Some(Arc::new(resources));
        alloc
    };
    assert!(allocs_fit(&node(), &[with("a1"), with("a2")]).is_ok());
    assert_eq!(allocs_fit(&node(), &[with("a1"), with("a1")]), Err("device oversubscribed".into()));
}
