//! Commands: every write that the log can hold, and its encoding.
//!
//! A command carries everything that cannot be computed from the tables: ids, times, seeds. Its effect is in
//! `projections`; permission to send it is checked before it is proposed. A released command never changes its
//! meaning, and its bytes are kept in `commands/golden/`.

mod acl;
mod alloc;
mod answer;
mod autopilot;
mod codec;
mod csi;
mod deployment;
mod envelope;
mod eval;
mod event_sink;
mod job;
mod namespace;
mod node;
mod node_pool;
mod operator;
mod plan;
mod quota;
mod root_key;
mod scaling;
mod service_registration;
mod variable;
mod work;

pub use acl::*;
pub use alloc::*;
pub use answer::*;
pub use autopilot::*;
pub use codec::{DecodeError, EncodeError};
pub use csi::*;
pub use deployment::*;
pub use envelope::{Actor, Cause, Envelope, Idempotency};
pub use eval::*;
pub use event_sink::*;
pub use job::*;
pub use namespace::*;
pub use node::*;
pub use node_pool::*;
pub use operator::*;
pub use plan::*;
pub use quota::*;
pub use root_key::*;
pub use scaling::*;
pub use service_registration::*;
pub use variable::*;
pub use work::*;

#[cfg(test)]
mod tests;

/// Types of events: one for both kinds of streams, one for each, or one for full streams alone.
macro_rules! event_types {
    ($both:literal) => {
        (Some($both), $both)
    };
    ($plain:literal, full $full:literal) => {
        (Some($plain), $full)
    };
    (full $full:literal) => {
        (None, $full)
    };
}

/// Makes [`Command`] and [`Kind`] from the list of commands.
macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $kind:literal, timer $timer:literal, events($($events:tt)+);)*) => {
        /// One typed command. Numbers below 1000 are the reference's message types, our own start at 1000.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a command is made and moved once an entry; boxing its bodies would cost more")]
        pub enum Command {
            $($(#[$doc])* $variant($body),)*
        }

        /// Kind of a command; the envelope stores its number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Kind {
            $($(#[$doc])* $variant = $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),*];

            /// The number in the log.
            pub const fn number(self) -> u16 {
                self as u16
            }

            /// The newest schema of the body, used for new entries.
            pub fn schema(self) -> u16 {
                songline_migrations::command_schema(self.number())
            }

            /// The kind of a number; `None` if this version does not know it.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number { $($kind => Some(Kind::$variant),)* _ => None }
            }

            /// The kind's name, as documents and listings show it.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => stringify!($variant)),* }
            }

            /// Name of the timer of applying such an entry, after `nomad.nomad.fsm.`: the reference's, or a similar one
            /// where the reference has none.
            pub const fn timer(self) -> &'static str {
                match self { $(Kind::$variant => $timer),* }
            }

            /// Types of the events of such an entry, in plain and in full streams. `None`: plain streams show no events
            /// of this kind.
            pub const fn event_types(self) -> (Option<&'static str>, &'static str) {
                match self { $(Kind::$variant => event_types!($($events)+)),* }
            }
        }

        impl Command {
            /// The kind of the command.
            pub const fn kind(&self) -> Kind {
                match self { $(Command::$variant(_) => Kind::$variant),* }
            }

            /// The body in a readable form: ids and times are texts, secrets are left out.
            pub fn to_json(&self) -> serde_json::Value {
                // Serialisation fails only for maps whose keys are not texts, and no body has one.
                match self { $(Command::$variant(body) => serde_json::to_value(body).unwrap_or_default()),* }
            }

            pub(crate) fn encode_body(&self) -> Result<Vec<u8>, rmp_serde::encode::Error> {
                match self { $(Command::$variant(body) => rmp_serde::to_vec_named(body)),* }
            }

            pub(crate) fn decode_body(kind: Kind, bytes: &[u8]) -> Result<Self, rmp_serde::decode::Error> {
                match kind { $(Kind::$variant => rmp_serde::from_slice::<$body>(bytes).map(Command::$variant)),* }
            }
        }

        $(impl From<$body> for Command {
            fn from(body: $body) -> Self {
                Command::$variant(body)
            }
        })*
    };
}

