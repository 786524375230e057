//! Tasks with templates: failures, changes, and kills of tasks that wait for them.

use expect_test::expect;
use songline_model::JobType;

use super::stage::{check, group};

#[test]
fn task_whose_template_fails_is_dead_with_one_event() {
    check(
        group(JobType::Service, "a"),
        "start
         set-up
         fail a Template failed: x
         ready a
         events a
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare a] pending
            fail a Template failed: x: [abort set-up of a] pending
            ready a: [tear down] failed
            events a: 
                Received: Task received by client
                Killing: Template failed: x
            states: a dead failed
        "#]],
    );
}

#[test]
fn running_task_whose_template_fails_is_stopped_for_good() {
    check(
        group(JobType::Service, "a"),
        "start
         set-up
         ready a
         started a
         fail a Template script failed
         exit a 130
         events a
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare a] pending
            ready a: [sync, start a#1] pending
            started a: [] running
            fail a Template script failed: [kill a#1 in 5s] running
            exit a 130: [sync, clear a#1, tear down] failed
            events a: 
                Received: Task received by client
                Started: Task started by client
                Killing: Template script failed
                Terminated: Exit Code: 130
                Killed: Task successfully killed
            states: a dead failed
        "#]],
    );
}

#[test]
fn task_that_waits_for_its_templates_can_be_stopped() {
    check(
        group(JobType::Service, "a"),
        "start
         set-up
         stop
         ready a
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare a] pending
            stop: [abort set-up of a] pending
            ready a: [tear down] complete
            states: a dead
        "#]],
    );
}

#[test]
fn changed_templates_restart_or_signal_a_task_only_while_it_runs() {
    check(
        group(JobType::Service, "a"),
        "start
         set-up
         changed a restart
         changed a SIGHUP
         ready a
         started a
         changed a SIGHUP SIGUSR1
         changed a restart
         changed a SIGHUP
         exit a 130
         wait 1
         events a",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare a] pending
            changed a restart: [] pending
            changed a SIGHUP: [] pending
            ready a: [sync, start a#1] pending
            started a: [] running
            changed a SIGHUP SIGUSR1: [signal a SIGHUP, signal a SIGUSR1] running
            changed a restart: [kill a#1 in 5s] running
            changed a SIGHUP: [] running
            exit a 130: [sync, clear a#1, prepare a] pending
            wait 1: [] pending
            events a: 
                Received: Task received by client
                Started: Task started by client
                Signaling: Template re-rendered
                Signaling: Template re-rendered
                Restart Signaled: Template with change_mode restart re-rendered
                Terminated: Exit Code: 130
                Restarting: Task restarting in 0s
        "#]],
    );
}

#[test]
fn another_vault_token_restarts_or_signals_a_task_only_while_it_runs() {
    check(
        group(JobType::Service, "a"),
        "start
         set-up
         vault a restart
         ready a
         vault a SIGHUP
         started a
         vault a SIGUSR1
         vault a restart
         vault a SIGHUP
         exit a 130
         wait 1
         events a",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare a] pending
            vault a restart: [] pending
            ready a: [sync, start a#1] pending
            vault a SIGHUP: [] pending
            started a: [] running
            vault a SIGUSR1: [signal a SIGUSR1] running
            vault a restart: [kill a#1 in 5s] running
            vault a SIGHUP: [] running
            exit a 130: [sync, clear a#1, prepare a] pending
            wait 1: [] pending
            events a: 
                Received: Task received by client
                Started: Task started by client
                Signaling: Vault: new Vault token acquired
                Restart Signaled: Vault: new Vault token acquired
                Terminated: Exit Code: 130
                Restarting: Task restarting in 0s
        "#]],
    );
}

#[test]
fn restored_task_learns_of_another_vault_token_once_it_is_waited_for() {
    check(
        group(JobType::Service, "a"),
        "restore a=running#3+handle
         found a
         set-up
         vault a restart
         ready a
         exit a 130",
        expect![[r#"
            restore a=running#3+handle: [recover a#3] running
            found a: [set up] running
            set-up: [prepare a] running
            vault a restart: [] running
            ready a: [kill a#3 in 5s] running
            exit a 130: [sync, clear a#3, prepare a] pending
        "#]],
    );
}
