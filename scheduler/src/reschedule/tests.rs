//! Delays that grow, and attempts that run out.

use std::sync::Arc;

use songline_model::{
    AllocClientStatus, Allocation, Dur, Job, NodeId, RescheduleEvent, ReschedulePolicy, RescheduleTracker, TaskGroup,
    TaskState, Time,
};

use super::{at, may_reschedule, next_delay, next_tracker, penalty_nodes};

const SECOND: i64 = 1_000_000_000;
const NOW: Time = Time::from_secs(100_000);

/// A failed allocation. `events`: seconds before the failure, which is now, and delay in seconds.
fn failed(policy: &ReschedulePolicy, events: &[(i64, i64)]) -> Allocation {
    let group = TaskGroup { name: "g".into(), reschedule_policy: Some(policy.clone()), ..TaskGroup::default() };
    let event = |(ago, delay): &(i64, i64)| RescheduleEvent {
        reschedule_time: NOW.plus(Dur(-ago * SECOND)),
        delay: Dur(delay * SECOND),
        prev_node_id: NodeId::from_bytes([*delay as u8; 16]),
        ..RescheduleEvent::default()
    };
    let tracker = RescheduleTracker { events: Some(events.iter().map(event).collect()) };
    let state = TaskState { finished_at: Some(NOW), failed: true, ..TaskState::default() };
    Allocation {
        task_group: "g".into(),
        node_id: Some(NodeId::from_bytes([1; 16])),
        job: Some(Arc::new(Job { task_groups: Some(vec![group]), ..Job::default() })),
        client_status: AllocClientStatus::Failed,
        task_states: Some(Arc::new([("t".into(), state)].into())),
        reschedule_tracker: (!events.is_empty()).then(|| Arc::new(tracker)),
        ..Allocation::default()
    }
}

fn policy(function: &str, delay: i64, max_delay: i64) -> ReschedulePolicy {
    ReschedulePolicy {
        delay: Dur(delay * SECOND),
        max_delay: Dur(max_delay * SECOND),
        delay_function: function.into(),
        unlimited: true,
        ..ReschedulePolicy::default()
    }
}

fn delay(function: &str, events: &[(i64, i64)]) -> i64 {
    let policy = policy(function, 5, 100);
    next_delay(&failed(&policy, events), &policy).0 / SECOND
}

#[test]
fn reschedule_delay_follows_its_delay_function() {
    assert_eq!(delay("constant", &[(60, 5), (30, 5)]), 5);
    assert_eq!(delay("exponential", &[]), 5);
    assert_eq!(delay("exponential", &[(30, 5)]), 10);
    assert_eq!(delay("exponential", &[(50, 40), (30, 80)]), 100);
    assert_eq!(delay("fibonacci", &[(30, 5)]), 5);
    assert_eq!(delay("fibonacci", &[(60, 5), (30, 5)]), 10);
    assert_eq!(delay("fibonacci", &[(60, 5), (30, 10)]), 15);
    assert_eq!(delay("fibonacci", &[(60, 100), (30, 5)]), 5);
}

#[test]
fn long_run_resets_the_reschedule_delay() {
    assert_eq!(delay("exponential", &[(90, 80)]), 100);
    assert_eq!(delay("exponential", &[(101, 80)]), 5);
}

#[test]
fn attempts_within_the_interval_count() {
    let limited = ReschedulePolicy {
        attempts: 2,
        interval: Dur(600 * SECOND),
        delay: Dur(5 * SECOND),
        delay_function: "constant".into(),
        ..ReschedulePolicy::default()
    };
    let may = |events: &[(i64, i64)]| may_reschedule(&failed(&limited, events), NOW);
    assert!(may(&[]));
    assert!(may(&[(60, 5)]));
    assert!(!may(&[(60, 5), (30, 5)]));
    assert!(may(&[(700, 5), (30, 5)]));
    assert!(!may_reschedule(&failed(&ReschedulePolicy { attempts: 0, ..limited.clone() }, &[]), NOW));
    assert_eq!(at(&failed(&limited, &[])), Some(NOW.plus(Dur(5 * SECOND))));
    assert_eq!(at(&Allocation { client_status: AllocClientStatus::Running, ..failed(&limited, &[]) }), None);
}

#[test]
fn reschedule_tracker_keeps_the_events_that_its_policy_needs() {
    let count = |policy: &ReschedulePolicy, events: &[(i64, i64)]| {
        next_tracker(&failed(policy, events), Some(policy), NOW).events.unwrap().len()
    };
    let limited =
        ReschedulePolicy { unlimited: false, attempts: 3, interval: Dur(600 * SECOND), ..policy("constant", 5, 0) };
    assert_eq!(count(&limited, &[(700, 5), (30, 5)]), 2);
    assert_eq!(count(&policy("constant", 5, 0), &[(70, 5), (60, 5), (50, 5), (40, 5), (30, 5), (20, 5)]), 6);
}

#[test]
fn nodes_of_earlier_attempts_are_avoided() {
    let nodes = penalty_nodes(&failed(&policy("constant", 5, 0), &[(30, 7)]));
    assert_eq!(nodes, [NodeId::from_bytes([1; 16]), NodeId::from_bytes([7; 16])]);
}
