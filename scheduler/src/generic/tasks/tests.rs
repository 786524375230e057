//! Changes of a group that restart its tasks, and changes that do not.

use songline_model::{
    Affinity, Constraint, Dur, EphemeralDisk, Job, LogConfig, NetworkResource, Port, Resources, RestartPolicy, Task,
    TaskGroup, UpdateStrategy,
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
