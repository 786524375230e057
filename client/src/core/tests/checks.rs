//! Checks of services: their runs, their results, and what these mean for deployments and tasks.

use std::sync::Arc;

use expect_test::expect;
use songline_model::{
    AllocDeploymentStatus, Allocation, DeploymentId, Dur, JobType, Service, ServiceCheck, UpdateStrategy,
};

use super::stage::{check, group, told, with_group};

/// A group with a service that has a check. The plans of a story say which checks there are.
fn checked(tasks: &str) -> Allocation {
    let service =
        Service { provider: "nomad".into(), checks: Some(vec![ServiceCheck::default()]), ..Service::default() };
    with_group(group(JobType::Service, tasks), |group| group.services = Some(vec![service]))
}

fn deployed() -> Allocation {
    let update = UpdateStrategy {
        max_parallel: 1,
        health_check: "checks".into(),
        min_healthy_time: Dur::from_secs(10),
        healthy_deadline: Dur::from_secs(60),
        ..UpdateStrategy::default()
    };
    Allocation {
        deployment_id: Some(DeploymentId::from_bytes([1; 16])),
        deployment_status: Some(Arc::new(AllocDeploymentStatus::default())),
        ..with_group(checked("web"), |group| group.update = Some(update))
    }
}

#[test]
fn check_runs_after_half_an_interval_then_every_interval_until_the_stop() {
    check(
        checked("web"),
        "start
         set-up
         plan a b/ignore
         ready web
         started web
         results
         wait 0.9
         wait 0.1
         checked a passed
         results
         wait 3
         checked a failed
         checked b failed
         results
         wait 0.1
         stop
         results
         checked a passed
         results",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, plan checks, announce the group] pending
            plan a b/ignore: [] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            results: a healthiness pending, b readiness pending
            wait 0.9: [] running
            wait 0.1: [check a, check b] running
            checked a passed: [] running
            results: a healthiness success, b readiness pending
            wait 3: [check a] running
            checked a failed: [] running
            checked b failed: [check b] running
            results: a healthiness failure, b readiness failure
            wait 0.1: [] running
            stop: [withdraw the group, kill web#1 in 5s] running
            results: 
            checked a passed: [] running
            results: 
        "#]],
    );
}

#[test]
fn check_that_stays_in_an_update_keeps_its_result_and_others_go() {
    check(
        checked("web"),
        "start
         set-up
         plan a b
         wait 1
         checked a passed
         update-copy
         plan a c
         checked b passed
         results
         wait 1
         wait 1",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, plan checks, announce the group] pending
            plan a b: [] pending
            wait 1: [check a, check b] pending
            checked a passed: [] pending
            update-copy: [plan checks, announce the group] pending
            plan a c: [] pending
            checked b passed: [] pending
            results: a healthiness success, c healthiness pending
            wait 1: [check c] pending
            wait 1: [check a] pending
        "#]],
    );
}

#[test]
fn alloc_is_healthy_after_its_checks_pass_for_min_healthy_time() {
    check(
        deployed(),
        "start
         set-up
         plan a b/ignore
         ready web
         started web
         wait 1
         checked a passed
         update
         checked b failed
         wait 9
         checked a failed
         wait 2
         checked a passed
         wait 9.9
         update
         wait 0.1
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, plan checks, announce the group] pending
            plan a b/ignore: [] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            wait 1: [check a, check b] running
            checked a passed: [] running
            update: running "Tasks are running" Some((None, false)) index 10
            checked b failed: [] running
            wait 9: [check a, check b] running
            checked a failed: [] running
            wait 2: [check a] running
            checked a passed: [] running
            wait 9.9: [check a] running
            update: running "Tasks are running" Some((None, false)) index 10
            wait 0.1: [] running
            update: running "Tasks are running" Some((Some(true), false)) index 10
        "#]],
    );
}

