//! One allocation from its arrival to its end.

use expect_test::expect;
use songline_model::{Dur, JobType};

use super::stage::{check, group, with_group};

#[test]
fn a_batch_task_runs_once_and_its_allocation_completes() {
    check(
        group(JobType::Batch, "web"),
        "start
         set-up
         ready web
         started web
         exit web 0
         events web
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            exit web 0: [sync, clear web#1, tear down] complete
            events web: 
                Received: Task received by client
                Started: Task started by client
                Terminated: Exit Code: 0
            update: complete "All tasks have completed" None index 10
        "#]],
    );
}

#[test]
fn a_service_task_restarts_until_its_attempts_are_used_up() {
    check(
        group(JobType::Service, "web"),
        "start
         set-up
         ready web
         started web
         exit web 0
         ready web
         unstarted web no luck
         ready web
         started web
         exit web 1
         events web
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            exit web 0: [sync, clear web#1, prepare web] pending
            ready web: [sync, start web#2] pending
            unstarted web no luck: [prepare web] pending
            ready web: [sync, start web#3] pending
            started web: [] running
            exit web 1: [sync, clear web#3, tear down] failed
            events web: 
                Received: Task received by client
                Started: Task started by client
                Terminated: Exit Code: 0
                Restarting: Task restarting in 0s
                Driver Failure: no luck
                Restarting: Task restarting in 0s
                Started: Task started by client
                Terminated: Exit Code: 1
                Not Restarting: Exceeded allowed attempts 2 in interval 30m0s and mode is "fail"
            states: web dead failed
        "#]],
    );
}

#[test]
fn unrecoverable_failure_ends_the_task_at_once() {
    check(
        group(JobType::Service, "web"),
        "start
         set-up
         unready web no such user
         events web",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            unready web no such user: [tear down] failed
            events web: 
                Received: Task received by client
                Not Restarting: Error was unrecoverable
        "#]],
    );
}

#[test]
fn an_allocation_that_cannot_be_set_up_fails_all_its_tasks() {
    check(
        group(JobType::Service, "web clean:poststop"),
        "start
         set-up disk full
         events web
         states",
        expect![[r#"
            start: [set up] pending
            set-up disk full: [tear down] failed
            events web: 
                Received: Task received by client
                Setup Failure: failed to setup alloc: disk full
            states: clean dead failed, web dead failed
        "#]],
    );
}

#[test]
fn failed_task_stops_its_siblings() {
    check(
        group(JobType::Batch, "a b"),
        "start
         set-up
         ready a
         started a
         ready b
         started b
         exit a 1
         ready a
         started a
         exit a 1
         ready a
         started a
         exit a 1
         events b
         exit b 0
         events b
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare a, prepare b] pending
            ready a: [sync, start a#1] pending
            started a: [] running
            ready b: [sync, start b#1] running
            started b: [] running
            exit a 1: [sync, clear a#1, prepare a] running
            ready a: [sync, start a#2] running
            started a: [] running
            exit a 1: [sync, clear a#2, prepare a] running
            ready a: [sync, start a#3] running
            started a: [] running
            exit a 1: [sync, clear a#3, kill b#1 in 5s] failed
            events b: 
                Received: Task received by client
                Started: Task started by client
                Sibling Task Failed: Task's sibling "a" failed
                Killing: Sent interrupt. Waiting 5s before force killing
            exit b 0: [sync, clear b#1, tear down] failed
            events b: 
                Received: Task received by client
                Started: Task started by client
                Sibling Task Failed: Task's sibling "a" failed
                Killing: Sent interrupt. Waiting 5s before force killing
                Terminated: Exit Code: 0
                Killed: Task successfully killed
            states: a dead failed, b dead
        "#]],
    );
}

#[test]
fn end_of_the_leader_task_stops_the_other_tasks() {
    check(
        group(JobType::Batch, "lead/leader log"),
        "start
         set-up
         ready lead
         started lead
         ready log
         started log
         exit lead 0
         exit log 0
         events log
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare lead, prepare log] pending
            ready lead: [sync, start lead#1] pending
            started lead: [] running
            ready log: [sync, start log#1] running
            started log: [] running
            exit lead 0: [sync, clear lead#1, kill log#1 in 5s] running
            exit log 0: [sync, clear log#1, tear down] complete
            events log: 
                Received: Task received by client
                Started: Task started by client
                Leader Task Dead: Leader Task in Group dead
                Killing: Sent interrupt. Waiting 5s before force killing
                Terminated: Exit Code: 0
                Killed: Task successfully killed
            update: complete "All tasks have completed" None index 10
        "#]],
    );
}

#[test]
fn tasks_run_in_the_order_of_their_stages() {
    check(
        group(JobType::Batch, "init:prestart proxy:prestart/sidecar main after:poststart end:poststop"),
        "start
         set-up
         ready init
         ready proxy
         started init
         started proxy
         exit init 0
         ready main
         started main
         ready after
         started after
         exit after 0
         exit main 0
         exit proxy 0
         events proxy
         ready end
         started end
         exit end 0
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare init, prepare proxy] pending
            ready init: [sync, start init#1] pending
            ready proxy: [sync, start proxy#1] pending
            started init: [] running
            started proxy: [] running
            exit init 0: [sync, clear init#1, prepare main] running
            ready main: [sync, start main#1] running
            started main: [prepare after] running
            ready after: [sync, start after#1] running
            started after: [] running
            exit after 0: [sync, clear after#1] running
            exit main 0: [sync, clear main#1, kill proxy#1 in 5s] running
            exit proxy 0: [sync, clear proxy#1, prepare end] pending
            events proxy: 
                Received: Task received by client
                Started: Task started by client
                Main Tasks Dead: Main tasks in the group died
                Killing: Sent interrupt. Waiting 5s before force killing
                Terminated: Exit Code: 0
                Killed: Task successfully killed
            ready end: [sync, start end#1] pending
            started end: [] running
            exit end 0: [sync, clear end#1, tear down] complete
            states: after dead, end dead, init dead, main dead, proxy dead
        "#]],
    );
}

#[test]
fn failed_prestart_task_keeps_main_from_starting_and_runs_poststop() {
    check(
        group(JobType::Batch, "init:prestart main end:poststop"),
        "start
         set-up
         unready init broken
         events main
         states
         ready end
         started end
         exit end 0
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare init] pending
            unready init broken: [prepare end] failed
            events main: 
                Received: Task received by client
                Sibling Task Failed: Task's sibling "init" failed
                Killing: Sent interrupt. Waiting 5s before force killing
            states: end pending, init dead failed, main dead
            ready end: [sync, start end#1] failed
            started end: [] failed
            exit end 0: [sync, clear end#1, tear down] failed
            states: end dead, init dead failed, main dead
        "#]],
    );
}

#[test]
fn a_stop_ends_the_leader_first_and_sidecars_last_and_then_runs_poststop() {
    check(
        group(JobType::Service, "a lead/leader proxy:prestart/sidecar end:poststop"),
        "start
         set-up
         ready proxy
         started proxy
         ready a
         ready lead
         started a
         started lead
         stop
         exit lead 0
         exit a 0
         exit proxy 0
         ready end
         started end
         exit end 0
         events a
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare proxy] pending
            ready proxy: [sync, start proxy#1] pending
            started proxy: [prepare a, prepare lead] running
            ready a: [sync, start a#1] running
            ready lead: [sync, start lead#1] running
            started a: [] running
            started lead: [] running
            stop: [kill lead#1 in 5s] running
            exit lead 0: [sync, clear lead#1, kill a#1 in 5s] running
            exit a 0: [sync, clear a#1, kill proxy#1 in 5s] running
            exit proxy 0: [sync, clear proxy#1, prepare end] pending
            ready end: [sync, start end#1] pending
            started end: [] running
            exit end 0: [sync, clear end#1, tear down] complete
            events a: 
                Received: Task received by client
                Started: Task started by client
                Killing: Sent interrupt. Waiting 5s before force killing
                Leader Task Dead: Leader Task in Group dead
                Terminated: Exit Code: 0
                Killed: Task successfully killed
            update: complete "All tasks have completed" None index 11
        "#]],
    );
}

#[test]
fn a_stop_during_set_up_starts_nothing() {
    check(
        group(JobType::Service, "web"),
        "start
         stop
         set-up
         states",
        expect![[r#"
            start: [set up] pending
            stop: [abort set-up, tear down] complete
            set-up: [] complete
            states: web dead
        "#]],
    );
}

#[test]
fn a_stop_while_the_driver_starts_the_task_stops_it_once_it_runs() {
    check(
        group(JobType::Service, "web"),
        "start
         set-up
         ready web
         stop
         started web
         exit web 0
         events web",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            stop: [] pending
            started web: [kill web#1 in 5s] running
            exit web 0: [sync, clear web#1, tear down] complete
            events web: 
                Received: Task received by client
                Killing: Sent interrupt. Waiting 5s before force killing
                Started: Task started by client
                Terminated: Exit Code: 0
                Killed: Task successfully killed
        "#]],
    );
}

#[test]
fn a_shutdown_delay_is_waited_for_or_skipped() {
    let story = |stop: &str| {
        format!(
            "start
             set-up
             ready web
             started web
             {stop}
             states
             wait 3
             exit web 0
             events web"
        )
    };
    check(
        group(JobType::Service, "web/3"),
        &story("stop"),
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            stop: [] pending
            states: web pending
            wait 3: [kill web#1 in 5s] pending
            exit web 0: [sync, clear web#1, tear down] complete
            events web: 
                Received: Task received by client
                Started: Task started by client
                Killing: Sent interrupt. Waiting 5s before force killing
                Waiting for shutdown delay: Waiting for shutdown_delay of 3s before killing the task.
                Terminated: Exit Code: 0
                Killed: Task successfully killed
        "#]],
    );
    check(
        group(JobType::Service, "web/3"),
        &story("stop now"),
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            stop now: [kill web#1 in 5s] pending
            states: web pending
            wait 3: [] pending
            exit web 0: [sync, clear web#1, tear down] complete
            events web: 
                Received: Task received by client
                Started: Task started by client
                Killing: Sent interrupt. Waiting 5s before force killing
                Skipping shutdown delay: Skipping shutdown_delay of 3s before killing the task.
                Terminated: Exit Code: 0
                Killed: Task successfully killed
        "#]],
    );
}

#[test]
fn group_shutdown_delay_passes_before_tasks_are_stopped() {
    check(
        with_group(group(JobType::Service, "web"), |group| group.shutdown_delay = Some(Dur::from_secs(4))),
        "start
         set-up
         ready web
         started web
         stop
         wait 3.9
         wait 0.1
         exit web 0",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            stop: [] running
            wait 3.9: [] running
            wait 0.1: [kill web#1 in 5s] running
            exit web 0: [sync, clear web#1, tear down] complete
        "#]],
    );
}

#[test]
fn group_shutdown_delay_passes_although_no_task_runs() {
    check(
        with_group(group(JobType::Service, "web"), |group| {
            group.shutdown_delay = Some(Dur::from_secs(4));
            group.restart_policy.as_mut().expect("has a policy").delay = Dur::from_mins(1);
        }),
        "start
         set-up
         ready web
         started web
         exit web 1
         stop
         wait 3.9
         wait 0.1
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            exit web 1: [sync, clear web#1] pending
            stop: [] pending
            wait 3.9: [] pending
            wait 0.1: [tear down] complete
            states: web dead
        "#]],
    );
}

/// If an agent was killed between the two in the other order, the next one would find neither a record of the end nor
/// the run, and would start a completed task again.
#[test]
fn the_end_of_a_run_is_on_disk_before_its_directory_is_removed() {
    check(
        group(JobType::Batch, "web"),
        "start
         set-up
         ready web
         started web
         exit web 0",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            exit web 0: [sync, clear web#1, tear down] complete
        "#]],
    );
}
