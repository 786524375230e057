//! Each feature of the list is detected in a job that uses it, and none in a plain job.

use songline_model::{
    Job, JobType, ParameterizedJobConfig, PeriodicConfig, Resources, Task, TaskGroup, UpdateStrategy, Vault,
    WorkloadIdentity,
};

use super::{FEATURES, missing};

fn seen(change: impl FnOnce(&mut Job, &mut TaskGroup, &mut Task)) -> Vec<String> {
    let mut job = Job { kind: JobType::Service, ..Job::default() };
    let mut group =
        TaskGroup { update: Some(UpdateStrategy { max_parallel: 1, ..Default::default() }), ..TaskGroup::default() };
    let mut task = Task {
        identity: Some(WorkloadIdentity { env: true, file: true }),
        resources: Some(Resources::default()),
        ..Task::default()
    };
    change(&mut job, &mut group, &mut task);
    group.tasks = Some(vec![task]);
    missing(&job, &group).iter().map(ToString::to_string).collect()
}

#[test]
fn plain_job_uses_no_unbuilt_feature() {
    assert!(seen(|_, _, _| {}).is_empty());
    for kind in [JobType::Batch, JobType::System, JobType::SysBatch] {
        assert!(seen(|job, _, _| job.kind = kind).is_empty());
    }
    // Periodic and parameterized jobs are not evaluated themselves; a dry run shows the plan of one of their child
    // jobs.
    assert!(seen(|job, _, _| job.periodic = Some(PeriodicConfig::default())).is_empty());
    assert!(seen(|job, _, _| job.parameterized_job = Some(ParameterizedJobConfig::default())).is_empty());
}

#[test]
fn every_unbuilt_feature_is_detected_where_it_is_used() {
    let used: Vec<(&str, Vec<String>)> = vec![
        ("vault", seen(|_, _, task| task.vault = Some(Vault::default()))),
        ("connect", seen(|_, _, task| task.kind = "connect-proxy:web".into())),
    ];
    for feature in FEATURES {
        let stories: Vec<_> = used.iter().filter(|(name, _)| *name == feature.name).collect();
        assert!(!stories.is_empty(), "no story of {}", feature.name);
        for (name, seen) in stories {
            assert_eq!(*seen, [format!("{name} is not built yet")]);
        }
    }
}
