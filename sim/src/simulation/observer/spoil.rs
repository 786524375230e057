//! Defects that are injected into entries before a server applies them, the same on every server.

mod regions;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use songline_commands::{ApplyPlan, Command, Envelope, RegisterJob, UpdateEvals};
use songline_model::{Allocation, DeploymentStatus, EvalStatus, PeriodicLaunch, PreemptAlloc, StopAlloc, Time};
use songline_projections::State;

use super::super::plan::Sabotage;
use super::seen::REPLACED;

/// Seconds to which launches are rounded down.
const ROUNDED_TO_SECS: i64 = 60;
/// A job modify index that no job has.
const NO_SUCH_INDEX: u64 = u64::MAX >> 1;

/// The entry with the defect; `None`: it stays as it is. `state` is the state before the entry.
pub fn spoiled(sabotage: Sabotage, index: u64, bytes: &[u8], state: Option<&State>) -> Option<Bytes> {
    let mut envelope = Envelope::decode(bytes).ok()?;
    if let Some(command) = regions::spoiled(sabotage, &envelope, state) {
        envelope.command = command;
        return envelope.encode().ok().map(Bytes::from);
    }
    match (sabotage, &mut envelope.command) {
        (Sabotage::LaunchesTwice, Command::JobRegister(command)) => launch_again(command)?,
        (Sabotage::LaunchesLeftOut, Command::JobRegister(command)) => refuse_launch(command)?,
        (Sabotage::TokensThatStay, Command::AclTokenDelete(command)) => command.accessor_ids.clear(),
        (Sabotage::ForgottenJobs, Command::JobRegister(command)) => command.eval = None,
        (Sabotage::VictimsInVain, Command::ApplyPlanResults(plan)) if !plan.preempted.is_empty() => {
            plan.updated.retain(|alloc| !plan.preempted.iter().any(|victim| victim.preempted_by == alloc.id));
        }
        (Sabotage::VictimsOfNearPriority, Command::ApplyPlanResults(plan)) => preempt_near(plan, state?)?,
        (Sabotage::HastyRollouts, Command::ApplyPlanResults(plan)) => replace_all(plan, state?)?,
        (Sabotage::EndlessDeployments, Command::ApplyPlanResults(plan)) if !plan.deployment_updates.is_empty() => {
            plan.deployment_updates.retain(|update| update.status.is_active());
        }
        (Sabotage::EndlessDeployments, Command::DeploymentStatusUpdate(command)) => {
            command.update.status = DeploymentStatus::Running;
        }
        (Sabotage::LostWakeUps, Command::EvalUpdate(command)) => suit_nowhere(command, state?),
        (Sabotage::OpenEvals, Command::EvalUpdate(command)) if index.is_multiple_of(5) => leave_open(command),
        // The other defects are injected elsewhere, and these leave other entries as they are.
        _ => return None,
    }
    envelope.encode().ok().map(Bytes::from)
}

fn launch_of(command: &RegisterJob) -> Option<Time> {
    PeriodicLaunch::launch_of(&command.job.parent_id, &command.job.id)
}

fn launch_again(command: &mut RegisterJob) -> Option<()> {
    let at = launch_of(command)?.secs() / ROUNDED_TO_SECS * ROUNDED_TO_SECS;
    let job = Arc::make_mut(&mut command.job);
    job.id = PeriodicLaunch::child_id(&job.parent_id, Time::from_secs(at));
    if let Some(eval) = &mut command.eval {
        eval.job_id = job.id.clone();
    }
    command.enforce_index = false;
    Some(())
}

fn refuse_launch(command: &mut RegisterJob) -> Option<()> {
    if launch_of(command)?.secs() / 10 % 2 == 0 {
        command.job_modify_index = NO_SUCH_INDEX;
    }
    Some(())
}

/// Preempts one allocation more, whose job has about the preemptor's priority.
fn preempt_near(plan: &mut ApplyPlan, state: &State) -> Option<()> {
    let victim = plan.preempted.first()?.clone();
    let preemptor = plan.updated.iter().find(|alloc| alloc.id == victim.preempted_by)?;
    let job = preemptor.job.as_ref().or(plan.job.as_ref())?;
    let is_near = |alloc: &&Arc<Allocation>| {
        !alloc.terminal() && alloc.job.as_ref().is_some_and(|own| own.id != job.id && own.priority + 10 > job.priority)
    };
    let near = state.allocs_of_node(preemptor.node_id?).find(is_near)?.id;
    plan.preempted.push(PreemptAlloc { id: near, ..victim });
    Some(())
}

/// Stops all allocations of a group of which the plan replaces one.
fn replace_all(plan: &mut ApplyPlan, state: &State) -> Option<()> {
    let stop = plan.stopped.iter().find(|stop| stop.desired_description == REPLACED)?.clone();
    let of = state.alloc(stop.id)?;
    let others = state.allocs_of_job(&of.namespace, &of.job_id).filter(|alloc| !alloc.terminal());
    let others: Vec<StopAlloc> =
        others.filter(|alloc| alloc.id != stop.id).map(|alloc| StopAlloc { id: alloc.id, ..stop.clone() }).collect();
    plan.stopped.extend(others);
    Some(())
}

fn suit_nowhere(command: &mut UpdateEvals, state: &State) {
    let classes: BTreeMap<_, _> = state.nodes().map(|node| (node.computed_class.clone(), false)).collect();
    for eval in command.evals.iter_mut().filter(|eval| eval.status == EvalStatus::Blocked) {
        eval.escaped_computed_class = false;
        eval.class_eligibility = Some(Arc::new(classes.clone()));
    }
}

fn leave_open(command: &mut UpdateEvals) {
    for eval in command.evals.iter_mut().filter(|eval| eval.status == EvalStatus::Complete) {
        eval.status = EvalStatus::Pending;
    }
}
