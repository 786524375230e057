//! The smaller state machines: restarts, events, watching, heartbeats.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use songline_model::{AllocId, Allocation, Dur, FlatMap, JobType, RestartPolicy, TaskState, Time};

use crate::core::{
    Changes, Decision, ExitResult, Heartbeats, Jitter, NextCall, RestartTracker, Stage, StartFailure, begins_anew,
    changes, event, is_reconnect, wanted,
};

const START: Time = Time::from_secs(1000);

fn tracker(attempts: i64, mode: &str, job: JobType) -> RestartTracker {
    let policy = RestartPolicy {
        attempts,
        interval: Dur::from_secs(60),
        delay: Dur::from_secs(8),
        mode: mode.into(),
        render_templates: false,
    };
    RestartTracker::new(policy, &job, Stage::Main, START, Jitter::new(7))
}

fn ended(tracker: &mut RestartTracker, code: i64, after: i64) -> Decision {
    tracker.set_exit(ExitResult::code(code));
    tracker.decide(START.plus(Dur::from_secs(after)))
}

#[test]
fn restart_attempts_count_per_interval_and_delays_have_jitter() {
    let mut web = tracker(1, "fail", JobType::Service);
    let Decision::Restart { delay, reason } = ended(&mut web, 1, 0) else { panic!("restarts once") };
    assert!(delay >= Dur::from_secs(8) && delay < Dur::from_secs(10), "{delay}");
    assert_eq!(reason, "Restart within policy");
    let reason = "Exceeded allowed attempts 1 in interval 1m0s and mode is \"fail\"".into();
    assert_eq!(ended(&mut web, 1, 59), Decision::NotRestarting(reason));
    assert!(matches!(ended(&mut web, 1, 61), Decision::Restart { .. }), "another interval has begun");
}

#[test]
fn restart_mode_delay_waits_for_the_rest_of_the_interval() {
    let mut web = tracker(1, "delay", JobType::Service);
    ended(&mut web, 1, 0);
    let wait =
        Decision::Restart { delay: Dur::from_secs(40), reason: "Exceeded allowed attempts, applying a delay".into() };
    assert_eq!(ended(&mut web, 1, 20), wait);
}

#[test]
fn success_ends_batch_tasks_and_restarts_service_tasks() {
    assert_eq!(ended(&mut tracker(3, "fail", JobType::Batch), 0, 0), Decision::Terminated);
    assert!(matches!(ended(&mut tracker(3, "fail", JobType::Service), 0, 0), Decision::Restart { .. }));
    assert_eq!(ended(&mut tracker(0, "fail", JobType::Batch), 0, 0), Decision::Terminated);
    let refused = Decision::NotRestarting("Policy allows no restarts".into());
    assert_eq!(ended(&mut tracker(0, "fail", JobType::Service), 0, 0), refused);
}

#[test]
fn explicit_restart_kill_and_fatal_error_override_the_restart_policy() {
    let mut web = tracker(0, "fail", JobType::Service);
    web.set_restart_triggered(false);
    assert_eq!(ended(&mut web, 1, 0), Decision::Restart { delay: Dur::ZERO, reason: "".into() });
    web.set_killed();
    assert_eq!(ended(&mut web, 1, 0), Decision::Killed);
    let mut web = tracker(5, "fail", JobType::Service);
    web.set_start_failure(StartFailure { error: "no".into(), recoverable: false });
    assert_eq!(web.decide(START), Decision::NotRestarting("Error was unrecoverable".into()));
}

