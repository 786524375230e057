//! Allocations whose node came back: decides whether they or their replacements go on.

use std::sync::Arc;

use songline_model::{AllocClientStatus, AllocDesiredStatus, Allocation, Job};

use super::set::Set;
use super::{Run, state_of, why};

impl Run<'_, '_> {
    /// Stops either the returned allocation or its replacements. Returns (allocations that go on, all that were
    /// stopped).
    pub(super) fn reconnect(&mut self, job: &Job, reconnecting: &Set, all: &Set) -> (Set, Set) {
        let mut goes_on = Set::default();
        let mut stopped = Set::default();
        for alloc in reconnecting.iter() {
            if stopped.contains(alloc.id) {
                continue;
            }
            if !alloc.server_terminal() && alloc.client_status == AllocClientStatus::Failed {
                self.stop(alloc, Some(AllocClientStatus::Failed), why::RESCHEDULED);
                stopped.insert(alloc.clone());
                continue;
            }
            if alloc.server_terminal() {
                // The servers stopped it already; its node has yet to do it.
                stopped.insert(alloc.clone());
                continue;
            }
            if is_outdated(alloc, job) {
                self.stop(alloc, None, why::NOT_NEEDED);
                stopped.insert(alloc.clone());
                continue;
            }
            let mut keeps = true;
            for replacement in replacements(alloc, all) {
                if replacement_wins(alloc, &replacement) {
                    keeps = false;
                } else if !stopped.contains(replacement.id) {
                    // A failed replacement is stopped too: its own replacement would make one too many.
                    self.stop(&replacement, None, why::RECONNECTED);
                    stopped.insert(replacement);
                }
            }
            if keeps {
                goes_on.insert(alloc.clone());
            } else {
                self.stop(alloc, None, why::NOT_NEEDED);
                stopped.insert(alloc.clone());
            }
        }
        // A returned allocation may itself be the replacement of another one that returned.
        goes_on.minus(&stopped);
        for alloc in goes_on.iter() {
            let runs =
                alloc.desired_status == AllocDesiredStatus::Run && alloc.client_status == AllocClientStatus::Running;
            if runs && !is_outdated(alloc, job) {
                let mut update = (**alloc).clone();
                update.alloc_states.get_or_insert_default().push(state_of(alloc.client_status, self.input.now));
                // The follow-up of the disconnect is void: a later failure needs its own evaluation.
                update.followup_eval_id = None;
                self.out.reconnect_updates.insert(alloc.id, update);
            }
        }
        (goes_on, stopped)
    }
}

/// Whether the allocation would be stopped or replaced in any case.
fn is_outdated(alloc: &Allocation, job: &Job) -> bool {
    let transition = &alloc.desired_transition;
    alloc.desired_status != AllocDesiredStatus::Run
        || transition.should_migrate()
        || transition.should_reschedule()
        || transition.should_force_reschedule()
        || alloc.job.as_ref().is_some_and(|own| own.version < job.version || own.create_index < job.create_index)
}

/// The chain of allocations that replaced it, without those that the servers stopped.
pub(super) fn replacements(alloc: &Allocation, all: &Set) -> Vec<Arc<Allocation>> {
    let mut found: Vec<Arc<Allocation>> = Vec::new();
    let mut next = alloc.next_allocation;
    while let Some(replacement) = next.and_then(|id| all.get(id)) {
        // Bounds the walk. The chain cannot loop, because an allocation is always newer than the one it replaces.
        if found.len() >= all.len() {
            break;
        }
        if !replacement.server_terminal() {
            found.push(replacement.clone());
        }
        next = replacement.next_allocation;
    }
    found
}

fn replacement_wins(original: &Allocation, replacement: &Allocation) -> bool {
    let age = |alloc: &Allocation| alloc.job.as_ref().map(|job| (job.version, job.create_index)).unwrap_or_default();
    let ((own_version, own_created), (version, created)) = (age(original), age(replacement));
    if version > own_version || created > own_created {
        return true;
    }
    let better = match (best_score(original), best_score(replacement)) {
        (None, Some(_)) => true,
        (Some(own), Some(score)) => score > own,
        (_, None) => false,
    };
    let running = |alloc: &Allocation| alloc.client_status == AllocClientStatus::Running;
    better && (running(replacement) || !running(original))
}

fn best_score(alloc: &Allocation) -> Option<f64> {
    Some(alloc.metrics.as_ref()?.score_meta_data.as_ref()?.first()?.norm_score)
}
