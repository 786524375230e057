//! Keys that a change touches. A new kind of change has to be added here with the keys of its readers.

use songline_model::{Allocation, Deployment, Evaluation, Job};
use songline_projections::Change;

use super::WatchKey;

/// Calls `touch` with every key of a change; a key may be repeated.
pub(super) fn of(change: &Change, touch: &mut impl FnMut(WatchKey)) {
    if let Some(table) = change.table() {
        touch(WatchKey::Table(table));
    }
    match change {
        Change::Node { before, after } => {
            if let Some(node) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::Node(node.id));
            }
        }
        Change::NodePool { before, after } => {
            if let Some(pool) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::NodePool(pool.name.0.clone()));
            }
        }
        Change::Job { before, after } | Change::JobVersion { before, after } => {
            if let Some(job) = after.as_ref().or(before.as_ref()) {
                job_keys(job, touch);
            }
        }
        Change::JobSummary { before, after } => {
            if let Some(summary) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::JobSummary(songline_model::JobKey { namespace: summary.namespace.clone(), id: summary.job_id.clone() }));
            }
        }
        Change::JobSubmission { before, after } => {
            if let Some(submission) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::Job(songline_model::JobKey { namespace: submission.namespace.clone(), id: submission.job_id.clone() }));
            }
        }
        Change::Deployment { before, after } => {
            if let Some(deployment) = after.as_ref().or(before.as_ref()) {
                deployment_keys(deployment, touch);
            }
        }
        Change::Eval { before, after } => {
            if let Some(eval) = after.as_ref().or(before.as_ref()) {
                eval_keys(eval, touch);
            }
        }
        Change::Alloc { before, after } => {
            for alloc in before.iter().chain(after) {
                alloc_keys(alloc, touch);
            }
        }
        Change::Namespace { before, after } => {
            if let Some(namespace) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::Namespace(namespace.name.0.clone()));
            }
        }
        Change::CsiVolume { before, after } => {
            if let Some(volume) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::CsiVolume(volume.key()));
            }
        }
        Change::CsiPlugin { before, after } => {
            if let Some(plugin) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::CsiPlugin(plugin.id.clone()));
            }
        }
        Change::Variable { before, after } => {
            if let Some(variable) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::Variable(variable.key()));
            }
        }
        Change::ScalingEvent { before, after } => {
            if let Some(events) = after.as_ref().or(before.as_ref()) {
                touch(WatchKey::JobScaling(events.job_key()));
            }
        }
        // Readers wait only on the lists, so the table's key is enough.
        Change::ScalingPolicy { .. } | Change::ServiceRegistration { .. } => {}
        // Small tables: the table's key also serves readers of one row.
        Change::AclPolicy { .. }
        | Change::AclToken { .. }
        | Change::AclTokenBootstrap { .. }
        | Change::OneTimeToken { .. }
        | Change::AclRole { .. }
        | Change::AclAuthMethod { .. }
        | Change::AclBindingRule { .. }
        | Change::AutopilotConfig { .. }
        | Change::PeriodicLaunch { .. } => {}
        Change::VariablesQuota { .. } | Change::RootKey { .. } => {}
        // Tables with one row, or without waiting readers: the table's key is enough.
        Change::SchedulerConfig { .. } | Change::ClusterMeta { .. } | Change::Idempotency { .. } | Change::PendingWork { .. } => {}
        // A restore calls [`super::Watches::wake_all`] instead.
        Change::Restored => {}
    }
}

fn job_keys(job: &Job, touch: &mut impl FnMut(WatchKey)) {
    touch(WatchKey::Job(job.key()));
}

fn eval_keys(eval: &Evaluation, touch: &mut impl FnMut(WatchKey)) {
    touch(WatchKey::Eval(eval.id));
    touch(WatchKey::JobEvals(songline_model::JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() }));
}

fn deployment_keys(deployment: &Deployment, touch: &mut impl FnMut(WatchKey)) {
    touch(WatchKey::Deployment(deployment.id));
    touch(WatchKey::JobDeployments(songline_model::JobKey { namespace: deployment.namespace.clone(), id: deployment.job_id.clone() }));
}

fn alloc_keys(alloc: &Allocation, touch: &mut impl FnMut(WatchKey)) {
    touch(WatchKey::Alloc(alloc.id));
    touch(WatchKey::JobAllocs(alloc.job_key()));
    if let Some(node) = alloc.node_id {
        touch(WatchKey::NodeAllocs(node));
    }
    if let Some(eval) = alloc.eval_id {
        touch(WatchKey::EvalAllocs(eval));
    }
    if let Some(deployment) = alloc.deployment_id {
        touch(WatchKey::DeploymentAllocs(deployment));
    }
}
