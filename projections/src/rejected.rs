//! Refusals of commands: typed, with the texts that clients see. The HTTP status is chosen in `api`.

use serde::{Deserialize, Serialize};
use songline_model::{
    AllocId, CsiClaimError, CsiVolumeId, CsiVolumeUpdateRefused, DeploymentId, DeploymentStatus, EvalId, EventSinkName,
    JobId, NamespaceName, NodeId, NodePoolName, QuotaName, RootKeyId, Str,
};

use crate::idempotency::Refused;

/// Kind of a refusal: the distinctions that callers make without reading the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Refusal {
    /// Any other refusal.
    #[default]
    Failed,
    /// The request can never succeed.
    Invalid,
    /// The caller has no permission.
    Forbidden,
    /// The object does not exist.
    NotFound,
    /// The request contradicts an earlier one.
    Conflict,
}

/// A refusal, equal on every server. A refused command changes no row except that of its idempotency key; the one
/// exception is `job::deregister`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The node does not exist.
    #[error("node not found")]
    NodeNotFound(NodeId),
    /// One of several nodes does not exist.
    #[error("node not found: {0}")]
    NodeOfListNotFound(NodeId),
    /// A list of nodes was empty.
    #[error("node ids missing")]
    NodeIdsMissing,
    /// A node registers with the id of another node.
    #[error("node secret ID does not match. Not registering node.")]
    NodeSecretMismatch(NodeId),
    /// A node registers in the built-in pool of all nodes.
    #[error("node is not allowed to register in node pool \"all\"")]
    NodeInAllPool,
    /// A draining node can not be made eligible.
    #[error("can not set node's scheduling eligibility to eligible while it is draining")]
    NodeDraining(NodeId),

    /// A built-in node pool can not be changed.
    #[error("modifying node pool {0:?} is not allowed")]
    NodePoolBuiltIn(NodePoolName),
    /// A built-in node pool can not be deleted.
    #[error("deleting node pool {0:?} is not allowed")]
    NodePoolDeleteBuiltIn(NodePoolName),
    /// The node pool does not exist.
    #[error("node pool {0} not found")]
    NodePoolNotFound(NodePoolName),

    /// A namespace names a quota that does not exist.
    #[error("namespace {namespace:?} using non-existent quota {quota:?}")]
    NamespaceQuotaUnknown {
        /// The namespace with the quota.
        namespace: NamespaceName,
        /// The name of the quota.
        quota: QuotaName,
    },
    /// The quota does not exist.
    #[error("quota {:?} not found", .0.as_str())]
    QuotaNotFound(QuotaName),
    /// A namespace uses the quota, so it can not be deleted.
    #[error(
        "quota {:?} is used by namespace {:?}: take it from the namespace first",
        .quota.as_str(),
        .namespace.as_str()
    )]
    QuotaInUse {
        /// The quota.
        quota: QuotaName,
        /// The first namespace that uses it.
        namespace: NamespaceName,
    },
    /// A write would use more than a quota allows.
    #[error("quota {:?} exceeded: {exceeded}", .quota.as_str())]
    QuotaExceeded {
        /// The quota.
        quota: QuotaName,
        /// The dimensions, each with the needed amount and the limit.
        exceeded: String,
    },
    /// The default namespace can not be deleted.
    #[error("default namespace can not be deleted")]
    NamespaceDefault,
    /// A job in the namespace is not dead.
    #[error(
        "namespace {namespace:?} contains at least one non-terminal job {job:?}. All jobs must be terminal in namespace before it can be deleted"
    )]
    NamespaceHasJob {
        /// The namespace.
        namespace: NamespaceName,
        /// The first such job.
        job: JobId,
    },
    /// The namespace contains a variable. Its path is not shown, since the caller may not be permitted to read it.
    #[error(
        "namespace {0:?} contains at least one variable. All variables in namespace must be deleted before it can be deleted"
    )]
    NamespaceHasVariable(NamespaceName),

    /// The total size of the namespace's variables would overflow.
    #[error("variables can store a maximum of {} bytes of encrypted data per namespace", i64::MAX)]
    VariablesTooLarge,
    /// Data encrypted or signed with a root key that does not exist.
    #[error("no such key {:?} in keyring", .0.to_string())]
    RootKeyUnknown(RootKeyId),
    /// The root key does not exist.
    #[error("root key metadata not found")]
    RootKeyNotFound,
    /// A root key without an id.
    #[error("root key UUID is required")]
    RootKeyWithoutId,
    /// A root key without an algorithm.
    #[error("root key algorithm is required")]
    RootKeyWithoutAlgorithm,
    /// A new root key without its material.
    #[error("root key material is required")]
    RootKeyWithoutMaterial,
    /// The algorithm of a root key can not change: data encrypted with it would become unreadable.
    #[error("root key algorithm cannot be changed after a key is created")]
    RootKeyAlgorithmChanged,
    /// Rekeying requires a key that becomes active.
    #[error("cannot rekey without setting the new key active")]
    RekeyWithoutRotation,
    /// The active root key can not be deleted.
    #[error("active root key cannot be deleted - call rotate first")]
    RootKeyActive,
    /// Variables or identities still use the root key.
    #[error("root key {} is in use", .0)]
    RootKeyInUse(RootKeyId),

    /// The namespace contains a CSI volume.
    #[error(
        "namespace {namespace:?} contains at least one CSI volume {volume:?}. All CSI volumes in namespace must be deleted before it can be deleted"
    )]
    NamespaceHasCsiVolume {
        /// The namespace.
        namespace: NamespaceName,
        /// The first such volume.
        volume: CsiVolumeId,
    },

    /// The volume's namespace does not exist.
    #[error("volume {volume} is in nonexistent namespace {namespace}")]
    CsiVolumeNamespaceUnknown {
        /// The volume.
        volume: CsiVolumeId,
        /// The volume's namespace.
        namespace: NamespaceName,
    },
    /// A request changes a fixed field of a volume.
    #[error(transparent)]
    CsiVolumeUpdate(#[from] CsiVolumeUpdateRefused),
    /// The volume does not exist.
    #[error("volume not found: {0}")]
    CsiVolumeNotFound(CsiVolumeId),
    /// The volume has claims.
    #[error("volume in use: {0}")]
    CsiVolumeInUse(CsiVolumeId),
    /// A claim can not be taken.
    #[error(transparent)]
    CsiVolumeClaim(#[from] CsiClaimError),
    /// The plugin has instances, or a job is to run some.
    #[error("plugin in use")]
    CsiPluginInUse,

    /// The job's namespace does not exist.
    #[error("job {job:?} is in nonexistent namespace {namespace:?}")]
    JobNamespaceUnknown {
        /// The job.
        job: JobId,
        /// The job's namespace.
        namespace: NamespaceName,
    },
    /// The job's node pool does not exist.
    #[error("job {job:?} is in nonexistent node pool {node_pool:?}")]
    JobNodePoolUnknown {
        /// The job.
        job: JobId,
        /// The job's node pool.
        node_pool: NodePoolName,
    },
    /// The caller expected that the job does not exist.
    #[error("Enforcing job modify index 0: job already exists")]
    JobExists,
    /// The caller expected another job modify index.
    #[error("Enforcing job modify index {wanted}: job exists with conflicting job modify index: {stored}")]
    JobModifyIndexConflict {
        /// Index that the caller expected.
        wanted: u64,
        /// Index of the stored job.
        stored: u64,
    },
    /// The caller expected a job that does not exist; its expected index.
    #[error("Enforcing job modify index {0}: job does not exist")]
    JobGone(u64),
    /// The job to stop does not exist.
    #[error("job {job:?} in namespace {namespace:?} doesn't exist to be deregistered")]
    JobNotDeregisterable {
        /// The job.
        job: JobId,
        /// The job's namespace.
        namespace: NamespaceName,
    },
    /// The job to purge does not exist.
    #[error("job not found")]
    JobNotFound,

    /// The evaluation of a plan does not exist.
    #[error("unable to find eval id {:?}", .0.to_string())]
    EvalNotFound(EvalId),
    /// Evaluations may be deleted on a user's request only while the broker is paused.
    #[error("eval broker is enabled; eval broker must be paused to delete evals")]
    EvalBrokerRunning,
    /// The filter expression does not parse.
    #[error("{0}")]
    EvalFilterInvalid(String),
    /// The piece of long work does not exist or has ended.
    #[error("work {0} is not under way")]
    WorkNotUnderWay(u64),

    /// A plan stops or preempts an allocation that does not exist.
    #[error("alloc {0} doesn't exist")]
    AllocNotFound(AllocId),
    /// A new allocation without a job: the stored row that would provide one was collected while the plan was made.
    #[error("attempting to upsert allocation {:?} without a job", .0.to_string())]
    AllocWithoutJob(AllocId),
    /// A job without a summary.
    #[error("job summary for job {job:?} in namespace {namespace:?} is not present")]
    JobSummaryMissing {
        /// The job.
        job: JobId,
        /// The job's namespace.
        namespace: NamespaceName,
    },
    /// An allocation of a group that its job's summary does not have.
    #[error("unable to find task group in the job summary: {0}")]
    JobSummaryGroupMissing(Str),

    /// The deployment does not exist.
    #[error("Deployment ID {:?} couldn't be updated as it does not exist", .0.to_string())]
    DeploymentNotFound(DeploymentId),
    /// The deployment is terminal.
    #[error("Deployment {:?} has terminal status {:?}:", .id.to_string(), .status.as_str())]
    DeploymentTerminal {
        /// The deployment.
        id: DeploymentId,
        /// Its final status.
        status: DeploymentStatus,
    },
    /// The allocation does not exist.
    #[error("unknown alloc {:?}", .0.to_string())]
    DeploymentAllocUnknown(AllocId),
    /// The allocation is not part of the deployment.
    #[error("alloc {:?} is not part of deployment {:?}", .alloc.to_string(), .deployment.to_string())]
    DeploymentAllocForeign {
        /// The allocation.
        alloc: AllocId,
        /// The deployment.
        deployment: DeploymentId,
    },
    /// Too few canaries are healthy: group, number of healthy canaries, number required.
    #[error("{}", canaries_text(.0))]
    DeploymentCanariesUnhealthy(Vec<(Str, i64, i64)>),

    /// The service registration does not exist.
    #[error("service registration not found")]
    ServiceRegistrationNotFound,

    /// The cluster already has another id.
    #[error("set cluster metadata failed: refusing to set new cluster id, previous: {previous}, new: {new}")]
    ClusterIdTaken {
        /// The stored id.
        previous: Str,
        /// The proposed id.
        new: Str,
    },
    /// The archive does not have the proposed digest, or does not contain a state.
    #[error("restoring the archive: {0}")]
    ArchiveUnreadable(String),

    /// A row without a field that only its proposer could fill in.
    #[error("ACL {noun} without {field}")]
    AclIncomplete {
        /// Type of the row.
        noun: &'static str,
        /// The missing field.
        field: &'static str,
    },
    /// Another token has this secret.
    #[error("secret ID of ACL token is taken")]
    AclTokenSecretTaken,
    /// The bootstrap was already done.
    #[error("ACL bootstrap already done")]
    AclBootstrapDone,
    /// The reset index is not that of the last bootstrap.
    #[error("Invalid reset index for ACL bootstrap")]
    AclBootstrapResetIndex,
    /// A one-time token without an expiry.
    #[error("one-time token must have an ExpiresAt time")]
    OneTimeTokenEndless,
    /// The one-time token was already exchanged.
    #[error("one-time token was exchanged or replaced")]
    OneTimeTokenGone,
    /// A role names a policy that does not exist.
    #[error("ACL policy not found")]
    AclPolicyNotFound,
    /// Another role has this name.
    #[error("ACL role with name {0} already exists")]
    AclRoleNameTaken(Str),
    /// The role does not exist.
    #[error("ACL role not found")]
    AclRoleNotFound,
    /// Another auth method is the default.
    #[error("default ACL auth method already exists: {0}")]
    AclAuthMethodDefaultTaken(Str),
    /// The auth method does not exist.
    #[error("ACL auth method not found")]
    AclAuthMethodNotFound,
    /// A binding rule names an auth method that does not exist.
    #[error("ACL binding rule insert failed: ACL auth method not found")]
    AclBindingRuleMethodMissing,
    /// The binding rule does not exist.
    #[error("ACL binding rule not found")]
    AclBindingRuleNotFound,

    /// The id of a periodic job's child does not contain its launch time.
    #[error("failed to parse the launch time of periodic child {0:?}")]
    PeriodicChildId(JobId),

    /// The event sink does not exist.
    #[error("event sink {0:?} not found")]
    EventSinkNotFound(EventSinkName),
    /// Another event sink writes to the same file.
    #[error("file {file:?} belongs to event sink {by:?}")]
    EventSinkFileTaken {
        /// Name of the file.
        file: Str,
        /// The other sink.
        by: EventSinkName,
    },
    /// The position of an event sink would lie in the future.
    #[error("position {position} is ahead of the newest entry, {newest}")]
    EventSinkPositionAhead {
        /// The wanted position.
        position: u64,
        /// Index of this entry.
        newest: u64,
    },
    /// A report of deliveries that began before the event sink was changed.
    #[error("event sink {0:?} was changed meanwhile")]
    EventSinkRunOver(EventSinkName),

    /// The idempotency key belongs to another write.
    #[error("idempotency key {0:?} was used with another request")]
    IdempotencyKeyReused(Str),
    /// A repeated write that was refused the first time, with the same refusal.
    #[error("{}", .0.text)]
    Repeated(Refused),
}

impl Rejected {
    /// Kind of this refusal.
    pub fn kind(&self) -> Refusal {
        match self {
            Rejected::NodePoolBuiltIn(_) => Refusal::Invalid,
            // One key for two different writes is a client error that the reference does not have.
            Rejected::IdempotencyKeyReused(_) => Refusal::Conflict,
            Rejected::QuotaInUse { .. } | Rejected::QuotaExceeded { .. } => Refusal::Invalid,
            Rejected::EventSinkFileTaken { .. } | Rejected::EventSinkPositionAhead { .. } => Refusal::Invalid,
            Rejected::EventSinkRunOver(_) => Refusal::Conflict,
            Rejected::WorkNotUnderWay(_) | Rejected::QuotaNotFound(_) | Rejected::EventSinkNotFound(_) => {
                Refusal::NotFound
            }
            // A second exchange of a one-time secret is answered like one of an unknown secret.
            Rejected::OneTimeTokenGone => Refusal::Forbidden,
            Rejected::Repeated(first) => first.kind,
            Rejected::NodeNotFound(_)
            | Rejected::NodeOfListNotFound(_)
            | Rejected::NodeIdsMissing
            | Rejected::NodeSecretMismatch(_)
            | Rejected::NodeInAllPool
            | Rejected::NodeDraining(_)
            | Rejected::NodePoolDeleteBuiltIn(_)
            | Rejected::NodePoolNotFound(_)
            | Rejected::NamespaceQuotaUnknown { .. }
            | Rejected::NamespaceDefault
            | Rejected::NamespaceHasJob { .. }
            | Rejected::NamespaceHasCsiVolume { .. }
            | Rejected::CsiVolumeNamespaceUnknown { .. }
            | Rejected::CsiVolumeUpdate(_)
            | Rejected::CsiVolumeNotFound(_)
            | Rejected::CsiVolumeInUse(_)
            | Rejected::CsiVolumeClaim(_)
            | Rejected::CsiPluginInUse
            | Rejected::NamespaceHasVariable(_)
            | Rejected::VariablesTooLarge
            | Rejected::RootKeyUnknown(_)
            | Rejected::RootKeyNotFound
            | Rejected::RootKeyWithoutId
            | Rejected::RootKeyWithoutAlgorithm
            | Rejected::RootKeyWithoutMaterial
            | Rejected::RootKeyAlgorithmChanged
            | Rejected::RekeyWithoutRotation
            | Rejected::RootKeyActive
            | Rejected::RootKeyInUse(_)
            | Rejected::JobNamespaceUnknown { .. }
            | Rejected::JobNodePoolUnknown { .. }
            | Rejected::JobExists
            | Rejected::JobModifyIndexConflict { .. }
            | Rejected::JobGone(_)
            | Rejected::JobNotDeregisterable { .. }
            | Rejected::JobNotFound
            | Rejected::EvalNotFound(_)
            | Rejected::EvalBrokerRunning
            | Rejected::EvalFilterInvalid(_)
            | Rejected::AllocNotFound(_)
            | Rejected::AllocWithoutJob(_)
            | Rejected::JobSummaryMissing { .. }
            | Rejected::JobSummaryGroupMissing(_)
            | Rejected::DeploymentNotFound(_)
            | Rejected::DeploymentTerminal { .. }
            | Rejected::DeploymentAllocUnknown(_)
            | Rejected::DeploymentAllocForeign { .. }
            | Rejected::AclIncomplete { .. }
            | Rejected::AclTokenSecretTaken
            | Rejected::AclBootstrapDone
            | Rejected::AclBootstrapResetIndex
            | Rejected::OneTimeTokenEndless
            | Rejected::AclPolicyNotFound
            | Rejected::AclRoleNameTaken(_)
            | Rejected::AclRoleNotFound
            | Rejected::AclAuthMethodDefaultTaken(_)
            | Rejected::AclAuthMethodNotFound
            | Rejected::AclBindingRuleMethodMissing
            | Rejected::AclBindingRuleNotFound
            | Rejected::PeriodicChildId(_)
            | Rejected::DeploymentCanariesUnhealthy(_)
            | Rejected::ServiceRegistrationNotFound
            | Rejected::ClusterIdTaken { .. }
            | Rejected::ArchiveUnreadable(_) => Refusal::Failed,
        }
    }
}

/// One line per group, in the format that clients know.
fn canaries_text(groups: &[(Str, i64, i64)]) -> String {
    let count = match groups.len() {
        1 => "1 error occurred:".to_owned(),
        count => format!("{count} errors occurred:"),
    };
    let lines = groups.iter().map(|(group, healthy, wanted)| {
        format!("\t* Task group {:?} has {healthy}/{wanted} healthy allocations\n", group.as_str())
    });
    format!("{count}\n{}\n", lines.collect::<String>())
}
