//! Conversion of changes to events. The entry's kind determines the event's type, the changed row its topic, key and
//! payload.

mod full;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use songline_commands::Kind;
use songline_model::{
    AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, Allocation, Deployment, EvalTrigger, Evaluation, Job,
    JobStatus, Node, NodePool, ServiceRegistration, Str,
};
use songline_projections::Change;

use songline_wire::acl::{AuthMethodView, TokenView};
use songline_wire::alloc::EventAlloc;
use songline_wire::node::NodeView;

/// Subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Jobs.
    Job,
    /// Evaluations.
    Evaluation,
    /// Allocations.
    Allocation,
    /// Deployments.
    Deployment,
    /// Nodes.
    Node,
    /// Node pools.
    NodePool,
    /// Namespaces; full streams only.
    Namespace,
    /// The scheduler configuration; full streams only.
    SchedulerConfiguration,
    /// The cluster's metadata; full streams only.
    ClusterMetadata,
    /// CSI volumes; full streams only.
    CsiVolume,
    /// CSI plugins; full streams only.
    CsiPlugin,
    /// Variables, without their items; full streams only.
    Variable,
    /// Root keys, without their material; full streams only.
    RootKey,
    /// The autopilot configuration; full streams only.
    AutopilotConfiguration,
    /// ACL policies.
    AclPolicy,
    /// ACL tokens.
    AclToken,
    /// ACL roles.
    AclRole,
    /// ACL auth methods.
    AclAuthMethod,
    /// ACL binding rules.
    AclBindingRule,
    /// Service registrations.
    Service,
    /// Scaling policies; full streams only.
    ScalingPolicy,
    /// Scaling events of jobs; full streams only.
    ScalingEvent,
    /// Long work of the leader; full streams only.
    PendingWork,
}

impl Topic {
    /// The topic's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Topic::Job => "Job",
            Topic::Evaluation => "Evaluation",
            Topic::Allocation => "Allocation",
            Topic::Deployment => "Deployment",
            Topic::Node => "Node",
            Topic::NodePool => "NodePool",
            Topic::Namespace => "Namespace",
            Topic::SchedulerConfiguration => "SchedulerConfiguration",
            Topic::ClusterMetadata => "ClusterMetadata",
            Topic::CsiVolume => "CSIVolume",
            Topic::CsiPlugin => "CSIPlugin",
            Topic::Variable => "Variable",
            Topic::RootKey => "RootKey",
            Topic::AutopilotConfiguration => "AutopilotConfiguration",
            Topic::AclPolicy => "ACLPolicy",
            Topic::AclToken => "ACLToken",
            Topic::AclRole => "ACLRole",
            Topic::AclAuthMethod => "ACLAuthMethod",
            Topic::AclBindingRule => "ACLBindingRule",
            Topic::Service => "Service",
            Topic::ScalingPolicy => "ScalingPolicy",
            Topic::ScalingEvent => "ScalingEvent",
            Topic::PendingWork => "PendingWork",
        }
    }
}

/// Streams that show an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Audience {
    /// All streams.
    Everyone,
    /// Streams without `full`. Full streams have another event for the same change.
    Plain,
    /// Streams with `full`. The reference has no such event.
    Full,
}

/// One change of one row, not yet encoded.
#[derive(Debug, Clone)]
pub struct Event {
    /// Topic of the event.
    pub topic: Topic,
    /// Type of the event, from the entry's kind.
    pub kind: &'static str,
    /// Id or name of the row.
    pub key: Str,
    /// Namespace of the row; empty for rows without one.
    pub namespace: Str,
    /// Further keys for filters; `null` when the topic has none. A missing key is an empty string.
    pub filter_keys: Option<Vec<Str>>,
    /// The row after the change; before the change when it was dropped.
    pub payload: Payload,
    /// Number of the plain stream's frame that contains the event: the reference writes some entries in several
    /// steps.
    pub step: u8,
    /// Streams that show the event.
    pub audience: Audience,
}

