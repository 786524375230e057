//! Types of events: the kind of an entry decides the type of its events, in plain streams and in full ones.

use songline_commands::Kind;

/// Types of an entry's events in plain and in full streams; `None`: plain streams show no events of this kind.
pub(super) fn types(kind: Kind) -> (Option<&'static str>, &'static str) {
    let both = |word| (Some(word), word);
    match kind {
        Kind::NodeRegister => both("NodeRegistration"),
        Kind::NodeDeregister => both("NodeDeregistration"),
        Kind::NodeUpdateStatus | Kind::UpsertNodeEvents => both("NodeStreamEvent"),
        Kind::NodeUpdateDrain | Kind::BatchNodeUpdateDrain => both("NodeDrain"),
        Kind::NodeUpdateEligibility => (Some("NodeDrain"), "NodeEligibility"),
        Kind::NodePoolUpsert => both("NodePoolUpserted"),
        Kind::NodePoolDelete => both("NodePoolDeleted"),
        Kind::JobRegister => both("JobRegistered"),
        Kind::JobDeregister => both("JobDeregistered"),
        Kind::JobBatchDeregister => both("JobBatchDeregistered"),
        Kind::EvalUpdate => both("EvaluationUpdated"),
        Kind::AllocClientUpdate => both("AllocationUpdated"),
        Kind::AllocUpdateDesiredTransition => both("AllocationUpdateDesiredStatus"),
        Kind::ApplyPlanResults => both("PlanResult"),
        Kind::DeploymentStatusUpdate => both("DeploymentStatusUpdate"),
        Kind::DeploymentAllocHealth => both("DeploymentAllocHealth"),
        Kind::AclPolicyUpsert => both("ACLPolicyUpserted"),
        Kind::AclPolicyDelete => both("ACLPolicyDeleted"),
        Kind::AclTokenUpsert => both("ACLTokenUpserted"),
        Kind::AclTokenDelete => both("ACLTokenDeleted"),
        Kind::AclRolesUpsert => both("ACLRoleUpserted"),
        Kind::AclRolesDelete => both("ACLRoleDeleted"),
        Kind::AclAuthMethodsUpsert => both("ACLAuthMethodUpserted"),
        Kind::AclAuthMethodsDelete => both("ACLAuthMethodDeleted"),
        Kind::AclBindingRulesUpsert => both("ACLBindingRuleUpserted"),
        Kind::AclBindingRulesDelete => both("ACLBindingRuleDeleted"),
        Kind::DeploymentPromote => both("DeploymentPromotion"),
        Kind::ServiceRegistrationUpsert => both("ServiceRegistration"),
        Kind::ServiceRegistrationDeleteById | Kind::ServiceRegistrationDeleteByNodeId => both("ServiceDeregistration"),
        // The reference has no events for these, and those of garbage collection would drown all others.
        Kind::EvalReap | Kind::WorkContinue => (None, "EvaluationDeleted"),
        Kind::DeploymentDelete => (None, "DeploymentDeleted"),
        Kind::JobStability => (None, "JobStability"),
        Kind::AclTokenBootstrap => (None, "ACLTokenBootstrapped"),
        Kind::Autopilot => (None, "AutopilotConfigurationUpdated"),
        Kind::ScalingEventRegister => (None, "ScalingEventRegistered"),
        Kind::SchedulerConfig => (None, "SchedulerConfigurationUpdated"),
        Kind::NodeBatchDeregister => (None, "NodeDeregistration"),
        Kind::ClusterMetadata => (None, "ClusterMetadataUpdated"),
        Kind::CSIVolumeRegister => (None, "CSIVolumeRegistered"),
        Kind::CSIVolumeDeregister => (None, "CSIVolumeDeregistered"),
        Kind::CSIVolumeClaim | Kind::CSIVolumeClaimBatch => (None, "CSIVolumeClaim"),
        Kind::CSIPluginDelete => (None, "CSIPluginDeleted"),
        Kind::VarApplyState => (None, "VariableApplied"),
        Kind::RootKeyMetaUpsert => (None, "RootKeyUpserted"),
        Kind::RootKeyMetaDelete => (None, "RootKeyDeleted"),
        Kind::NamespaceUpsert => (None, "NamespaceUpserted"),
        Kind::NamespaceDelete => (None, "NamespaceDeleted"),
        Kind::EvalDelete => (None, "EvaluationDeletionStarted"),
        Kind::QuotaSpecUpsert => (None, "QuotaUpserted"),
        Kind::QuotaSpecDelete => (None, "QuotaDeleted"),
        Kind::WorkStop => (None, "EvaluationDeletionStopped"),
        Kind::ReconcileJobSummaries
        | Kind::OneTimeTokenUpsert
        | Kind::OneTimeTokenDelete
        | Kind::OneTimeTokenExpire
        | Kind::Restore
        | Kind::Digest
        | Kind::AnswerKeep => (None, kind.name()),
    }
}
