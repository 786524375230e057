//! Changes of a group that restart its tasks, and changes that do not.

use songline_model::{
    Affinity, Constraint, ConsulConnect, ConsulGateway, ConsulSidecarService, Dur, EphemeralDisk, Job, LogConfig,
    NetworkResource, Port, Resources, RestartPolicy, Service, SidecarTask, Task, TaskGroup, UpdateStrategy,
};

use super::tasks_updated;

fn job(change: impl FnOnce(&mut Job, &mut TaskGroup, &mut Task)) -> Job {
    let mut job = Job::default();
    let port = Port { label: "http".into(), value: 25_000, ..Port::default() };
    let network = NetworkResource { dynamic_ports: Some(vec![port]), ..NetworkResource::default() };
    let mut group = TaskGroup { name: "g".into(), networks: Some(vec![network]), ..TaskGroup::default() };
    let mut task =
        Task { name: "t".into(), resources: Some(Resources { cpu: 100, ..Resources::default() }), ..Task::default() };
    change(&mut job, &mut group, &mut task);
    group.tasks.get_or_insert_default().insert(0, task);
    job.task_groups = Some(vec![group]);
    job
}

#[track_caller]
fn restarts(expected: bool, change: impl FnOnce(&mut Job, &mut TaskGroup, &mut Task)) {
    assert_eq!(tasks_updated(&job(|_, _, _| {}), &job(change), "g"), expected);
}

fn port(group: &mut TaskGroup) -> &mut Port {
    &mut group.networks.as_mut().unwrap()[0].dynamic_ports.as_mut().unwrap()[0]
}

/// Whether a change of the group's only service, which has a sidecar, restarts the tasks.
#[track_caller]
fn connect_restarts(expected: bool, change: impl FnOnce(&mut Service, &mut ConsulConnect)) {
    let sidecar = ConsulSidecarService { port: "proxy".into(), ..ConsulSidecarService::default() };
    let mut connect = ConsulConnect { sidecar_service: Some(sidecar), ..ConsulConnect::default() };
    let mut service = Service { name: "web".into(), port_label: "http".into(), ..Service::default() };
    let with = |service: &Service, connect: &ConsulConnect| {
        let service = Service { connect: Some(connect.clone()), ..service.clone() };
        job(|_, group, _| group.services = Some(vec![service]))
    };
    let old = with(&service, &connect);
    change(&mut service, &mut connect);
    assert_eq!(tasks_updated(&old, &with(&service, &connect), "g"), expected);
}

#[test]
fn change_that_a_task_can_see_restarts_the_task() {
    restarts(true, |_, _, task| task.driver = "exec".into());
    restarts(true, |_, _, task| task.user = "nobody".into());
    restarts(true, |_, _, task| task.env = Some([("A".into(), "1".into())].into()));
    restarts(true, |_, _, task| task.config = Some([("command".into(), "x".into())].into()));
    restarts(true, |job, _, _| job.meta = Some([("m".into(), "1".into())].into()));
    restarts(true, |_, _, task| task.name = "other".into());
    restarts(true, |_, group, _| group.tasks = Some(vec![Task::default()]));
    restarts(true, |_, _, task| task.resources.as_mut().unwrap().cpu = 200);
    restarts(true, |_, _, task| task.log_config = Some(LogConfig { disabled: true, ..LogConfig::default() }));
    restarts(true, |_, group, _| group.ephemeral_disk = Some(EphemeralDisk { size_mb: 1, ..EphemeralDisk::default() }));
    restarts(true, |_, group, _| port(group).to = 80);
    restarts(true, |_, group, _| {
        group.restart_policy = Some(RestartPolicy { render_templates: true, ..RestartPolicy::default() })
    });
}

#[test]
fn change_that_only_servers_see_does_not_restart_the_task() {
    restarts(false, |_, _, _| {});
    restarts(false, |job, _, _| job.priority = 80);
    restarts(false, |_, group, _| group.count = 7);
    restarts(false, |job, _, _| job.constraints = Some(vec![Constraint::default()]));
    restarts(false, |_, group, _| group.update = Some(UpdateStrategy { max_parallel: 3, ..UpdateStrategy::default() }));
    restarts(false, |_, _, task| task.kill_timeout = Dur(9));
    restarts(false, |_, _, task| task.log_config = Some(LogConfig { max_files: 3, ..LogConfig::default() }));
    restarts(false, |_, _, task| task.env = Some(std::collections::BTreeMap::new()));
    restarts(false, |_, group, _| port(group).value = 26_000);
    restarts(false, |_, group, _| group.meta = None);
}

#[test]
fn fixed_affinity_and_spread_changes_do_not_restart_the_task() {
    restarts(false, |job, _, _| job.affinities = Some(vec![Affinity::default()]));
    restarts(false, |_, group, _| group.spreads = Some(vec![songline_model::Spread::default()]));
}

#[test]
fn change_of_connect_restarts_the_tasks() {
    connect_restarts(false, |_, _| {});
    connect_restarts(true, |service, _| service.port_label = "admin".into());
    connect_restarts(true, |service, _| service.name = "other".into());
    connect_restarts(true, |_, connect| connect.native = true);
    connect_restarts(true, |_, connect| connect.gateway = Some(ConsulGateway::default()));
    connect_restarts(true, |_, connect| connect.sidecar_task = Some(SidecarTask::default()));
    connect_restarts(true, |_, connect| connect.sidecar_service.as_mut().unwrap().port = "other".into());
    connect_restarts(true, |_, connect| connect.sidecar_service = None);
}

#[test]
fn change_of_what_consul_alone_sees_does_not_restart_the_tasks() {
    connect_restarts(false, |service, _| service.tags = Some(vec!["blue".into()]));
    connect_restarts(false, |_, connect| connect.sidecar_service.as_mut().unwrap().tags = Some(vec!["blue".into()]));
    connect_restarts(false, |_, connect| connect.sidecar_service.as_mut().unwrap().disable_default_tcp_check = true);
}

#[test]
fn connect_that_a_service_loses_restarts_the_tasks_and_one_that_it_gains_does_not() {
    let with = |connect: Option<ConsulConnect>| {
        let service = Service { name: "web".into(), connect, ..Service::default() };
        job(|_, group, _| group.services = Some(vec![service]))
    };
    let native = || with(Some(ConsulConnect { native: true, ..ConsulConnect::default() }));
    let without_service = || job(|_, _, _| {});
    assert!(tasks_updated(&native(), &with(None), "g"));
    assert!(tasks_updated(&native(), &without_service(), "g"));
    assert!(!tasks_updated(&with(None), &native(), "g"));
    assert!(!tasks_updated(&without_service(), &native(), "g"));
}
