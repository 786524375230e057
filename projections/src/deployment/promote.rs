//! Promotion of a deployment's canaries, after which its groups get all their allocations. An operator or the leader's
//! deployment watcher requests it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_commands::PromoteDeployment;
use songline_model::{AllocDeploymentStatus, AllocId, Allocation, Deployment, DeploymentStatus, Dur, Str};

use super::{active, upsert};
use crate::eval;
use crate::rejected::Rejected;
use crate::table::{Table, tables};
use crate::tx::Tx;

pub(crate) fn promote(tx: &mut Tx<'_>, cmd: &PromoteDeployment) -> Result<(), Rejected> {
    let stored = active(tx, cmd.deployment_id)?;
    let promotable = promotable(tx, &stored, cmd);
    check_health(&stored, cmd, &promotable)?;
    let mut row = Deployment::clone(&stored);
    for (name, group) in row.task_groups.iter_mut().flatten() {
        if !is_asked(cmd, name) {
            continue;
        }
        if group.progress_deadline > Dur::ZERO && group.require_progress_by.is_some() {
            group.require_progress_by = Some(tx.at().plus(group.progress_deadline));
        }
        group.promoted = true;
    }
    if row.status == DeploymentStatus::Running && !row.requires_promotion() {
        row.status_description = "Deployment is running".into();
    }
    upsert(tx, row)?;
    // Does not refresh the job's status, as in the reference: the evaluation leads to a plan, which does.
    eval::upsert_rows(tx, cmd.eval.as_slice());
    for alloc in promotable {
        let status = alloc.deployment_status.as_ref().map(|status| {
            Arc::new(AllocDeploymentStatus {
                canary: false,
                modify_index: tx.index(),
                ..AllocDeploymentStatus::clone(status)
            })
        });
        let index = tx.index();
        // Bypasses the counters: the canary's health was counted when it was set.
        tx.put::<tables::Allocs>(Allocation {
            deployment_status: status,
            modify_index: index,
            alloc_modify_index: index,
            ..Allocation::clone(&alloc)
        });
    }
    tx.bump(Table::Allocs);
    Ok(())
}

fn is_asked(cmd: &PromoteDeployment, group: &Str) -> bool {
    cmd.all || cmd.groups.contains(group)
}

/// The live, healthy canaries of the requested groups.
fn promotable(tx: &Tx<'_>, deployment: &Deployment, cmd: &PromoteDeployment) -> Vec<Arc<Allocation>> {
    let groups = deployment.task_groups.iter().flatten();
    let canaries: BTreeSet<AllocId> =
        groups.flat_map(|(_, group)| group.placed_canaries.iter().flatten().copied()).collect();
    let is_well = |alloc: &&Arc<Allocation>| !alloc.terminal() && alloc.health() == Some(true);
    let of_deployment = tx.allocs_of_deployment(deployment.id);
    of_deployment
        .filter(|alloc| canaries.contains(&alloc.id) && is_asked(cmd, &alloc.task_group))
        .filter(is_well)
        .cloned()
        .collect()
}

fn check_health(
    deployment: &Deployment,
    cmd: &PromoteDeployment,
    promotable: &[Arc<Allocation>],
) -> Result<(), Rejected> {
    let mut healthy: BTreeMap<&str, i64> = BTreeMap::new();
    for alloc in promotable {
        *healthy.entry(&alloc.task_group).or_default() += 1;
    }
    let asked = deployment
        .task_groups
        .iter()
        .flatten()
        .filter(|(name, group)| group.desired_canaries > 0 && is_asked(cmd, name));
    let groups: Vec<(Str, i64, i64)> = asked
        .map(|(name, group)| (name.clone(), healthy.get(name.as_str()).copied().unwrap_or(0), group.desired_canaries))
        .filter(|(_, healthy, wanted)| healthy < wanted)
        .collect();
    if groups.is_empty() { Ok(()) } else { Err(Rejected::DeploymentCanariesUnhealthy(groups)) }
}
