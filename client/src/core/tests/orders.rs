//! Requests of users and servers to a running allocation: restarts, signals, destruction, reconnects.

use expect_test::expect;
use songline_model::JobType;

use super::stage::{check, group};
use crate::core::signalled;

#[test]
fn restart_of_running_tasks_leaves_ended_tasks_alone() {
    check(
        group(JobType::Batch, "a b"),
        "start
         set-up
         ready a
         started a
         restart b
         restart nobody
         ready b
         started b
         exit a 0
         restart a
         restart running
         exit b 0
         ready b
         events b
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare a, prepare b] pending
            ready a: [sync, start a#1] pending
            started a: [] running
            restart b: error "Task not running"
            restart nobody: error "Could not find task runner for task: nobody"
            ready b: [sync, start b#1] running
            started b: [] running
            exit a 0: [sync, clear a#1] running
            restart a: error "Task not running"
            restart running: [kill b#1 in 5s] running
            exit b 0: [sync, clear b#1, prepare b] pending
            ready b: [sync, start b#2] pending
            events b: 
                Received: Task received by client
                Started: Task started by client
                Restart Signaled: please
                Terminated: Exit Code: 0
                Restarting: Task restarting in 0s
            states: a dead, b pending
        "#]],
    );
}

#[test]
fn restart_of_all_tasks_reruns_ended_ones_in_lifecycle_order() {
    check(
        group(JobType::Batch, "init:prestart main"),
        "start
         set-up
         ready init
         started init
         exit init 0
         ready main
         started main
         restart all
         exit main 0
         states
         ready init
         started init
         exit init 0
         ready main
         started main
         exit main 0
         restart all",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare init] pending
            ready init: [sync, start init#1] pending
            started init: [] running
            exit init 0: [sync, clear init#1, prepare main] pending
            ready main: [sync, start main#1] pending
            started main: [] running
            restart all: [kill main#1 in 5s] running
            exit main 0: [sync, clear main#1, prepare init] pending
            states: init pending, main pending
            ready init: [sync, start init#2] pending
            started init: [] running
            exit init 0: [sync, clear init#2, prepare main] pending
            ready main: [sync, start main#2] pending
            started main: [] running
            exit main 0: [sync, clear main#2, tear down] complete
            restart all: error "restart of an alloc that should not run"
        "#]],
    );
}

#[test]
fn signal_reaches_only_a_running_task() {
    check(
        group(JobType::Batch, "a b"),
        "start
         set-up
         ready a
         started a
         signal a SIGHUP
         signal b SIGHUP
         signal nobody SIGHUP
         events a",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare a, prepare b] pending
            ready a: [sync, start a#1] pending
            started a: [] running
            signal a SIGHUP: [signal a SIGHUP] running
            signal b SIGHUP: error "Task not running"
            signal nobody SIGHUP: error "Task not found"
            events a: 
                Received: Task received by client
                Started: Task started by client
                Signaling: Task being sent a signal
        "#]],
    );
}

#[test]
fn signal_to_all_tasks_reaches_the_running_ones_and_names_the_others() {
    check(
        group(JobType::Batch, "init:prestart main end:poststop"),
        "start
         set-up
         ready init
         started init
         exit init 0
         ready main
         started main
         signal all SIGUSR1
         events main
         events init",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare init] pending
            ready init: [sync, start init#1] pending
            started init: [] running
            exit init 0: [sync, clear init#1, prepare main] pending
            ready main: [sync, start main#1] pending
            started main: [] running
            signal all SIGUSR1: [signal main SIGUSR1] running, error "2 errors occurred:\n\t* Failed to signal task: end, err: Task not running\n\t* Failed to signal task: init, err: Task not running\n\n"
            events main: 
                Received: Task received by client
                Started: Task started by client
                Signaling: Task being sent a signal
            events init: 
                Received: Task received by client
                Started: Task started by client
                Terminated: Exit Code: 0
        "#]],
    );
}

#[test]
fn destroying_an_alloc_stops_its_tasks_first() {
    check(
        group(JobType::Service, "web"),
        "start
         set-up
         ready web
         started web
         destroy
         exit web 137",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            destroy: [kill web#1 in 5s] running
            exit web 137: [clear web#1, tear down, destroy] complete
        "#]],
    );
}

#[test]
fn reconnect_adds_a_task_event_and_takes_the_new_modify_index() {
    check(
        group(JobType::Service, "web"),
        "start
         set-up
         ready web
         started web
         reconnect
         events web
         update",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            reconnect: [] running
            events web: 
                Received: Task received by client
                Started: Task started by client
                Reconnected: Client reconnected
            update: running "Tasks are running" None index 99
        "#]],
    );
}

#[test]
fn failed_signals_are_told_with_their_tasks_only_where_no_task_was_named() {
    let failed = |names: &[&str]| names.iter().map(|name| ((*name).into(), "no way".to_owned())).collect();
    assert_eq!(signalled("a", failed(&["a"])), Err("no way".to_owned()));
    assert_eq!(signalled("", failed(&[])), Ok(()));
    assert_eq!(
        signalled("", failed(&["a", "b"])),
        Err("2 errors occurred:\n\t* Failed to signal task: a, err: no way\n\t* Failed to signal task: b, err: no way\n\n"
            .to_owned())
    );
}
