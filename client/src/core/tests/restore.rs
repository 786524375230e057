//! Restoring the state that an earlier agent left, and beginning with a state that only the servers have.

use std::sync::Arc;

use expect_test::expect;
use songline_model::{AllocDesiredStatus, Allocation, JobType, TaskRunState, TaskState};

use super::stage::{check, group};

#[test]
fn recovered_process_continues_without_a_task_event() {
    check(
        group(JobType::Service, "web"),
        "restore web=running#3+handle
         found web
         set-up
         ready web
         events web
         exit web 1
         ready web",
        expect![[r#"
            restore web=running#3+handle: [recover web#3] running
            found web: [set up] running
            set-up: [prepare web] running
            ready web: [] running
            events web: 
            exit web 1: [sync, clear web#3, prepare web] pending
            ready web: [sync, start web#4] pending
        "#]],
    );
}

#[test]
fn unanswered_start_is_recovered_or_repeated_after_an_agent_restart() {
    let story = |answer: &str| {
        format!(
            "restore web=pending#3
             {answer} web
             set-up
             ready web
             events web"
        )
    };
    check(
        group(JobType::Service, "web"),
        &story("found"),
        expect![[r#"
        restore web=pending#3: [recover web#3] pending
        found web: [set up] pending
        set-up: [prepare web] pending
        ready web: [] running
        events web: 
            Started: Task started by client
    "#]],
    );
    check(
        group(JobType::Service, "web"),
        &story("missing"),
        expect![[r#"
        restore web=pending#3: [recover web#3] pending
        missing web: [set up] pending
        set-up: [prepare web] pending
        ready web: [sync, start web#4] pending
        events web: 
    "#]],
    );
}

#[test]
fn a_lost_process_waits_for_the_servers_unless_its_job_is_a_system_job() {
    let story = "restore web=running#3+handle
         lost web
         set-up
         events web
         contact";
    check(
        group(JobType::Service, "web"),
        story,
        expect![[r#"
            restore web=running#3+handle: [recover web#3] running
            lost web: [sync, clear web#3, set up] pending
            set-up: [] pending
            events web: 
                Failed Restoring Task: failed to restore task; will not run until server is contacted
            contact: [prepare web] pending
        "#]],
    );
    check(
        group(JobType::System, "web"),
        story,
        expect![[r#"
            restore web=running#3+handle: [recover web#3] running
            lost web: [sync, clear web#3, set up] pending
            set-up: [prepare web] pending
            events web: 
            contact: [] pending
        "#]],
    );
}

#[test]
fn servers_that_were_contacted_while_a_process_is_looked_for_are_not_waited_for() {
    check(
        group(JobType::Service, "web"),
        "restore web=running#3+handle
         contact
         lost web
         contact
         set-up
         contact",
        expect![[r#"
            restore web=running#3+handle: [recover web#3] running
            contact: [] running
            lost web: [sync, clear web#3, set up] pending
            contact: [] pending
            set-up: [prepare web] pending
            contact: [] pending
        "#]],
    );
}

#[test]
fn restored_complete_alloc_stays_complete() {
    check(
        group(JobType::Batch, "web"),
        "restore web=dead#1+complete
         events web",
        expect![[r#"
            restore web=dead#1+complete: [tear down] complete
            events web: 
        "#]],
    );
}

#[test]
fn ended_task_beside_a_running_sibling_is_cleared_without_a_task_event() {
    check(
        group(JobType::Batch, "a b"),
        "restore a=dead#1+handle b=running#1+handle
         found a
         found b
         set-up
         ready b
         exit b 0
         events a",
        expect![[r#"
            restore a=dead#1+handle b=running#1+handle: [recover a#1, recover b#1] running
            found a: [] running
            found b: [set up] running
            set-up: [sync, clear a#1, prepare b] running
            ready b: [] running
            exit b 0: [sync, clear b#1, tear down] complete
            events a: 
        "#]],
    );
}

#[test]
fn recovered_process_of_a_stopped_alloc_is_killed() {
    let stopped = Allocation { desired_status: AllocDesiredStatus::Stop, ..group(JobType::Service, "web") };
    check(
        stopped,
        "restore web=running#2+handle
         found web
         exit web 0
         events web",
        expect![[r#"
            restore web=running#2+handle: [recover web#2] running
            found web: [kill web#2 in 5s] running
            exit web 0: [sync, clear web#2, tear down] complete
            events web: 
                Terminated: Exit Code: 0
        "#]],
    );
}

/// An allocation of whose tasks the servers know these states.
fn known(mut alloc: Allocation, states: &[(&str, TaskRunState)]) -> Allocation {
    let states =
        states.iter().map(|(name, state)| ((*name).into(), TaskState { state: *state, ..TaskState::default() }));
    alloc.task_states = Some(Arc::new(states.collect()));
    alloc
}

#[test]
fn task_that_runs_only_in_the_servers_copy_is_started() {
    check(
        known(group(JobType::Service, "web"), &[("web", TaskRunState::Running)]),
        "start
         set-up
         ready web
         started web
         events web",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare web] pending
            ready web: [sync, start web#1] pending
            started web: [] running
            events web: 
                Received: Task received by client
                Started: Task started by client
        "#]],
    );
}

#[test]
fn prestart_task_that_ended_in_the_servers_copy_runs_again_before_a_task_that_ran() {
    let states = [("init", TaskRunState::Dead), ("main", TaskRunState::Running)];
    check(
        known(group(JobType::Batch, "init:prestart main"), &states),
        "start
         set-up
         ready init
         started init
         exit init 0
         ready main",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare init] pending
            ready init: [sync, start init#1] pending
            started init: [] running
            exit init 0: [sync, clear init#1, prepare main] pending
            ready main: [sync, start main#1] pending
        "#]],
    );
}

#[test]
fn main_task_that_ended_in_the_servers_copy_does_not_run_again() {
    let states = [("a", TaskRunState::Dead), ("b", TaskRunState::Running)];
    check(
        known(group(JobType::Batch, "a b"), &states),
        "start
         set-up
         ready b
         started b
         exit b 0
         states",
        expect![[r#"
            start: [set up] pending
            set-up: [prepare b] pending
            ready b: [sync, start b#1] pending
            started b: [] running
            exit b 0: [sync, clear b#1, tear down] complete
            states: a dead, b dead
        "#]],
    );
}
