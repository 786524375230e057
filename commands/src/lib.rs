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

macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $kind:literal),* $(,)?) => {
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

commands! {
    /// Register a node, or update its own description.
    NodeRegister(RegisterNode) = 0,
    /// Remove a node on an operator's request.
    NodeDeregister(DeregisterNode) = 1,
    /// Set a node's status, because of a heartbeat or a missed one.
    NodeUpdateStatus(UpdateNodeStatus) = 2,
    /// Start, change or cancel a drain.
    NodeUpdateDrain(UpdateNodeDrain) = 3,
    /// Register a job or a new version of it.
    JobRegister(RegisterJob) = 4,
    /// Stop or purge a job.
    JobDeregister(DeregisterJob) = 5,
    /// Create or update evaluations.
    EvalUpdate(UpdateEvals) = 6,
    /// Delete evaluations and allocations that are no longer needed, by id.
    EvalReap(ReapEvals) = 7,
    /// Apply nodes' reports of their allocations.
    AllocClientUpdate(UpdateAllocsFromClient) = 9,
    /// Recount the job summaries.
    ReconcileJobSummaries(ReconcileSummaries) = 10,
    /// Apply the accepted part of a plan.
    ApplyPlanResults(ApplyPlan) = 13,
    /// Set a deployment's status.
    DeploymentStatusUpdate(UpdateDeploymentStatus) = 14,
    /// Promote the canaries of a deployment's groups, so that the groups get all their allocations.
    DeploymentPromote(PromoteDeployment) = 15,
    /// Set the health of a deployment's allocations.
    DeploymentAllocHealth(SetDeploymentAllocHealth) = 16,
    /// Delete old deployments.
    DeploymentDelete(DeleteDeployments) = 17,
    /// Mark a version of a job stable or unstable.
    JobStability(SetJobStability) = 18,
    /// Create or update ACL policies.
    AclPolicyUpsert(UpsertAclPolicies) = 19,
    /// Delete ACL policies.
    AclPolicyDelete(DeleteAclPolicies) = 20,
    /// Create or update ACL tokens.
    AclTokenUpsert(UpsertAclTokens) = 21,
    /// Delete ACL tokens.
    AclTokenDelete(DeleteAclTokens) = 22,
    /// Create the first management token.
    AclTokenBootstrap(BootstrapAclToken) = 23,
    /// Replace the autopilot configuration.
    Autopilot(SetAutopilotConfig) = 24,
    /// Add events to nodes.
    UpsertNodeEvents(AddNodeEvents) = 25,
    /// Stop or purge several jobs.
    JobBatchDeregister(DeregisterJobs) = 26,
    /// Set the desired transitions of allocations.
    AllocUpdateDesiredTransition(SetDesiredTransitions) = 27,
    /// Make a node eligible or ineligible.
    NodeUpdateEligibility(UpdateNodeEligibility) = 28,
    /// End the drains that are complete.
    BatchNodeUpdateDrain(FinishNodeDrains) = 29,
    /// Replace the scheduler configuration.
    SchedulerConfig(SetSchedulerConfig) = 30,
    /// Remove nodes that are no longer needed.
    NodeBatchDeregister(DeregisterNodes) = 31,
    /// Set the cluster's id, once.
    ClusterMetadata(SetClusterMetadata) = 32,
    /// Create a one-time token.
    OneTimeTokenUpsert(UpsertOneTimeToken) = 44,
    /// Exchange or delete one-time tokens.
    OneTimeTokenDelete(DeleteOneTimeTokens) = 45,
    /// Delete the expired one-time tokens.
    OneTimeTokenExpire(ExpireOneTimeTokens) = 46,
    /// Create or update ACL roles.
    AclRolesUpsert(UpsertAclRoles) = 53,
    /// Delete ACL roles.
    AclRolesDelete(DeleteAclRoles) = 54,
    /// Create or update ACL auth methods.
    AclAuthMethodsUpsert(UpsertAclAuthMethods) = 55,
    /// Delete ACL auth methods.
    AclAuthMethodsDelete(DeleteAclAuthMethods) = 56,
    /// Create or update ACL binding rules.
    AclBindingRulesUpsert(UpsertAclBindingRules) = 57,
    /// Delete ACL binding rules.
    AclBindingRulesDelete(DeleteAclBindingRules) = 58,
    /// Register or update CSI volumes.
    CSIVolumeRegister(RegisterCsiVolumes) = 35,
    /// Deregister CSI volumes.
    CSIVolumeDeregister(DeregisterCsiVolumes) = 36,
    /// Take a claim on a CSI volume, or record a step of its release.
    CSIVolumeClaim(ClaimCsiVolume) = 37,
    /// Apply several claims.
    CSIVolumeClaimBatch(ClaimCsiVolumes) = 39,
    /// Delete a CSI plugin without instances.
    CSIPluginDelete(DeleteCsiPlugin) = 40,
    /// Write or delete a variable.
    VarApplyState(ApplyVariable) = 50,
    /// Add a root key, or change its state.
    RootKeyMetaUpsert(UpsertRootKey) = 51,
    /// Delete a root key.
    RootKeyMetaDelete(DeleteRootKey) = 52,
    /// Record a change of a group's count, or a message about it.
    ScalingEventRegister(AddScalingEvent) = 38,
    /// Register services that nodes announce.
    ServiceRegistrationUpsert(UpsertServiceRegistrations) = 47,
    /// Delete the registration of a service.
    ServiceRegistrationDeleteById(DeleteServiceRegistration) = 48,
    /// Delete all service registrations of a node.
    ServiceRegistrationDeleteByNodeId(DeleteServiceRegistrationsOfNode) = 49,
    /// Create or update node pools.
    NodePoolUpsert(UpsertNodePools) = 59,
    /// Delete node pools.
    NodePoolDelete(DeleteNodePools) = 60,
    /// Create or update namespaces.
    NamespaceUpsert(UpsertNamespaces) = 64,
    /// Delete namespaces.
    NamespaceDelete(DeleteNamespaces) = 65,
    /// Replace the state by that of an archive.
    Restore(RestoreArchive) = 1000,
    /// Compare every server's state with the leader's.
    Digest(CheckDigest) = 1001,
    /// Do the next slice of a piece of long work.
    WorkContinue(ContinueWork) = 1002,
    /// Delete evaluations on a user's request, by ids or by filter.
    EvalDelete(DeleteEvals) = 1003,
    /// Stop a piece of long work early.
    WorkStop(StopWork) = 1004,
    /// Keep the response to a request for its idempotency key.
    AnswerKeep(KeepAnswer) = 1005,
    /// Create or update quotas.
    QuotaSpecUpsert(UpsertQuotaSpecs) = 1010,
    /// Delete quotas.
    QuotaSpecDelete(DeleteQuotaSpecs) = 1011,
}