/// The row of an event.
#[derive(Debug, Clone)]
pub enum Payload {
    /// A job.
    Job(Arc<Job>),
    /// An evaluation.
    Evaluation(Arc<Evaluation>),
    /// An allocation; its job is not shown.
    Allocation(Arc<Allocation>),
    /// A deployment.
    Deployment(Arc<Deployment>),
    /// A node; its secret is not shown.
    Node(Arc<Node>),
    /// A node pool.
    NodePool(Arc<NodePool>),
    /// Payload of an event for full streams, as it is sent.
    Full(serde_json::Value),
    /// An ACL policy.
    AclPolicy(Arc<AclPolicy>),
    /// An ACL token; its secret is not shown.
    AclToken(Arc<AclToken>),
    /// An ACL role.
    AclRole(Arc<AclRole>),
    /// An ACL auth method; its client secret is not shown.
    AclAuthMethod(Arc<AclAuthMethod>),
    /// An ACL binding rule.
    AclBindingRule(Arc<AclBindingRule>),
    /// A service registration.
    Service(Arc<ServiceRegistration>),
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Payload::Job(row) => s.collect_map([("Job", row)]),
            Payload::Evaluation(row) => s.collect_map([("Evaluation", row)]),
            Payload::Allocation(row) => s.collect_map([("Allocation", EventAlloc(row))]),
            Payload::Deployment(row) => s.collect_map([("Deployment", row)]),
            Payload::Node(row) => s.collect_map([("Node", NodeView::new(row))]),
            Payload::NodePool(row) => s.collect_map([("NodePool", row)]),
            Payload::Full(row) => row.serialize(s),
            Payload::AclPolicy(row) => s.collect_map([("ACLPolicy", row)]),
            Payload::AclToken(row) => s.collect_map([("ACLToken", TokenView::event(row))]),
            Payload::AclRole(row) => s.collect_map([("ACLRole", row)]),
            Payload::AclAuthMethod(row) => s.collect_map([("AuthMethod", AuthMethodView::new(row))]),
            Payload::AclBindingRule(row) => s.collect_map([("ACLBindingRule", row)]),
            Payload::Service(row) => s.collect_map([("Service", row)]),
        }
    }
}

/// Wire form of an event, with the index of its entry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EventView<'a> {
    filter_keys: Option<&'a [Str]>,
    index: u64,
    key: &'a str,
    namespace: &'a str,
    payload: &'a Payload,
    topic: &'static str,
    #[serde(rename = "Type")]
    kind: &'static str,
}

impl Event {
    /// Wire form of the event.
    pub fn view(&self, index: u64) -> EventView<'_> {
        EventView {
            filter_keys: self.filter_keys.as_deref(),
            index,
            key: &self.key,
            namespace: &self.namespace,
            payload: &self.payload,
            topic: self.topic.as_str(),
            kind: self.kind,
        }
    }
}

/// Type of an entry's events; `None`: plain streams show no events of this kind.
pub fn event_type(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::NodeRegister => Some("NodeRegistration"),
        Kind::NodeDeregister => Some("NodeDeregistration"),
        Kind::NodeUpdateStatus | Kind::UpsertNodeEvents => Some("NodeStreamEvent"),
        Kind::NodeUpdateDrain | Kind::BatchNodeUpdateDrain | Kind::NodeUpdateEligibility => Some("NodeDrain"),
        Kind::NodePoolUpsert => Some("NodePoolUpserted"),
        Kind::NodePoolDelete => Some("NodePoolDeleted"),
        Kind::JobRegister => Some("JobRegistered"),
        Kind::JobDeregister => Some("JobDeregistered"),
        Kind::JobBatchDeregister => Some("JobBatchDeregistered"),
        Kind::EvalUpdate => Some("EvaluationUpdated"),
        Kind::AllocClientUpdate => Some("AllocationUpdated"),
        Kind::AllocUpdateDesiredTransition => Some("AllocationUpdateDesiredStatus"),
        Kind::ApplyPlanResults => Some("PlanResult"),
        Kind::DeploymentStatusUpdate => Some("DeploymentStatusUpdate"),
        Kind::DeploymentAllocHealth => Some("DeploymentAllocHealth"),
        Kind::AclPolicyUpsert => Some("ACLPolicyUpserted"),
        Kind::AclPolicyDelete => Some("ACLPolicyDeleted"),
        Kind::AclTokenUpsert => Some("ACLTokenUpserted"),
        Kind::AclTokenDelete => Some("ACLTokenDeleted"),
        Kind::AclRolesUpsert => Some("ACLRoleUpserted"),
        Kind::AclRolesDelete => Some("ACLRoleDeleted"),
        Kind::AclAuthMethodsUpsert => Some("ACLAuthMethodUpserted"),
        Kind::AclAuthMethodsDelete => Some("ACLAuthMethodDeleted"),
        Kind::AclBindingRulesUpsert => Some("ACLBindingRuleUpserted"),
        Kind::AclBindingRulesDelete => Some("ACLBindingRuleDeleted"),
        Kind::DeploymentPromote => Some("DeploymentPromotion"),
        Kind::ServiceRegistrationUpsert => Some("ServiceRegistration"),
        Kind::ServiceRegistrationDeleteById | Kind::ServiceRegistrationDeleteByNodeId => Some("ServiceDeregistration"),
        // The reference has no events for these, and those of garbage collection would drown all others.
        Kind::EvalReap
        | Kind::ReconcileJobSummaries
        | Kind::DeploymentDelete
        | Kind::JobStability
        | Kind::AclTokenBootstrap
        | Kind::Autopilot
        | Kind::OneTimeTokenUpsert
        | Kind::OneTimeTokenDelete
        | Kind::OneTimeTokenExpire
        | Kind::ScalingEventRegister
        | Kind::SchedulerConfig
        | Kind::NodeBatchDeregister
        | Kind::ClusterMetadata
        | Kind::CSIVolumeRegister
        | Kind::CSIVolumeDeregister
        | Kind::CSIVolumeClaim
        | Kind::CSIVolumeClaimBatch
        | Kind::CSIPluginDelete
        | Kind::VarApplyState
        | Kind::RootKeyMetaUpsert
        | Kind::RootKeyMetaDelete
        | Kind::NamespaceUpsert
        | Kind::NamespaceDelete
        | Kind::Restore
        | Kind::Digest
        | Kind::EvalDelete
        | Kind::WorkContinue
        | Kind::WorkStop
        | Kind::AnswerKeep => None,
    }
}

