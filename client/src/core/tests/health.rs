//! Health of allocations for their deployments.

use expect_test::expect;
use songline_model::{AllocDeploymentStatus, Allocation, DeploymentId, Dur, JobType, UpdateStrategy};
use std::sync::Arc;

use super::stage::{check, group, with_group};

fn deployed(tasks: &str) -> Allocation {
    let update = UpdateStrategy {
        max_parallel: 1,
        health_check: "task_states".into(),
        min_healthy_time: Dur::from_secs(10),
        healthy_deadline: Dur::from_secs(60),
        ..UpdateStrategy::default()
    };
    let alloc = with_group(group(JobType::Service, tasks), |group| group.update = Some(update));
    let status = AllocDeploymentStatus { canary: true, ..AllocDeploymentStatus::default() };
    Allocation {
        deployment_id: Some(DeploymentId::from_bytes([1; 16])),
        deployment_status: Some(Arc::new(status)),
        ..alloc
    }
}

#[test]
fn alloc_is_healthy_after_min_healthy_time_and_a_restart_begins_anew() {
    check(
        deployed("web init:prestart"),
        "start
         set-up
         ready init
         started init
         exit init 0
         ready web
         started web
         wait 9
         exit web 1
         ready web
         started web
         wait 9.9
         update
         wait 0.1
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare init] pending
            ready init: [sync, start init#1] pending
            started init: [] running
            exit init 0: [sync, clear init#1, prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            wait 9: [] running
            exit web 1: [sync, clear web#1, prepare web] pending
            ready web: [sync, start web#2] pending
            started web: [] running
            wait 9.9: [] running
            update: running "Tasks are running" Some((None, true)) index 10
            wait 0.1: [] running
            update: running "Tasks are running" Some((Some(true), true)) index 10
        "#]],
    );
}

#[test]
fn alloc_is_unhealthy_when_a_task_fails() {
    check(
        deployed("web"),
        "start
         set-up
         unready web broken
         events web
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            unready web broken: [tear down] failed
            events web: 
                Received: Task received by client
                Not Restarting: Error was unrecoverable
                Alloc Unhealthy: Unhealthy because of failed task
            update: failed "Failed tasks" Some((Some(false), true)) index 10
        "#]],
    );
}

#[test]
fn alloc_is_unhealthy_after_its_healthy_deadline() {
    check(
        deployed("web"),
        "start
         set-up
         wait 60
         events web
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            wait 60: [] pending
            events web: 
                Received: Task received by client
                Alloc Unhealthy: Task not running by healthy_deadline of 1m0s
            update: pending "No tasks have started" Some((Some(false), true)) index 10
        "#]],
    );
    check(
        deployed("web"),
        "start
         set-up
         wait 55
         ready web
         started web
         wait 5
         events web
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            wait 55: [] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            wait 5: [] running
            events web: 
                Received: Task received by client
                Started: Task started by client
                Alloc Unhealthy: Task not running for min_healthy_time of 10s by healthy_deadline of 1m0s
            update: running "Tasks are running" Some((Some(false), true)) index 10
        "#]],
    );
}

#[test]
fn health_of_batch_allocs_is_not_watched() {
    check(
        group(JobType::Batch, "web"),
        "start
         set-up
         ready web
         started web
         wait 3600
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            wait 3600: [] running
            update: running "Tasks are running" None index 10
        "#]],
    );
}
