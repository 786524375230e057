//! Keys that a change touches. A new kind of change has to be added here with the keys of its readers.

use songline_model::{Allocation, Deployment, Evaluation, Job};
use songline_projections::Change;

use super::WatchKey;

/// Calls `watch` with every key of a change; a key may be repeated.
pub(super) fn of(change: &Change, watch: &mut impl FnMut(WatchKey)) {
    if let Some(table) = change.table() {
        watch(WatchKey::Table(table));
    }
    match change {
        Change::Node { before, after } => {
            if let Some(node) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::Node(node.id));
            }
        }
        Change::NodePool { before, after } => {
            if let Some(pool) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::NodePool(pool.name.0.clone()));
            }
        }
        Change::Job { before, after } | Change::JobVersion { before, after } => {
            if let Some(job) = after.as_ref().or(before.as_ref()) {
                job_keys(job, watch);
            }
        }
        Change::JobSummary { before, after } => {
            if let Some(summary) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::JobSummary(songline_model::JobKey {
                    namespace: summary.namespace.clone(),
                    id: summary.job_id.clone(),
                }));
            }
        }
        Change::JobSubmission { before, after } => {
            if let Some(submission) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::Job(songline_model::JobKey {
                    namespace: submission.namespace.clone(),
                    id: submission.job_id.clone(),
                }));
            }
        }
        Change::Deployment { before, after } => {
            if let Some(deployment) = after.as_ref().or(before.as_ref()) {
                deployment_keys(deployment, watch);
            }
        }
        Change::Eval { before, after } => {
            if let Some(eval) = after.as_ref().or(before.as_ref()) {
                eval_keys(eval, watch);
            }
        }
        Change::Alloc { before, after } => {
            for alloc in before.iter().chain(after) {
                alloc_keys(alloc, watch);
            }
        }
        Change::Namespace { before, after } => {
            if let Some(namespace) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::Namespace(namespace.name.0.clone()));
            }
        }
        Change::CsiVolume { before, after } => {
            if let Some(volume) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::CsiVolume(volume.key()));
            }
        }
        Change::CsiPlugin { before, after } => {
            if let Some(plugin) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::CsiPlugin(plugin.id.clone()));
            }
        }
        Change::Variable { before, after } => {
            if let Some(variable) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::Variable(variable.key()));
            }
        }
        Change::ScalingEvent { before, after } => {
            if let Some(events) = after.as_ref().or(before.as_ref()) {
                watch(WatchKey::JobScaling(events.job_key()));
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
        Change::SchedulerConfig { .. }
        | Change::ClusterMeta { .. }
        | Change::Idempotency { .. }
        | Change::PendingWork { .. } => {}
        // A restore calls [`super::Watches::wake_all`] instead.
        Change::Restored => {}
    }
}

fn job_keys(job: &Job, watch: &mut impl FnMut(WatchKey)) {
    watch(WatchKey::Job(job.key()));
}

fn eval_keys(eval: &Evaluation, watch: &mut impl FnMut(WatchKey)) {
    watch(WatchKey::Eval(eval.id));
    watch(WatchKey::JobEvals(songline_model::JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() }));
}

fn deployment_keys(deployment: &Deployment, watch: &mut impl FnMut(WatchKey)) {
    watch(WatchKey::Deployment(deployment.id));
    watch(WatchKey::JobDeployments(songline_model::JobKey {
        namespace: deployment.namespace.clone(),
        id: deployment.job_id.clone(),
    }));
}

fn alloc_keys(alloc: &Allocation, watch: &mut impl FnMut(WatchKey)) {
    watch(WatchKey::Alloc(alloc.id));
    watch(WatchKey::JobAllocs(alloc.job_key()));
    if let Some(node) = alloc.node_id {
        watch(WatchKey::NodeAllocs(node));
    }
    if let Some(eval) = alloc.eval_id {
        watch(WatchKey::EvalAllocs(eval));
    }
    if let Some(deployment) = alloc.deployment_id {
        watch(WatchKey::DeploymentAllocs(deployment));
    }
}