/// Quick check whether an entry certainly has no events.
pub fn is_silent(changes: &[Change]) -> bool {
    let is_none = |change: &Change| {
        matches!(change, Change::Idempotency { .. } | Change::JobSummary { .. } | Change::JobSubmission { .. })
    };
    changes.iter().all(is_none)
}

/// A row of a snapshot as an event of type `Snapshot`; `None`: its table has no topic.
pub fn snapshot(row: &Change) -> Option<Event> {
    let (event, shown) = full::shown("Snapshot", row)?;
    let audience = match shown {
        full::Shown::ToAll => Audience::Everyone,
        full::Shown::InFull => Audience::Full,
    };
    Some(Event { audience, ..event })
}

/// Events of an entry, in the order of its changes within each step.
pub fn events(kind: Kind, changes: &[Change]) -> Vec<Event> {
    let word = event_type(kind);
    let mut out = Vec::new();
    for change in changes {
        full::add(kind, change, word.and_then(|word| event(kind, word, change)), &mut out);
    }
    if let Some(word) = word {
        out.extend(changes.iter().filter_map(|change| before_its_eval(kind, word, change)));
    }
    if kind == Kind::JobRegister && changes.iter().any(is_of_scaling) {
        // In the reference, a new count is two entries: a registration and then an update of evaluations.
        let of_eval = out.iter_mut().filter(|event| event.step > 0);
        of_eval.for_each(|event| event.kind = "EvaluationUpdated");
    }
    // The sort is stable: within a step the order of the changes stays.
    out.sort_by_key(|event| event.step);
    out
}

fn is_of_scaling(change: &Change) -> bool {
    matches!(change, Change::Eval { after: Some(eval), .. } if eval.triggered_by == EvalTrigger::JobScaling)
}

/// First event of a revived job. The reference writes a dead job again and its evaluation in two steps: the job is
/// still dead in the first, and pending in the second. So one change has two events.
fn before_its_eval(kind: Kind, word: &'static str, change: &Change) -> Option<Event> {
    let Change::Job { before: Some(before), after: Some(after) } = change else { return None };
    if !is_revived(kind, before, after) {
        return None;
    }
    let dead = Job { status: JobStatus::Dead, ..Job::clone(after) };
    let event = event(kind, word, &Change::Job { before: None, after: Some(Arc::new(dead)) })?;
    Some(Event { step: 0, ..event })
}

/// Whether an entry writes a dead job together with an evaluation that makes it pending.
fn is_revived(kind: Kind, before: &Job, after: &Job) -> bool {
    matches!(kind, Kind::JobRegister | Kind::JobDeregister)
        && before.status == JobStatus::Dead
        && after.status == JobStatus::Pending
}