// The reference has no events of deletions by garbage collection: they would drown all others in plain streams.
commands! {
    /// Register a node, or update its own description.
    NodeRegister(RegisterNode) = 0, timer "register_node", events("NodeRegistration");
    /// Remove a node on an operator's request.
    NodeDeregister(DeregisterNode) = 1, timer "deregister_node", events("NodeDeregistration");
    /// Set a node's status, because of a heartbeat or a missed one.
    NodeUpdateStatus(UpdateNodeStatus) = 2, timer "node_status_update", events("NodeStreamEvent");
    /// Start, change or cancel a drain.
    NodeUpdateDrain(UpdateNodeDrain) = 3, timer "node_drain_update", events("NodeDrain");
    /// Register a job or a new version of it.
    JobRegister(RegisterJob) = 4, timer "register_job", events("JobRegistered");
    /// Stop or purge a job.
    JobDeregister(DeregisterJob) = 5, timer "deregister_job", events("JobDeregistered");
    /// Create or update evaluations.
    EvalUpdate(UpdateEvals) = 6, timer "update_eval", events("EvaluationUpdated");
    /// Delete evaluations and allocations that are no longer needed, by id.
    EvalReap(ReapEvals) = 7, timer "delete_eval", events(full "EvaluationDeleted");
    /// Apply nodes' reports of their allocations.
    AllocClientUpdate(UpdateAllocsFromClient) = 9, timer "alloc_client_update", events("AllocationUpdated");
    /// Recount the job summaries.
    ReconcileJobSummaries(ReconcileSummaries) = 10, timer "reconcile_summaries", events(full "ReconcileJobSummaries");
    /// Apply the accepted part of a plan.
    ApplyPlanResults(ApplyPlan) = 13, timer "apply_plan_results", events("PlanResult");
    /// Set a deployment's status.
    DeploymentStatusUpdate(UpdateDeploymentStatus) = 14,
        timer "apply_deployment_status_update", events("DeploymentStatusUpdate");
    /// Promote the canaries of a deployment's groups, so that the groups get all their allocations.
    DeploymentPromote(PromoteDeployment) = 15, timer "apply_deployment_promotion", events("DeploymentPromotion");
    /// Set the health of a deployment's allocations.
    DeploymentAllocHealth(SetDeploymentAllocHealth) = 16,
        timer "apply_deployment_alloc_health", events("DeploymentAllocHealth");
    /// Delete old deployments.
    DeploymentDelete(DeleteDeployments) = 17, timer "apply_deployment_delete", events(full "DeploymentDeleted");
    /// Mark a version of a job stable or unstable.
    JobStability(SetJobStability) = 18, timer "apply_job_stability", events(full "JobStability");
    /// Create or update ACL policies.
    AclPolicyUpsert(UpsertAclPolicies) = 19, timer "apply_acl_policy_upsert", events("ACLPolicyUpserted");
    /// Delete ACL policies.
    AclPolicyDelete(DeleteAclPolicies) = 20, timer "apply_acl_policy_delete", events("ACLPolicyDeleted");
    /// Create or update ACL tokens.
    AclTokenUpsert(UpsertAclTokens) = 21, timer "apply_acl_token_upsert", events("ACLTokenUpserted");
    /// Delete ACL tokens.
    AclTokenDelete(DeleteAclTokens) = 22, timer "apply_acl_token_delete", events("ACLTokenDeleted");
    /// Create the first management token.
    AclTokenBootstrap(BootstrapAclToken) = 23, timer "apply_acl_token_bootstrap", events(full "ACLTokenBootstrapped");
    /// Replace the autopilot configuration.
    Autopilot(SetAutopilotConfig) = 24, timer "autopilot", events(full "AutopilotConfigurationUpdated");
    /// Add events to nodes.
    UpsertNodeEvents(AddNodeEvents) = 25, timer "upsert_node_events", events("NodeStreamEvent");
    /// Stop or purge several jobs.
    JobBatchDeregister(DeregisterJobs) = 26, timer "batch_deregister_job", events("JobBatchDeregistered");
    /// Set the desired transitions of allocations.
    AllocUpdateDesiredTransition(SetDesiredTransitions) = 27,
        timer "alloc_update_desired_transition", events("AllocationUpdateDesiredStatus");
    /// Make a node eligible or ineligible.
    NodeUpdateEligibility(UpdateNodeEligibility) = 28,
        timer "node_eligibility_update", events("NodeDrain", full "NodeEligibility");
    /// End the drains that are complete.
    BatchNodeUpdateDrain(FinishNodeDrains) = 29, timer "batch_node_drain_update", events("NodeDrain");
    /// Replace the scheduler configuration.
    SchedulerConfig(SetSchedulerConfig) = 30,
        timer "apply_scheduler_config", events(full "SchedulerConfigurationUpdated");
    /// Remove nodes that are no longer needed.
    NodeBatchDeregister(DeregisterNodes) = 31, timer "batch_deregister_node", events(full "NodeDeregistration");
    /// Set the cluster's id, once.
    ClusterMetadata(SetClusterMetadata) = 32, timer "cluster_meta", events(full "ClusterMetadataUpdated");
    /// Create a one-time token.
    OneTimeTokenUpsert(UpsertOneTimeToken) = 44, timer "apply_one_time_token_upsert", events(full "OneTimeTokenUpsert");
    /// Exchange or delete one-time tokens.
    OneTimeTokenDelete(DeleteOneTimeTokens) = 45, timer "apply_one_time_token_delete", events(full "OneTimeTokenDelete");
    /// Delete the expired one-time tokens.
    OneTimeTokenExpire(ExpireOneTimeTokens) = 46, timer "apply_one_time_token_expire", events(full "OneTimeTokenExpire");
    /// Create or update ACL roles.
    AclRolesUpsert(UpsertAclRoles) = 53, timer "apply_acl_role_upsert", events("ACLRoleUpserted");
    /// Delete ACL roles.
    AclRolesDelete(DeleteAclRoles) = 54, timer "apply_acl_role_delete_by_id", events("ACLRoleDeleted");
    /// Create or update ACL auth methods.
    AclAuthMethodsUpsert(UpsertAclAuthMethods) = 55,
        timer "apply_acl_auth_method_upsert", events("ACLAuthMethodUpserted");
    /// Delete ACL auth methods.
    AclAuthMethodsDelete(DeleteAclAuthMethods) = 56,
        timer "apply_acl_auth_method_delete", events("ACLAuthMethodDeleted");
    /// Create or update ACL binding rules.
    AclBindingRulesUpsert(UpsertAclBindingRules) = 57,
        timer "apply_acl_binding_rule_upsert", events("ACLBindingRuleUpserted");
    /// Delete ACL binding rules.
    AclBindingRulesDelete(DeleteAclBindingRules) = 58,
        timer "apply_acl_binding_rule_delete", events("ACLBindingRuleDeleted");
    /// Register or update CSI volumes.
    CSIVolumeRegister(RegisterCsiVolumes) = 35, timer "apply_csi_volume_register", events(full "CSIVolumeRegistered");
    /// Deregister CSI volumes.
    CSIVolumeDeregister(DeregisterCsiVolumes) = 36,
        timer "apply_csi_volume_deregister", events(full "CSIVolumeDeregistered");
    /// Take a claim on a CSI volume, or record a step of its release.
    CSIVolumeClaim(ClaimCsiVolume) = 37, timer "apply_csi_volume_claim", events(full "CSIVolumeClaim");
    /// Apply several claims.
    CSIVolumeClaimBatch(ClaimCsiVolumes) = 39, timer "apply_csi_volume_batch_claim", events(full "CSIVolumeClaim");
    /// Delete a CSI plugin without instances.
    CSIPluginDelete(DeleteCsiPlugin) = 40, timer "apply_csi_plugin_delete", events(full "CSIPluginDeleted");
    /// Write or delete a variable.
    VarApplyState(ApplyVariable) = 50, timer "var_apply_state", events(full "VariableApplied");
    /// Add a root key, or change its state.
    RootKeyMetaUpsert(UpsertRootKey) = 51, timer "root_key_meta_upsert", events(full "RootKeyUpserted");
    /// Delete a root key.
    RootKeyMetaDelete(DeleteRootKey) = 52, timer "root_key_meta_delete", events(full "RootKeyDeleted");
    /// Record a change of a group's count, or a message about it.
    ScalingEventRegister(AddScalingEvent) = 38, timer "upsert_scaling_event", events(full "ScalingEventRegistered");
    /// Register services that nodes announce.
    ServiceRegistrationUpsert(UpsertServiceRegistrations) = 47,
        timer "apply_service_registration_upsert", events("ServiceRegistration");
    /// Delete the registration of a service.
    ServiceRegistrationDeleteById(DeleteServiceRegistration) = 48,
        timer "apply_service_registration_delete_id", events("ServiceDeregistration");
    /// Delete all service registrations of a node.
    ServiceRegistrationDeleteByNodeId(DeleteServiceRegistrationsOfNode) = 49,
        timer "apply_service_registration_delete_node_id", events("ServiceDeregistration");
    /// Create or update node pools.
    NodePoolUpsert(UpsertNodePools) = 59, timer "apply_node_pool_upsert", events("NodePoolUpserted");
    /// Delete node pools.
    NodePoolDelete(DeleteNodePools) = 60, timer "apply_node_pool_delete", events("NodePoolDeleted");
    /// Create or update namespaces.
    NamespaceUpsert(UpsertNamespaces) = 64, timer "apply_namespace_upsert", events(full "NamespaceUpserted");
    /// Delete namespaces.
    NamespaceDelete(DeleteNamespaces) = 65, timer "apply_namespace_delete", events(full "NamespaceDeleted");
    /// Replace the state by that of an archive.
    Restore(RestoreArchive) = 1000, timer "restore", events(full "Restore");
    /// Compare every server's state with the leader's.
    Digest(CheckDigest) = 1001, timer "digest", events(full "Digest");
    /// Do the next slice of a piece of long work.
    WorkContinue(ContinueWork) = 1002, timer "work_continue", events(full "EvaluationDeleted");
    /// Delete evaluations on a user's request, by ids or by filter.
    EvalDelete(DeleteEvals) = 1003, timer "eval_delete", events(full "EvaluationDeletionStarted");
    /// Stop a piece of long work early.
    WorkStop(StopWork) = 1004, timer "work_stop", events(full "EvaluationDeletionStopped");
    /// Keep the response to a request for its idempotency key.
    AnswerKeep(KeepAnswer) = 1005, timer "answer_keep", events(full "AnswerKeep");
    /// Create or update quotas.
    QuotaSpecUpsert(UpsertQuotaSpecs) = 1010, timer "apply_quota_upsert", events(full "QuotaUpserted");
    /// Delete quotas.
    QuotaSpecDelete(DeleteQuotaSpecs) = 1011, timer "apply_quota_delete", events(full "QuotaDeleted");
    /// Create or update event sinks.
    EventSinkUpsert(UpsertEventSinks) = 1020, timer "apply_event_sink_upsert", events(full "EventSinkUpserted");
    /// Delete event sinks.
    EventSinkDelete(DeleteEventSinks) = 1021, timer "apply_event_sink_delete", events(full "EventSinkDeleted");
    /// Record the progress of an event sink.
    EventSinkProgress(MoveEventSink) = 1022, timer "apply_event_sink_progress", events(full "EventSinkProgress");
}
