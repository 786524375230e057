//! Why a command was refused: typed, with the texts that clients see. Which HTTP status that is, is not here.

use serde::{Deserialize, Serialize};
use songline_model::{
    AllocId, CsiClaimError, CsiVolumeId, CsiVolumeUpdateRefused, DeploymentId, DeploymentStatus, EvalId, JobId, NamespaceName, NodeId,
    NodePoolName, RootKeyId, Str,
};

use crate::idempotency::Refused;

/// Kind of a refusal: all that callers can tell apart without reading its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Refusal {
    /// Any other refusal.
    #[default]
    Failed,
    /// The request can never be right.
    Invalid,
    /// The caller may not do it.
    Forbidden,
    /// The object is not there.
    NotFound,
    /// The request contradicts an earlier one.
    Conflict,
}

/// A refusal. Equal on every server. It changes no row but that of the idempotency key; `job::deregister` names the one exception.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// No such node.
    #[error("node not found")]
    NodeNotFound(NodeId),
    /// One of several nodes does not exist.
    #[error("node not found: {0}")]
    NodeOfListNotFound(NodeId),
    /// A list of nodes was empty.
    #[error("node ids missing")]
    NodeIdsMissing,
    /// Somebody else registers under a node's id.
    #[error("node secret ID does not match. Not registering node.")]
    NodeSecretMismatch(NodeId),
    /// The pool that holds every node is nobody's own.
    #[error("node is not allowed to register in node pool \"all\"")]
    NodeInAllPool,
    /// A draining node takes no work.
    #[error("can not set node's scheduling eligibility to eligible while it is draining")]
    NodeDraining(NodeId),

    /// The built-in pools are as they are.
    #[error("modifying node pool {0:?} is not allowed")]
    NodePoolBuiltIn(NodePoolName),
    /// The built-in pools stay.
    #[error("deleting node pool {0:?} is not allowed")]
    NodePoolDeleteBuiltIn(NodePoolName),
    /// No such pool.
    #[error("node pool {0} not found")]
    NodePoolNotFound(NodePoolName),

    /// Quotas are not built yet, so every quota is unknown.
    #[error("namespace {namespace:?} using non-existent quota {quota:?}")]
    NamespaceQuotaUnknown {
        /// The namespace that asks for it.
        namespace: NamespaceName,
        /// What it asks for.
        quota: Str,
    },
    /// The default namespace stays.
    #[error("default namespace can not be deleted")]
    NamespaceDefault,
    /// Some job in it still lives.
    #[error(
        "namespace {namespace:?} contains at least one non-terminal job {job:?}. All jobs must be terminal in namespace before it can be deleted"
    )]
    NamespaceHasJob {
        /// The namespace.
        namespace: NamespaceName,
        /// The first such job.
        job: JobId,
    },
    /// Some variable is in it. Which one is not for everybody to know.
    #[error("namespace {0:?} contains at least one variable. All variables in namespace must be deleted before it can be deleted")]
    NamespaceHasVariable(NamespaceName),

    /// More than can be counted.
    #[error("variables can store a maximum of {} bytes of encrypted data per namespace", i64::MAX)]
    VariablesTooLarge,
    /// Nothing can be encrypted or signed with a key that is not there.
    #[error("no such key {:?} in keyring", .0.to_string())]
    RootKeyUnknown(RootKeyId),
    /// No such key.
    #[error("root key metadata not found")]
    RootKeyNotFound,
    /// A key has an id.
    #[error("root key UUID is required")]
    RootKeyWithoutId,
    /// A key has an algorithm.
    #[error("root key algorithm is required")]
    RootKeyWithoutAlgorithm,
    /// A new key brings its material.
    #[error("root key material is required")]
    RootKeyWithoutMaterial,
    /// What was encrypted could not be read any more.
    #[error("root key algorithm cannot be changed after a key is created")]
    RootKeyAlgorithmChanged,
    /// Only a key that becomes active can take over from the others.
    #[error("cannot rekey without setting the new key active")]
    RekeyWithoutRotation,
    /// There has to be an active key.
    #[error("active root key cannot be deleted - call rotate first")]
    RootKeyActive,
    /// Variables or identities still need the key.
    #[error("root key {} is in use", .0)]
    RootKeyInUse(RootKeyId),

    /// Some CSI volume is still in it.
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
        /// Its namespace.
        namespace: NamespaceName,
    },
    /// A request changes what stays.
    #[error(transparent)]
    CsiVolumeUpdate(#[from] CsiVolumeUpdateRefused),
    /// No such volume.
    #[error("volume not found: {0}")]
    CsiVolumeNotFound(CsiVolumeId),
    /// Somebody holds it.
    #[error("volume in use: {0}")]
    CsiVolumeInUse(CsiVolumeId),
    /// A claim can not be taken.
    #[error(transparent)]
    CsiVolumeClaim(#[from] CsiClaimError),
    /// Instances run, or a job is to run some.
    #[error("plugin in use")]
    CsiPluginInUse,

    /// The job's namespace does not exist.
    #[error("job {job:?} is in nonexistent namespace {namespace:?}")]
    JobNamespaceUnknown {
        /// The job.
        job: JobId,
        /// Its namespace.
        namespace: NamespaceName,
    },
    /// The job's node pool does not exist.
    #[error("job {job:?} is in nonexistent node pool {node_pool:?}")]
    JobNodePoolUnknown {
        /// The job.
        job: JobId,
        /// Its pool.
        node_pool: NodePoolName,
    },
    /// The caller wanted to be the first.
    #[error("Enforcing job modify index 0: job already exists")]
    JobExists,
    /// The caller knew another version.
    #[error("Enforcing job modify index {wanted}: job exists with conflicting job modify index: {stored}")]
    JobModifyIndexConflict {
        /// What the caller knew.
        wanted: u64,
        /// What there is.
        stored: u64,
    },
    /// The caller knew a job that is gone.
    #[error("Enforcing job modify index {0}: job does not exist")]
    JobGone(u64),
    /// Nothing to stop.
    #[error("job {job:?} in namespace {namespace:?} doesn't exist to be deregistered")]
    JobNotDeregisterable {
        /// The job.
        job: JobId,
        /// Its namespace.
        namespace: NamespaceName,
    },
    /// Nothing to purge.
    #[error("job not found")]
    JobNotFound,

    /// The evaluation of a plan is gone.
    #[error("unable to find eval id {:?}", .0.to_string())]
    EvalNotFound(EvalId),
    /// Evaluations may only be deleted by hand while none is worked on.
    #[error("eval broker is enabled; eval broker must be paused to delete evals")]
    EvalBrokerRunning,
    /// An expression that cannot be read chooses nothing.
    #[error("{0}")]
    EvalFilterInvalid(String),
    /// No such piece of long work, or one that ended.
    #[error("work {0} is not under way")]
    WorkNotUnderWay(u64),

    /// A plan stops an allocation that is gone.
    #[error("alloc {0} doesn't exist")]
    AllocNotFound(AllocId),
    /// A new allocation says not what it runs: its row was collected while the plan was made.
    #[error("attempting to upsert allocation {:?} without a job", .0.to_string())]
    AllocWithoutJob(AllocId),
    /// A job has lost its counts.
    #[error("job summary for job {job:?} in namespace {namespace:?} is not present")]
    JobSummaryMissing {
        /// The job.
        job: JobId,
        /// Its namespace.
        namespace: NamespaceName,
    },
    /// An allocation is of a group that its job never had.
    #[error("unable to find task group in the job summary: {0}")]
    JobSummaryGroupMissing(Str),

    /// No such deployment.
    #[error("Deployment ID {:?} couldn't be updated as it does not exist", .0.to_string())]
    DeploymentNotFound(DeploymentId),
    /// The deployment has ended.
    #[error("Deployment {:?} has terminal status {:?}:", .id.to_string(), .status.as_str())]
    DeploymentTerminal {
        /// Which.
        id: DeploymentId,
        /// How it ended.
        status: DeploymentStatus,
    },
    /// No such allocation.
    #[error("unknown alloc {:?}", .0.to_string())]
    DeploymentAllocUnknown(AllocId),
    /// An allocation of something else.
    #[error("alloc {:?} is not part of deployment {:?}", .alloc.to_string(), .deployment.to_string())]
    DeploymentAllocForeign {
        /// Which.
        alloc: AllocId,
        /// What it is not part of.
        deployment: DeploymentId,
    },
    /// Too few canaries are well: by group how many are, and how many have to be.
    #[error("{}", canaries_text(.0))]
    DeploymentCanariesUnhealthy(Vec<(Str, i64, i64)>),

    /// No such registration.
    #[error("service registration not found")]
    ServiceRegistrationNotFound,

    /// A cluster keeps its id.
    #[error("set cluster metadata failed: refusing to set new cluster id, previous: {previous}, new: {new}")]
    ClusterIdTaken {
        /// What it is.
        previous: Str,
        /// What it was to be.
        new: Str,
    },
    /// The bytes of an archive are not those that were proposed, or are no state.
    #[error("restoring the archive: {0}")]
    ArchiveUnreadable(String),

    /// A row without something that only its proposer could fill in.
    #[error("ACL {noun} without {field}")]
    AclIncomplete {
        /// What kind of row.
        noun: &'static str,
        /// What it lacks.
        field: &'static str,
    },
    /// Two tokens can not have one secret.
    #[error("secret ID of ACL token is taken")]
    AclTokenSecretTaken,
    /// The first token is there already.
    #[error("ACL bootstrap already done")]
    AclBootstrapDone,
    /// The caller names another bootstrap than the last.
    #[error("Invalid reset index for ACL bootstrap")]
    AclBootstrapResetIndex,
    /// Every one-time token ends.
    #[error("one-time token must have an ExpiresAt time")]
    OneTimeTokenEndless,
    /// Somebody else has exchanged it.
    #[error("one-time token was exchanged or replaced")]
    OneTimeTokenGone,
    /// A role names a policy that is not there.
    #[error("ACL policy not found")]
    AclPolicyNotFound,
    /// Names of roles are unique.
    #[error("ACL role with name {0} already exists")]
    AclRoleNameTaken(Str),
    /// No such role.
    #[error("ACL role not found")]
    AclRoleNotFound,
    /// There is one default at most.
    #[error("default ACL auth method already exists: {0}")]
    AclAuthMethodDefaultTaken(Str),
    /// No such auth method.
    #[error("ACL auth method not found")]
    AclAuthMethodNotFound,
    /// A binding rule names an auth method that is not there.
    #[error("ACL binding rule insert failed: ACL auth method not found")]
    AclBindingRuleMethodMissing,
    /// No such binding rule.
    #[error("ACL binding rule not found")]
    AclBindingRuleNotFound,

    /// A child of a periodic job whose id does not say when it was launched.
    #[error("failed to parse the launch time of periodic child {0:?}")]
    PeriodicChildId(JobId),

    /// A key that belongs to another write.
    #[error("idempotency key {0:?} was used with another request")]
    IdempotencyKeyReused(Str),
    /// A repeated write that was refused the first time; the refusal is the same.
    #[error("{}", .0.text)]
    Repeated(Refused),
}

impl Rejected {
    /// Kind of this refusal.
    pub fn kind(&self) -> Refusal {
        match self {
            Rejected::NodePoolBuiltIn(_) => Refusal::Invalid,
            // One key for two different writes: a mistake of the caller that the reference does not know.
            Rejected::IdempotencyKeyReused(_) => Refusal::Conflict,
            Rejected::WorkNotUnderWay(_) => Refusal::NotFound,
            // The second exchange of a one-time secret is answered like that of an unknown secret.
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

/// One line a group, in the form that clients know.
fn canaries_text(groups: &[(Str, i64, i64)]) -> String {
    let count = match groups.len() {
        1 => "1 error occurred:".to_owned(),
        count => format!("{count} errors occurred:"),
    };
    let lines = groups
        .iter()
        .map(|(group, healthy, wanted)| format!("\t* Task group {:?} has {healthy}/{wanted} healthy allocations\n", group.as_str()));
    format!("{count}\n{}\n", lines.collect::<String>())
}
