//! Defects in what regions do together: the replication of shared objects, and jobs of several regions.

use std::sync::Arc;

use songline_commands::{Actor, ApplyPlan, Command, DeleteAclTokens, Envelope, RegisterJob};
use songline_model::{AclPolicy, DeploymentId, DeploymentStatus, Job, Str};
use songline_projections::State;

use super::super::super::plan::Sabotage;
use super::super::REPLICATION;
use super::super::regions::{INCOMPLETE, PEER_FAILED, REGISTRATION};
use super::NO_SUCH_INDEX;

/// The entry's command with the defect; `None`: it stays as it is.
pub(super) fn spoiled(sabotage: Sabotage, envelope: &Envelope, state: Option<&State>) -> Option<Command> {
    let is_of = |name: &str| matches!(&envelope.actor, Actor::Leader(actor) if **actor == *name);
    let (replicates, rolls_out) = (is_of(REPLICATION), is_of("multiregion"));
    let mut command = envelope.command.clone();
    match (sabotage, &mut command) {
        (Sabotage::SurplusReplicas, Command::AclPolicyDelete(delete)) if replicates => delete.names.clear(),
        (Sabotage::OtherReplicas, Command::AclPolicyUpsert(upsert)) if replicates => {
            upsert.policies.iter_mut().for_each(|policy: &mut AclPolicy| policy.description = "another".into());
        }
        (Sabotage::LostLocalTokens, Command::AclPolicyUpsert(_)) if replicates => {
            let local = state?.acl_tokens().filter(|token| !token.global).map(|token| token.accessor_id);
            let accessor_ids: Vec<_> = local.collect();
            if accessor_ids.is_empty() {
                return None;
            }
            return Some(DeleteAclTokens { accessor_ids }.into());
        }
        (Sabotage::TornRegistrations, Command::JobRegister(register)) => {
            let number: u64 = last_part(register)?.rsplit('-').next()?.parse().ok()?;
            if number.is_multiple_of(2) {
                return None;
            }
            (register.enforce_index, register.job_modify_index) = (true, NO_SUCH_INDEX);
        }
        // Regions that have it would give it up otherwise, which is right.
        (Sabotage::TornRegistrations, Command::DeploymentStatusUpdate(command))
            if rolls_out && command.update.status_description.starts_with(INCOMPLETE) =>
        {
            command.update.deployment_id = DeploymentId::default();
        }
        (Sabotage::OtherParts, Command::JobRegister(register)) => {
            last_part(register)?;
            let job = Arc::make_mut(&mut register.job);
            job.meta.get_or_insert_default().insert(REGISTRATION.into(), "another".into());
        }
        (Sabotage::HastyRegions, Command::ApplyPlanResults(plan)) => {
            replace(plan, DeploymentStatus::Pending, DeploymentStatus::Running)?;
        }
        (Sabotage::EarlyRegions, Command::ApplyPlanResults(plan)) => {
            replace(plan, DeploymentStatus::Blocked, DeploymentStatus::Successful)?;
        }
        (Sabotage::RegionsThatGoOn, Command::DeploymentStatusUpdate(command))
            if rolls_out && command.update.status == DeploymentStatus::Failed =>
        {
            command.update.deployment_id = DeploymentId::default();
        }
        (Sabotage::RegionsThatGiveUp, Command::DeploymentStatusUpdate(command))
            if rolls_out && command.update.status == DeploymentStatus::Successful =>
        {
            command.update.status = DeploymentStatus::Failed;
            command.update.status_description = PEER_FAILED.into();
        }
        (Sabotage::RegionsThatLoseHeart, Command::DeploymentStatusUpdate(command))
            if rolls_out && command.update.status == DeploymentStatus::Successful =>
        {
            command.update.status = DeploymentStatus::Failed;
            command.update.status_description = INCOMPLETE.into();
        }
        (Sabotage::RegionsThatWait, Command::DeploymentStatusUpdate(command))
            if rolls_out && command.update.status == DeploymentStatus::Successful =>
        {
            command.update.deployment_id = DeploymentId::default();
        }
        // The other defects are not about several regions, and these leave other entries as they are.
        _ => return None,
    }
    Some(command)
}

/// The registration's name, if it is that of the last region of its job.
fn last_part(register: &RegisterJob) -> Option<Str> {
    let job: &Job = &register.job;
    let last = job.region_names().last()?;
    (*last == job.region).then(|| job.meta.as_ref()?.get(REGISTRATION).cloned())?
}

/// Gives the deployments that a plan moves to one status another one.
fn replace(plan: &mut ApplyPlan, status: DeploymentStatus, by: DeploymentStatus) -> Option<()> {
    let mut updates = plan.deployment_updates.iter_mut().filter(|update| update.status == status).peekable();
    updates.peek()?;
    updates.for_each(|update| update.status = by);
    Some(())
}
