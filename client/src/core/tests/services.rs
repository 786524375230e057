//! Announcing and withdrawing services.

use expect_test::expect;
use songline_model::{Allocation, Dur, JobType, Service};

use super::stage::{check, group, with_group};

fn with_services(alloc: Allocation) -> Allocation {
    let service = |name: &str| Service { name: name.into(), provider: "nomad".into(), ..Service::default() };
    with_group(alloc, |group| {
        group.services = Some(vec![service("all")]);
        for task in group.tasks.iter_mut().flatten() {
            task.services = Some(vec![service(&task.name)]);
        }
    })
}

#[test]
fn services_are_withdrawn_before_anything_is_stopped() {
    check(
        with_services(group(JobType::Service, "web/3 db")),
        "start
         set-up
         ready web
         started web
         ready db
         started db
         update-copy
         stop
         wait 3
         exit web 0
         exit db 0",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare db, prepare web, announce the group] pending
            ready web: [sync, start web#1] pending
            started web: [announce web] running
            ready db: [sync, start db#1] running
            started db: [announce db] running
            update-copy: [announce the group, announce db, announce web] running
            stop: [withdraw the group, withdraw db, withdraw web, kill db#1 in 5s] running
            wait 3: [kill web#1 in 5s] running
            exit web 0: [sync, clear web#1] running
            exit db 0: [sync, clear db#1, tear down] complete
        "#]],
    );
}

#[test]
fn services_of_a_restarting_task_are_withdrawn_until_it_runs() {
    check(
        with_services(group(JobType::Service, "web")),
        "start
         set-up
         ready web
         started web
         exit web 1
         ready web
         started web
         restart web
         exit web 0",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, announce the group] pending
            ready web: [sync, start web#1] pending
            started web: [announce web] running
            exit web 1: [sync, withdraw web, clear web#1, prepare web] pending
            ready web: [sync, start web#2] pending
            started web: [announce web] running
            restart web: [withdraw web, kill web#2 in 5s] running
            exit web 0: [sync, clear web#2, prepare web] pending
        "#]],
    );
}

#[test]
fn services_of_a_group_are_announced_again_when_its_tasks_restart() {
    check(
        with_services(group(JobType::Service, "web")),
        "start
         set-up
         ready web
         started web
         restart running
         exit web 0
         ready web
         started web",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, announce the group] pending
            ready web: [sync, start web#1] pending
            started web: [announce web] running
            restart running: [withdraw the group, withdraw web, kill web#1 in 5s, announce the group] running
            exit web 0: [sync, clear web#1, prepare web] pending
            ready web: [sync, start web#2] pending
            started web: [announce web] running
        "#]],
    );
}

#[test]
fn restart_of_several_tasks_waits_for_the_shutdown_delay_of_the_group_and_a_stop_drops_it() {
    check(
        with_group(with_services(group(JobType::Service, "web")), |group| {
            group.shutdown_delay = Some(Dur::from_secs(4));
        }),
        "start
         set-up
         ready web
         started web
         restart running
         events web
         wait 3.9
         wait 0.1
         exit web 0
         ready web
         started web
         restart all
         wait 2
         stop
         wait 3.9
         wait 0.1
         exit web 0",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web, announce the group] pending
            ready web: [sync, start web#1] pending
            started web: [announce web] running
            restart running: [withdraw the group] running
            events web: 
                Received: Task received by client
                Started: Task started by client
            wait 3.9: [] running
            wait 0.1: [withdraw web, kill web#1 in 5s, announce the group] running
            exit web 0: [sync, clear web#1, prepare web] pending
            ready web: [sync, start web#2] pending
            started web: [announce web] running
            restart all: [withdraw the group] running
            wait 2: [] running
            stop: [] running
            wait 3.9: [] running
            wait 0.1: [withdraw web, kill web#2 in 5s] running
            exit web 0: [sync, clear web#2, tear down] complete
        "#]],
    );
}

#[test]
fn a_group_that_cannot_be_set_up_announces_nothing() {
    check(
        with_services(group(JobType::Service, "web")),
        "start
         set-up no room
         destroy",
        expect![[r#"
            start: [set up] pending
            set-up no room: [tear down] failed
            destroy: [destroy] failed
        "#]],
    );
}

#[test]
fn restored_alloc_announces_services_of_live_tasks_and_withdraws_others() {
    check(
        with_services(group(JobType::Service, "web db")),
        "restore web=running#3+handle db=dead#1+complete
         found web
         set-up
         ready web
         exit web 0",
        expect![[r#"
            restore web=running#3+handle db=dead#1+complete: [recover web#3] running
            found web: [withdraw db, set up, announce web] running
            set-up: [prepare web, announce the group] running
            ready web: [] running
            exit web 0: [sync, withdraw web, clear web#3, prepare web] pending
        "#]],
    );
    check(
        with_services(group(JobType::Batch, "web")),
        "restore web=dead#1+complete",
        expect![[r#"
        restore web=dead#1+complete: [withdraw the group, withdraw web, tear down] complete
    "#]],
    );
}
