//! Reschedule policies: attempts within an interval, and delays that grow. `reconcile` decides whether an allocation is
//! replaced.

use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, Dur, NodeId, RescheduleEvent, ReschedulePolicy,
    RescheduleTracker, Time,
};

/// Number of events kept when attempts are unlimited.
const UNLIMITED_EVENTS_MAX: usize = 5;

/// The reschedule policy of the allocation's group.
pub fn policy(alloc: &Allocation) -> Option<&ReschedulePolicy> {
    alloc.group()?.reschedule_policy.as_ref()
}

/// End of an allocation: the last time one of its tasks ended, else its last change. `None`: unknown.
pub fn fail_time(alloc: &Allocation) -> Option<Time> {
    let finished =
        alloc.task_states.iter().flat_map(|states| states.values()).filter_map(|state| state.finished_at).max();
    finished.or((alloc.modify_time > Time::default()).then_some(alloc.modify_time))
}

/// Time at which a failed allocation is to be replaced; `None`: never.
pub fn at(alloc: &Allocation) -> Option<Time> {
    let stopped = alloc.desired_status == AllocDesiredStatus::Stop;
    let failed = matches!(alloc.client_status, AllocClientStatus::Failed | AllocClientStatus::Lost);
    if stopped || !failed {
        return None;
    }
    at_after(alloc, fail_time(alloc)?)
}

/// Time at which an allocation that was lost or disconnected at `since` is to be replaced; `None`: never.
pub fn at_after(alloc: &Allocation, since: Time) -> Option<Time> {
    let policy = policy(alloc)?;
    let delay = next_delay(alloc, policy);
    allowed(alloc, policy, since, delay).then(|| since.plus(delay))
}

/// Whether the policy allows one more attempt for an allocation that failed at `since`.
pub fn may_reschedule(alloc: &Allocation, since: Time) -> bool {
    policy(alloc).is_some_and(|policy| allowed(alloc, policy, since, next_delay(alloc, policy)))
}

/// Number of attempts in the interval before `since`, and the number that the policy allows in it.
pub fn attempts(alloc: &Allocation, policy: &ReschedulePolicy, since: Time) -> (u64, i64) {
    let within = |event: &&RescheduleEvent| since.since(event.reschedule_time) < policy.interval;
    (events(alloc).iter().filter(within).count() as u64, policy.attempts)
}

fn allowed(alloc: &Allocation, policy: &ReschedulePolicy, since: Time, delay: Dur) -> bool {
    if policy.unlimited {
        return true;
    }
    if policy.attempts <= 0 {
        return false;
    }
    if events(alloc).is_empty() {
        return true;
    }
    let (attempted, most) = attempts(alloc, policy, since);
    (attempted as i64) < most && delay < policy.interval
}

/// Delay of the next attempt.
pub fn next_delay(alloc: &Allocation, policy: &ReschedulePolicy) -> Dur {
    let events = events(alloc);
    let Some(last) = events.last() else { return policy.delay };
    let grown = match policy.delay_function.as_str() {
        "exponential" => Dur(last.delay.0.saturating_mul(2)),
        "fibonacci" => match events {
            [.., before, last] => {
                // After `max_delay` the series began anew: it grows from the small delay.
                if before.delay == policy.max_delay && last.delay == policy.delay {
                    last.delay
                } else {
                    Dur(last.delay.0.saturating_add(before.delay.0))
                }
            }
            _ => policy.delay,
        },
        _ => return policy.delay,
    };
    if policy.max_delay.0 <= 0 || grown <= policy.max_delay {
        return grown;
    }
    // The allocation ran longer than `max_delay` since the last attempt: a new failure, so the delay starts anew.
    let ran = fail_time(alloc).map(|ended| ended.since(last.reschedule_time));
    if ran.is_some_and(|ran| ran > policy.max_delay) { policy.delay } else { policy.max_delay }
}

/// The reschedule history that the replacement of `alloc` starts with.
pub fn next_tracker(alloc: &Allocation, policy: Option<&ReschedulePolicy>, now: Time) -> RescheduleTracker {
    let events = events(alloc);
    let mut kept: Vec<RescheduleEvent> = match policy {
        Some(policy) if policy.attempts > 0 => {
            events.iter().filter(|event| now.since(event.reschedule_time) < policy.interval).cloned().collect()
        }
        Some(_) | None => events[events.len().saturating_sub(UNLIMITED_EVENTS_MAX)..].to_vec(),
    };
    kept.push(RescheduleEvent {
        reschedule_time: now,
        prev_alloc_id: alloc.id,
        prev_node_id: alloc.node_id.unwrap_or_default(),
        delay: policy.map_or(Dur(0), |policy| next_delay(alloc, policy)),
    });
    RescheduleTracker { events: Some(kept) }
}

/// Nodes to avoid for the replacement of `alloc`, because it or its predecessors failed there.
pub fn penalty_nodes(alloc: &Allocation) -> Vec<NodeId> {
    let own = (alloc.client_status == AllocClientStatus::Failed).then_some(alloc.node_id).flatten();
    own.into_iter().chain(events(alloc).iter().map(|event| event.prev_node_id)).collect()
}

/// Allocations that `alloc` replaces, oldest first.
pub fn predecessors(alloc: &Allocation) -> impl Iterator<Item = AllocId> {
    events(alloc).iter().map(|event| event.prev_alloc_id)
}

fn events(alloc: &Allocation) -> &[RescheduleEvent] {
    alloc.reschedule_tracker.as_ref().and_then(|tracker| tracker.events.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