#[test]
fn alloc_whose_check_fails_until_the_deadline_is_unhealthy() {
    check(
        deployed(),
        "start
         set-up
         ready web
         started web
         plan a
         wait 1
         checked a failed
         wait 59
         update
         events web",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, plan checks, announce the group] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            plan a: [] running
            wait 1: [check a] running
            checked a failed: [] running
            wait 59: [check a] running
            update: running "Tasks are running" Some((Some(false), false)) index 10
            events web: 
                Received: Task received by client
                Started: Task started by client
                Alloc Unhealthy: Task not running for min_healthy_time of 10s by healthy_deadline of 1m0s
        "#]],
    );
}

#[test]
fn tasks_restart_when_a_check_of_their_group_fails_to_its_limit() {
    check(
        checked("web side"),
        "start
         set-up
         plan a/limit=2
         ready web
         ready side
         started web
         started side
         wait 1
         checked a failed
         wait 2
         checked a failed
         wait 1
         wait 1
         events side
         exit web 1
         exit side 1
         ready web
         ready side
         started web
         started side
         wait 2
         checked a passed
         wait 3
         checked a failed
         wait 1
         wait 1",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare side, prepare web, plan checks, announce the group] pending
            plan a/limit=2: [] pending
            ready web: [sync, start web#1] pending
            ready side: [sync, start side#1] pending
            started web: [] running
            started side: [] running
            wait 1: [check a] running
            checked a failed: [] running
            wait 2: [check a] running
            checked a failed: [] running
            wait 1: [] running
            wait 1: [withdraw the group, kill side#1 in 5s, kill web#1 in 5s, check a, announce the group] running
            events side: 
                Received: Task received by client
                Started: Task started by client
                Restart Signaled: healthcheck: check "a" unhealthy
            exit web 1: [sync, clear web#1, prepare web] running
            exit side 1: [sync, clear side#1, prepare side] pending
            ready web: [sync, start web#2] pending
            ready side: [sync, start side#2] pending
            started web: [] running
            started side: [] running
            wait 2: [] running
            checked a passed: [check a] running
            wait 3: [] running
            checked a failed: [check a] running
            wait 1: [] running
            wait 1: [] running
        "#]],
    );
}

#[test]
fn task_restarts_again_when_its_own_check_still_fails_after_a_restart() {
    check(
        checked("web side"),
        "start
         set-up
         plan a/web/limit=1
         ready web
         ready side
         started side
         wait 5
         started web
         checked a failed
         wait 1
         wait 2
         wait 3
         exit web 1
         ready web
         wait 5
         started web
         wait 1
         wait 2
         wait 2",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare side, prepare web, plan checks, announce the group] pending
            plan a/web/limit=1: [] pending
            ready web: [sync, start web#1] pending
            ready side: [sync, start side#1] pending
            started side: [] running
            wait 5: [check a] running
            started web: [] running
            checked a failed: [] running
            wait 1: [] running
            wait 2: [kill web#1 in 5s, check a] running
            wait 3: [] running
            exit web 1: [sync, clear web#1, prepare web] running
            ready web: [sync, start web#2] running
            wait 5: [] running
            started web: [] running
            wait 1: [] running
            wait 2: [kill web#2 in 5s] running
            wait 2: [] running
        "#]],
    );
}

#[test]
fn restored_checks_are_planned_again() {
    check(
        checked("web"),
        "restore web=running#1+handle
         found web
         set-up
         plan a
         results",
        expect![[r#"
            restore web=running#1+handle: [recover web#1] running
            found web: [set up] running
            set-up: [prepare web, plan checks, announce the group] running
            plan a: [] running
            results: a healthiness pending
        "#]],
    );
}

#[test]
fn checks_at_consul_make_the_alloc_healthy_once_consul_has_them_all() {
    check(
        deployed(),
        "start
         set-up
         plan a/consul/ignore_warnings b/consul/ignore
         results
         ready web
         started web
         checked a warned
         checked b missing
         wait 0.5
         wait 20
         checked a warned
         checked b failed
         wait 10
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, plan checks, announce the group] pending
            plan a/consul/ignore_warnings b/consul/ignore: [check a, check b] pending
            results: 
            ready web: [sync, start web#1] pending
            started web: [] running
            checked a warned: [] running
            checked b missing: [] running
            wait 0.5: [check a, check b] running
            wait 20: [] running
            checked a warned: [check a] running
            checked b failed: [check b] running
            wait 10: [] running
            update: running "Tasks are running" Some((Some(true), false)) index 10
        "#]],
    );
}

#[test]
fn check_at_consul_restarts_tasks_when_it_fails_and_not_while_it_is_missing() {
    check(
        checked("web"),
        "start
         set-up
         plan a/consul/limit=1
         ready web
         started web
         checked a missing
         wait 4
         checked a missing
         wait 4
         checked a failed
         wait 1",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, plan checks, announce the group] pending
            plan a/consul/limit=1: [check a] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            checked a missing: [] running
            wait 4: [check a] running
            checked a missing: [] running
            wait 4: [check a] running
            checked a failed: [] running
            wait 1: [withdraw the group, kill web#1 in 5s, check a, announce the group] running
        "#]],
    );
}

#[test]
fn restart_that_a_user_asks_for_is_no_failure_although_one_of_a_check_waits() {
    check(
        with_group(checked("web"), |group| {
            group.shutdown_delay = Some(Dur::from_secs(3));
            group.restart_policy.as_mut().expect("has a policy").attempts = 0;
        }),
        "start
         set-up
         plan a/consul/limit=1
         ready web
         started web
         checked a missing
         wait 4
         checked a failed
         wait 1
         restart running
         wait 3
         exit web 0
         events web",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, plan checks, announce the group] pending
            plan a/consul/limit=1: [check a] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            checked a missing: [] running
            wait 4: [check a] running
            checked a failed: [] running
            wait 1: [withdraw the group, check a] running
            restart running: [] running
            wait 3: [kill web#1 in 5s, announce the group] running
            exit web 0: [sync, clear web#1, prepare web] pending
            events web: 
                Received: Task received by client
                Started: Task started by client
                Restart Signaled: please
                Terminated: Exit Code: 0
                Restarting: Task restarting in 0s
        "#]],
    );
}

#[test]
fn checks_go_on_while_a_restart_waits_for_the_shutdown_delay_of_the_group() {
    check(
        with_group(checked("web"), |group| group.shutdown_delay = Some(Dur::from_secs(3))),
        "start
         set-up
         plan a/consul/limit=1
         ready web
         started web
         checked a missing
         wait 4
         checked a failed
         wait 1
         checked a failed
         wait 1
         wait 2",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, plan checks, announce the group] pending
            plan a/consul/limit=1: [check a] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            checked a missing: [] running
            wait 4: [check a] running
            checked a failed: [] running
            wait 1: [withdraw the group, check a] running
            checked a failed: [] running
            wait 1: [check a] running
            wait 2: [kill web#1 in 5s, announce the group] running
        "#]],
    );
}

/// Events of the task of an allocation whose checks in Consul end like this before the deadline.
fn late(plans: &str, checked: &str) -> String {
    let story = format!(
        "start
         set-up
         plan {plans}
         ready web
         started web
         {checked}
         wait 60
         events web"
    );
    told(deployed(), &story).lines().last().unwrap_or_default().trim().to_owned()
}

#[test]
fn unhealthy_checks_at_consul_are_told_in_the_tasks_event() {
    let plans = "a/consul b/web/consul c/other/consul";
    let stories = [
        late(plans, "checked a failed\nchecked b passed"),
        late(plans, "checked a passed\nchecked b missing"),
        late(plans, "checked a missing\nchecked b missing"),
        late("a/consul/ignore b/web/consul", "checked a failed\nchecked b warned"),
        late("a b/web", "wait 1\nchecked a failed\nchecked b passed"),
    ];
    expect![[r#"
        Alloc Unhealthy: Services not healthy by deadline: service
        Alloc Unhealthy: Only 1 out of 2 checks registered and passing
        Alloc Unhealthy: Service checks not registered
        Alloc Unhealthy: Services not healthy by deadline: service
        Alloc Unhealthy: Task not running for min_healthy_time of 10s by healthy_deadline of 1m0s"#]]
    .assert_eq(&stories.join("\n"));
}