/// Event of a change for plain streams. A dropped row has an event only if the reference has one.
fn event(kind: Kind, word: &'static str, change: &Change) -> Option<Event> {
    let (topic, key, namespace, filter_keys, payload) = match change {
        Change::Job { after, .. } => {
            let job = after.as_ref()?;
            (Topic::Job, job.id.0.clone(), job.namespace.0.clone(), None, Payload::Job(Arc::clone(job)))
        }
        Change::Eval { after, .. } => {
            let eval = after.as_ref()?;
            let keys = vec![eval.job_id.0.clone(), id_text(eval.deployment_id)];
            (
                Topic::Evaluation,
                id_text(Some(eval.id)),
                eval.namespace.0.clone(),
                Some(keys),
                Payload::Evaluation(Arc::clone(eval)),
            )
        }
        Change::Alloc { after, .. } => {
            let alloc = after.as_ref()?;
            let keys = vec![alloc.job_id.0.clone(), id_text(alloc.deployment_id)];
            (
                Topic::Allocation,
                id_text(Some(alloc.id)),
                alloc.namespace.0.clone(),
                Some(keys),
                Payload::Allocation(Arc::clone(alloc)),
            )
        }
        Change::Deployment { after, .. } => {
            let deployment = after.as_ref()?;
            let keys = vec![deployment.job_id.0.clone()];
            let payload = Payload::Deployment(Arc::clone(deployment));
            (Topic::Deployment, id_text(Some(deployment.id)), deployment.namespace.0.clone(), Some(keys), payload)
        }
        Change::Node { before, after } => {
            let node = after.as_ref().or(before.as_ref())?;
            (Topic::Node, id_text(Some(node.id)), Str::default(), None, Payload::Node(Arc::clone(node)))
        }
        Change::NodePool { before, after } => {
            let pool = after.as_ref().or(before.as_ref())?;
            (Topic::NodePool, pool.name.0.clone(), Str::default(), None, Payload::NodePool(Arc::clone(pool)))
        }
        Change::AclPolicy { before, after } => {
            let policy = after.as_ref().or(before.as_ref())?;
            (Topic::AclPolicy, policy.name.clone(), Str::default(), None, Payload::AclPolicy(Arc::clone(policy)))
        }
        Change::AclToken { before, after } => {
            let token = after.as_ref().or(before.as_ref())?;
            (
                Topic::AclToken,
                id_text(Some(token.accessor_id)),
                Str::default(),
                None,
                Payload::AclToken(Arc::clone(token)),
            )
        }
        Change::AclRole { before, after } => {
            let role = after.as_ref().or(before.as_ref())?;
            let keys = vec![role.name.clone()];
            (Topic::AclRole, id_text(Some(role.id)), Str::default(), Some(keys), Payload::AclRole(Arc::clone(role)))
        }
        Change::AclAuthMethod { before, after } => {
            let method = after.as_ref().or(before.as_ref())?;
            (
                Topic::AclAuthMethod,
                method.name.clone(),
                Str::default(),
                None,
                Payload::AclAuthMethod(Arc::clone(method)),
            )
        }
        Change::AclBindingRule { before, after } => {
            let rule = after.as_ref().or(before.as_ref())?;
            let keys = vec![rule.auth_method.clone()];
            (
                Topic::AclBindingRule,
                id_text(Some(rule.id)),
                Str::default(),
                Some(keys),
                Payload::AclBindingRule(Arc::clone(rule)),
            )
        }
        Change::ServiceRegistration { before, after } => {
            let service = after.as_ref().or(before.as_ref())?;
            let keys = vec![service.job_id.0.clone(), service.service_name.clone()];
            let payload = Payload::Service(Arc::clone(service));
            (Topic::Service, service.id.clone(), service.namespace.0.clone(), Some(keys), payload)
        }
        // Derived from the rows above, or internal.
        Change::JobSummary { .. }
        | Change::JobVersion { .. }
        | Change::JobSubmission { .. }
        | Change::AclTokenBootstrap { .. }
        | Change::OneTimeToken { .. }
        | Change::AutopilotConfig { .. }
        | Change::PeriodicLaunch { .. }
        | Change::ScalingPolicy { .. }
        | Change::ScalingEvent { .. }
        | Change::SchedulerConfig { .. }
        | Change::ClusterMeta { .. }
        | Change::Namespace { .. }
        | Change::CsiVolume { .. }
        | Change::CsiPlugin { .. }
        | Change::Variable { .. }
        | Change::VariablesQuota { .. }
        | Change::RootKey { .. }
        | Change::Idempotency { .. }
        | Change::PendingWork { .. }
        | Change::Restored => return None,
    };
    let step = match change {
        Change::Job { before: Some(before), after: Some(after) } if is_revived(kind, before, after) => 1,
        _ => step(kind, topic),
    };
    Some(Event { topic, kind: word, key, namespace, filter_keys, payload, step, audience: Audience::Everyone })
}

/// Number of an event's frame. A registration shows the job first and its evaluation in a second frame; so do a
/// deregistration and an update by a client.
fn step(kind: Kind, topic: Topic) -> u8 {
    let in_two = matches!(kind, Kind::JobRegister | Kind::JobDeregister | Kind::AllocClientUpdate);
    u8::from(in_two && topic == Topic::Evaluation)
}

fn id_text<T: std::fmt::Display>(id: Option<T>) -> Str {
    id.map(|id| Str::from(id.to_string())).unwrap_or_default()
}
