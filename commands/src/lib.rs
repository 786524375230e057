//! The verbs: everything that can be written to the log, and its bytes.
//!
//! A command carries all that cannot be computed from the tables: ids, times, seeds. What it does is in `projections`; who may send it
//! is decided before it is proposed. A released command never changes its meaning, and its bytes live for ever in `commands/golden/`.

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
mod root_key;
mod scaling;
mod service;
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
pub use root_key::*;
pub use scaling::*;
pub use service::*;
pub use variable::*;
pub use work::*;

#[cfg(test)]
mod tests;

macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $kind:literal),* $(,)?) => {
        /// One typed command. Numbers below 1000 are the reference's message types, ours start at 1000.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a command is made and moved once an entry; boxing its bodies would cost more")]
        pub enum Command {
            $($(#[$doc])* $variant($body),)*
        }

        /// Which command: what an envelope names by its number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Kind {
            $($(#[$doc])* $variant = $kind,)*
        }

        impl Kind {
            /// Every kind there is.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),*];

            /// The number in the log.
            pub const fn number(self) -> u16 {
                self as u16
            }

            /// The newest version of its body's shape: the one that is written.
            pub fn schema(self) -> u16 {
                songline_migrations::command_schema(self.number())
            }

            /// The kind of a number, if this version knows it.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number { $($kind => Some(Kind::$variant),)* _ => None }
            }

            /// Its name, as documents and listings show it.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => stringify!($variant)),* }
            }
        }

        impl Command {
            /// Its kind.
            pub const fn kind(&self) -> Kind {
                match self { $(Command::$variant(_) => Kind::$variant),* }
            }

            /// The body as people read it: ids and times as text, secrets left out.
            pub fn to_json(&self) -> serde_json::Value {
                // Bodies are maps of names to plain values; only a map with other keys could fail, and none has one.
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
    /// A node registers, or tells what has changed about it.
    NodeRegister(RegisterNode) = 0,
    /// A node is removed by hand.
    NodeDeregister(DeregisterNode) = 1,
    /// A node's status changes: by its heartbeat, or by the lack of one.
    NodeUpdateStatus(UpdateNodeStatus) = 2,
    /// A drain starts, changes or is called off.
    NodeUpdateDrain(UpdateNodeDrain) = 3,
    /// A job is registered or becomes a new version.
    JobRegister(RegisterJob) = 4,
    /// A job is stopped or purged.
    JobDeregister(DeregisterJob) = 5,
    /// Evaluations are made or change.
    EvalUpdate(UpdateEvals) = 6,
    /// Evaluations and allocations that nobody needs are dropped, by id.
    EvalReap(ReapEvals) = 7,
    /// Nodes tell how their allocations fare.
    AllocClientUpdate(UpdateAllocsFromClient) = 9,
    /// Job summaries are counted anew.
    ReconcileJobSummaries(ReconcileSummaries) = 10,
    /// What was accepted of a plan.
    ApplyPlanResults(ApplyPlan) = 13,
    /// A deployment's status changes.
    DeploymentStatusUpdate(UpdateDeploymentStatus) = 14,
    /// Groups of a deployment get all their allocations: their canaries did well.
    DeploymentPromote(PromoteDeployment) = 15,
    /// Allocations of a deployment are called healthy or unhealthy.
    DeploymentAllocHealth(SetDeploymentAllocHealth) = 16,
    /// Old deployments are dropped.
    DeploymentDelete(DeleteDeployments) = 17,
    /// A version of a job is marked stable, or not.
    JobStability(SetJobStability) = 18,
    /// ACL policies are made or changed.
    AclPolicyUpsert(UpsertAclPolicies) = 19,
    /// ACL policies are deleted.
    AclPolicyDelete(DeleteAclPolicies) = 20,
    /// ACL tokens are made or changed.
    AclTokenUpsert(UpsertAclTokens) = 21,
    /// ACL tokens are deleted.
    AclTokenDelete(DeleteAclTokens) = 22,
    /// The first management token is made.
    AclTokenBootstrap(BootstrapAclToken) = 23,
    /// The autopilot configuration is replaced.
    Autopilot(SetAutopilotConfig) = 24,
    /// Nodes tell of events on them.
    UpsertNodeEvents(AddNodeEvents) = 25,
    /// Several jobs are stopped or purged at once.
    JobBatchDeregister(DeregisterJobs) = 26,
    /// What the servers want of allocations changes.
    AllocUpdateDesiredTransition(SetDesiredTransitions) = 27,
    /// A node is made eligible or ineligible.
    NodeUpdateEligibility(UpdateNodeEligibility) = 28,
    /// Drains that came to their end.
    BatchNodeUpdateDrain(FinishNodeDrains) = 29,
    /// The scheduler configuration is replaced.
    SchedulerConfig(SetSchedulerConfig) = 30,
    /// Nodes that nobody needs are dropped.
    NodeBatchDeregister(DeregisterNodes) = 31,
    /// The cluster gets its id, once.
    ClusterMetadata(SetClusterMetadata) = 32,
    /// A one-time token is made.
    OneTimeTokenUpsert(UpsertOneTimeToken) = 44,
    /// One-time tokens are exchanged or dropped.
    OneTimeTokenDelete(DeleteOneTimeTokens) = 45,
    /// One-time tokens that are past their time are dropped.
    OneTimeTokenExpire(ExpireOneTimeTokens) = 46,
    /// ACL roles are made or changed.
    AclRolesUpsert(UpsertAclRoles) = 53,
    /// ACL roles are deleted.
    AclRolesDelete(DeleteAclRoles) = 54,
    /// ACL auth methods are made or changed.
    AclAuthMethodsUpsert(UpsertAclAuthMethods) = 55,
    /// ACL auth methods are deleted.
    AclAuthMethodsDelete(DeleteAclAuthMethods) = 56,
    /// ACL binding rules are made or changed.
    AclBindingRulesUpsert(UpsertAclBindingRules) = 57,
    /// ACL binding rules are deleted.
    AclBindingRulesDelete(DeleteAclBindingRules) = 58,
    /// CSI volumes are registered or changed.
    CSIVolumeRegister(RegisterCsiVolumes) = 35,
    /// CSI volumes are forgotten.
    CSIVolumeDeregister(DeregisterCsiVolumes) = 36,
    /// A claim on a CSI volume is taken, or moves towards release.
    CSIVolumeClaim(ClaimCsiVolume) = 37,
    /// Several claims at once.
    CSIVolumeClaimBatch(ClaimCsiVolumes) = 39,
    /// A CSI plugin that nobody runs is forgotten.
    CSIPluginDelete(DeleteCsiPlugin) = 40,
    /// A variable is written or deleted.
    VarApplyState(ApplyVariable) = 50,
    /// A root key is added, or its state changes.
    RootKeyMetaUpsert(UpsertRootKey) = 51,
    /// A root key is deleted.
    RootKeyMetaDelete(DeleteRootKey) = 52,
    /// Something was done to a group's count, or told about it.
    ScalingEventRegister(AddScalingEvent) = 38,
    /// Nodes announce services.
    ServiceRegistrationUpsert(UpsertServiceRegistrations) = 47,
    /// A service is announced no more.
    ServiceRegistrationDeleteById(DeleteServiceRegistration) = 48,
    /// Nothing that a node announced holds any more.
    ServiceRegistrationDeleteByNodeId(DeleteServiceRegistrationsOfNode) = 49,
    /// Node pools are made or changed.
    NodePoolUpsert(UpsertNodePools) = 59,
    /// Node pools are deleted.
    NodePoolDelete(DeleteNodePools) = 60,
    /// Namespaces are made or changed.
    NamespaceUpsert(UpsertNamespaces) = 64,
    /// Namespaces are deleted.
    NamespaceDelete(DeleteNamespaces) = 65,
    /// The state is replaced by that of an archive.
    Restore(RestoreArchive) = 1000,
    /// Every server compares its state with the leader's.
    Digest(CheckDigest) = 1001,
    /// A piece of long work is carried on by a slice.
    WorkContinue(ContinueWork) = 1002,
    /// Evaluations are deleted by hand, by ids or by filter.
    EvalDelete(DeleteEvals) = 1003,
    /// A piece of long work is ended before its time.
    WorkStop(StopWork) = 1004,
    /// The answer of a request is kept for its idempotency key.
    AnswerKeep(KeepAnswer) = 1005,
}