#[test]
fn task_keeps_its_newest_ten_events() {
    let mut state = TaskState::default();
    for code in 0..12 {
        event::append(&mut state, event::terminated(START, &ExitResult::code(code)));
    }
    let codes: Vec<_> = state.events.iter().flatten().map(|event| event.exit_code).collect();
    assert_eq!(codes, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn task_event_message_and_details_match_its_fields() {
    let mut state = TaskState::default();
    let exit = ExitResult { exit_code: 137, signal: 9, oom_killed: true, error: Some("gone".into()) };
    event::append(&mut state, event::terminated(START, &exit));
    event::append(&mut state, event::restarting(START, Dur::from_millis(17_300), "Restart within policy"));
    event::append(&mut state, event::restarting(START, Dur::from_secs(60), "Exceeded"));
    event::append(&mut state, event::killing(START, Dur::from_secs(5)));
    event::append(&mut state, event::signaling(START, "SIGHUP"));
    event::append(&mut state, event::sibling_failed(START, "db"));
    event::append(&mut state, event::killed(START, Some("stuck")));
    let shown: Vec<_> = state
        .events
        .iter()
        .flatten()
        .map(|event| (event.kind.as_str(), event.display_message.as_str(), event.details.as_ref()))
        .collect();
    expect![[r#"
        [
            (
                "Terminated",
                "Exit Code: 137, Signal: 9, Exit Message: \"gone\"",
                Some(
                    {
                        "exit_code": "137",
                        "exit_message": "gone",
                        "oom_killed": "true",
                        "signal": "9",
                    },
                ),
            ),
            (
                "Restarting",
                "Task restarting in 17.3s",
                Some(
                    {
                        "restart_reason": "Restart within policy",
                        "start_delay": "17300000000",
                    },
                ),
            ),
            (
                "Restarting",
                "Exceeded - Task restarting in 1m0s",
                Some(
                    {
                        "restart_reason": "Exceeded",
                        "start_delay": "60000000000",
                    },
                ),
            ),
            (
                "Killing",
                "Sent interrupt. Waiting 5s before force killing",
                Some(
                    {
                        "kill_timeout": "5s",
                    },
                ),
            ),
            (
                "Signaling",
                "Task being sent a signal",
                Some(
                    {
                        "signal": "SIGHUP",
                    },
                ),
            ),
            (
                "Sibling Task Failed",
                "Task's sibling \"db\" failed",
                Some(
                    {
                        "failed_sibling": "db",
                    },
                ),
            ),
            (
                "Killed",
                "stuck",
                Some(
                    {
                        "kill_error": "stuck",
                    },
                ),
            ),
        ]
    "#]]
    .assert_debug_eq(&shown);
    assert_eq!((state.restarts, state.failed), (2, false));
}

#[test]
fn only_a_newer_server_answer_changes_the_allocs_of_a_node() {
    let id = |n: u8| AllocId::from_bytes([n; 16]);
    let here = BTreeMap::from([(id(1), 5), (id(2), 5), (id(3), 5)]);
    let answer = FlatMap::from([(id(1), 5), (id(2), 6), (id(4), 1), (id(5), 1)]);
    let invalid = BTreeSet::from([id(5)]);
    assert_eq!(wanted(&here, &invalid, 9, 9, &answer), None);
    let wanted = wanted(&here, &invalid, 8, 9, &answer).expect("is newer");
    assert_eq!(wanted.pull, [id(2), id(4)]);
    let pulled = BTreeMap::from([(id(2), 6), (id(4), 1)]);
    let expected = Changes { removed: vec![id(3)], updated: vec![id(2)], added: vec![id(4)] };
    assert_eq!(changes(&here, &pulled, &wanted.unchanged), expected);
}

#[test]
fn reconnect_is_distinguished_from_other_alloc_updates() {
    let update = |status, desired, index| Allocation {
        client_status: status,
        desired_status: desired,
        alloc_modify_index: index,
        ..Allocation::default()
    };
    use songline_model::{AllocClientStatus as Client, AllocDesiredStatus as Desired};
    assert!(is_reconnect(5, &update(Client::Unknown, Desired::Run, 6)));
    assert!(!is_reconnect(6, &update(Client::Unknown, Desired::Run, 6)), "known already");
    assert!(!is_reconnect(5, &update(Client::Unknown, Desired::Stop, 6)), "it is to stop");
    assert!(!is_reconnect(5, &update(Client::Running, Desired::Run, 6)), "it was never lost");
}

#[test]
fn only_a_stopped_alloc_that_is_to_run_again_begins_anew() {
    use songline_model::{AllocClientStatus as Client, AllocDesiredStatus as Desired};
    let copy = |status, desired, index| Allocation {
        client_status: status,
        desired_status: desired,
        alloc_modify_index: index,
        ..Allocation::default()
    };
    let stopped = copy(Client::Complete, Desired::Stop, 5);
    assert!(begins_anew(&stopped, &copy(Client::Running, Desired::Run, 6)));
    assert!(!begins_anew(&stopped, &copy(Client::Running, Desired::Run, 5)), "known already");
    assert!(!begins_anew(&stopped, &copy(Client::Running, Desired::Stop, 6)), "it is to stop");
    assert!(!begins_anew(&stopped, &copy(Client::Failed, Desired::Run, 6)), "it has ended");
    let ended = copy(Client::Complete, Desired::Run, 5);
    assert!(!begins_anew(&ended, &copy(Client::Running, Desired::Run, 6)), "it ended by itself");
}

#[test]
fn heartbeat_interval_follows_the_ttl_and_failures_retry_sooner() {
    let at = |secs: i64| START.plus(Dur::from_secs(secs));
    let mut beats = Heartbeats::new(START, false, Jitter::new(3));
    assert_eq!(beats.next(), (NextCall::Register, START));
    beats.on_register_failed(START, false);
    let (call, retry) = beats.next();
    assert!(call == NextCall::Register && retry >= at(15) && retry < at(30));
    beats.on_registered(START, Dur::from_secs(20));
    let (call, first) = beats.next();
    assert!(call == NextCall::Heartbeat && first < at(10));
    beats.on_heartbeat(at(5), Dur::from_secs(20));
    assert_eq!(beats.next(), (NextCall::Heartbeat, at(25)));
    assert_eq!(beats.heard_at(), Some(at(5)));
    beats.on_heartbeat_failed(at(24), false);
    let (_, soon) = beats.next();
    assert!(soon >= at(25) && soon < at(26), "less than a second is left: one to two seconds later");
    beats.on_heartbeat_failed(at(200), false);
    assert!(beats.next().1 <= at(230), "far too late: not more than half a minute");
    beats.on_change(at(201));
    let (call, changed) = beats.next();
    assert!(
        call == NextCall::Heartbeat || (changed >= at(206) && changed < at(211)),
        "a change waits for others, at most ten seconds"
    );
    beats.register_again(at(202));
    assert_eq!(beats.next(), (NextCall::Register, at(202)));
}
