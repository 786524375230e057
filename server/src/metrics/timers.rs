//! Timers named by the measured operation: calls of the reference, routes of HTTP, messages of the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use songline_api::Route;
use songline_commands::Kind;

use super::family::{Family, Labels, Rows};
use super::series::{Shown, Timer};

/// The two parts of a route's path, and its methods.
type RouteKey = [&'static str; 3];

/// The timers. Those of calls and routes are created on first use.
#[derive(Debug)]
pub(crate) struct Timers {
    calls: RwLock<BTreeMap<&'static str, Timer>>,
    /// Timers of routes, each with its labels, which are encoded once.
    routes: RwLock<BTreeMap<RouteKey, (Arc<Labels>, Timer)>>,
    messages: BTreeMap<Kind, Timer>,
}

impl Default for Timers {
    fn default() -> Self {
        let messages = Kind::ALL.iter().map(|kind| (*kind, Timer::default())).collect();
        Self { calls: RwLock::default(), routes: RwLock::default(), messages }
    }
}

impl Timers {
    /// Records a call, by the part of its timer's name after `nomad.nomad.`.
    pub(super) fn call(&self, name: &'static str, took: Duration) {
        if let Some(timer) = self.calls.read().get(name) {
            return timer.record(took);
        }
        self.calls.write().entry(name).or_default().record(took);
    }

    /// Records the answer to an HTTP request.
    pub(super) fn route(&self, route: Route, took: Duration) {
        let key = [route.root, route.tail, route.methods];
        if let Some((_, timer)) = self.routes.read().get(&key) {
            return timer.record(took);
        }
        let labels = Labels::new(&[("route", &route.path()), ("methods", route.methods)]);
        self.routes.write().entry(key).or_insert_with(|| (labels, Timer::default())).1.record(took);
    }

    /// Records that an entry was applied.
    pub(super) fn message(&self, kind: Kind, took: Duration) {
        if let Some(timer) = self.messages.get(&kind) {
            timer.record(took);
        }
    }

    /// Ends the interval.
    pub(super) fn rotate(&self) {
        self.calls.read().values().for_each(Timer::rotate);
        self.routes.read().values().for_each(|(_, timer)| timer.rotate());
        self.messages.values().for_each(Timer::rotate);
    }

    /// Adds one family for each call and each message, and one for all routes.
    pub(super) fn tell(&self, shown: Shown, out: &mut Vec<Family>) {
        for (name, timer) in self.calls.read().iter() {
            let help = format!("Time of a call `{name}`, in milliseconds; of one that waits, with its wait.");
            out.push(Family::summary(format!("nomad.nomad.{name}"), help, timer.read(shown)));
        }
        let routes =
            self.routes.read().values().map(|(labels, timer)| (Arc::clone(labels), timer.read(shown))).collect();
        out.push(Family {
            name: "songline.http.request".into(),
            help: "Time until the answer to a request of HTTP that this server answered, in milliseconds.".into(),
            rows: Rows::Summaries(routes),
        });
        for (kind, timer) in &self.messages {
            let told = timer.read(shown);
            if told.count > 0 {
                let help = format!("Time of applying an entry `{}`, in milliseconds.", kind.name());
                out.push(Family::summary(format!("nomad.nomad.fsm.{}", message_name(*kind)), help, told));
            }
        }
    }
}

/// The reference's name of a message; a similar name for messages that the reference does not measure.
fn message_name(kind: Kind) -> &'static str {
    match kind {
        Kind::NodeRegister => "register_node",
        Kind::NodeDeregister => "deregister_node",
        Kind::NodeUpdateStatus => "node_status_update",
        Kind::NodeUpdateDrain => "node_drain_update",
        Kind::JobRegister => "register_job",
        Kind::JobDeregister => "deregister_job",
        Kind::EvalUpdate => "update_eval",
        Kind::EvalReap => "delete_eval",
        Kind::AllocClientUpdate => "alloc_client_update",
        Kind::ReconcileJobSummaries => "reconcile_summaries",
        Kind::ApplyPlanResults => "apply_plan_results",
        Kind::DeploymentStatusUpdate => "apply_deployment_status_update",
        Kind::DeploymentPromote => "apply_deployment_promotion",
        Kind::DeploymentAllocHealth => "apply_deployment_alloc_health",
        Kind::DeploymentDelete => "apply_deployment_delete",
        Kind::JobStability => "apply_job_stability",
        Kind::AclPolicyUpsert => "apply_acl_policy_upsert",
        Kind::AclPolicyDelete => "apply_acl_policy_delete",
        Kind::AclTokenUpsert => "apply_acl_token_upsert",
        Kind::AclTokenDelete => "apply_acl_token_delete",
        Kind::AclTokenBootstrap => "apply_acl_token_bootstrap",
        Kind::Autopilot => "autopilot",
        Kind::UpsertNodeEvents => "upsert_node_events",
        Kind::JobBatchDeregister => "batch_deregister_job",
        Kind::AllocUpdateDesiredTransition => "alloc_update_desired_transition",
        Kind::NodeUpdateEligibility => "node_eligibility_update",
        Kind::BatchNodeUpdateDrain => "batch_node_drain_update",
        Kind::SchedulerConfig => "apply_scheduler_config",
        Kind::NodeBatchDeregister => "batch_deregister_node",
        Kind::ClusterMetadata => "cluster_meta",
        Kind::OneTimeTokenUpsert => "apply_one_time_token_upsert",
        Kind::OneTimeTokenDelete => "apply_one_time_token_delete",
        Kind::OneTimeTokenExpire => "apply_one_time_token_expire",
        Kind::AclRolesUpsert => "apply_acl_role_upsert",
        Kind::AclRolesDelete => "apply_acl_role_delete_by_id",
        Kind::AclAuthMethodsUpsert => "apply_acl_auth_method_upsert",
        Kind::AclAuthMethodsDelete => "apply_acl_auth_method_delete",
        Kind::AclBindingRulesUpsert => "apply_acl_binding_rule_upsert",
        Kind::AclBindingRulesDelete => "apply_acl_binding_rule_delete",
        Kind::CSIVolumeRegister => "apply_csi_volume_register",
        Kind::CSIVolumeDeregister => "apply_csi_volume_deregister",
        Kind::CSIVolumeClaim => "apply_csi_volume_claim",
        Kind::CSIVolumeClaimBatch => "apply_csi_volume_batch_claim",
        Kind::CSIPluginDelete => "apply_csi_plugin_delete",
        Kind::VarApplyState => "var_apply_state",
        Kind::RootKeyMetaUpsert => "root_key_meta_upsert",
        Kind::RootKeyMetaDelete => "root_key_meta_delete",
        Kind::ScalingEventRegister => "upsert_scaling_event",
        Kind::ServiceRegistrationUpsert => "apply_service_registration_upsert",
        Kind::ServiceRegistrationDeleteById => "apply_service_registration_delete_id",
        Kind::ServiceRegistrationDeleteByNodeId => "apply_service_registration_delete_node_id",
        Kind::NodePoolUpsert => "apply_node_pool_upsert",
        Kind::NodePoolDelete => "apply_node_pool_delete",
        Kind::NamespaceUpsert => "apply_namespace_upsert",
        Kind::NamespaceDelete => "apply_namespace_delete",
        Kind::Restore => "restore",
        Kind::Digest => "digest",
        Kind::WorkContinue => "work_continue",
        Kind::AnswerKeep => "answer_keep",
        Kind::EvalDelete => "eval_delete",
        Kind::QuotaSpecUpsert => "apply_quota_upsert",
        Kind::QuotaSpecDelete => "apply_quota_delete",
        Kind::WorkStop => "work_stop",
    }
}
