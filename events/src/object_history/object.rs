//! Kinds of objects that have a history, and the object of a change. To add a kind, add a variant, its name and its
//! arm in `of`.

use songline_model::Str;
use songline_projections::Change;

use songline_wire::alloc::EventAlloc;
use songline_wire::node::NodeView;

/// Kinds of objects that have a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// Allocations.
    Allocation,
    /// Deployments.
    Deployment,
    /// Evaluations.
    Evaluation,
    /// Jobs.
    Job,
    /// Namespaces.
    Namespace,
    /// Nodes.
    Node,
    /// Node pools.
    NodePool,
}

impl ObjectKind {
    /// The kind's word in URL paths and in the record's keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Allocation => "allocation",
            ObjectKind::Deployment => "deployment",
            ObjectKind::Evaluation => "evaluation",
            ObjectKind::Job => "job",
            ObjectKind::Namespace => "namespace",
            ObjectKind::Node => "node",
            ObjectKind::NodePool => "node_pool",
        }
    }
}

/// Identity of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Namespace of a job, whose id is unique only within it; empty for all other objects.
    pub namespace: Str,
    /// Id or name of the object.
    pub id: Str,
}

impl Object {
    /// Identity of an object whose id is unique without a namespace.
    pub fn new(kind: ObjectKind, id: impl std::fmt::Display) -> Self {
        Self { kind, namespace: Str::default(), id: Str::from(id.to_string()) }
    }

    /// Identity of a job.
    pub fn job(namespace: &str, id: &str) -> Self {
        Self { kind: ObjectKind::Job, namespace: Str::new(namespace), id: Str::new(id) }
    }
}

/// A row as JSON; `None` when the row does not exist.
pub(super) type Form = Option<Result<serde_json::Value, serde_json::Error>>;

/// A change of one object.
pub(super) struct ChangeOf {
    /// Identity of the object.
    pub(super) object: Object,
    /// Namespace of the object; empty when it has none.
    pub(super) namespace: Str,
    /// Row before the change; `None` for a new object, and for a dropped one.
    pub(super) before: Form,
    pub(super) after: Form,
}

/// The object of a change, and its row before and after. The types of secrets are not shown in JSON. An allocation is
/// shown without its job, which has its own history.
pub(super) fn of(change: &Change) -> Option<ChangeOf> {
    macro_rules! forms {
        ($before:expr, $after:expr, |$row:ident| $object:expr, $namespace:expr, $form:expr) => {{
            let $row = $after.as_ref().or($before.as_ref())?;
            let (object, namespace) = ($object, $namespace);
            // The fields of a dropped object are not shown.
            let before = $before.as_ref().filter(|_| $after.is_some());
            Some(ChangeOf { object, namespace, before: before.map($form), after: $after.as_ref().map($form) })
        }};
    }
    let none = Str::default;
    match change {
        Change::Alloc { before, after } => {
            forms!(before, after, |row| Object::new(ObjectKind::Allocation, row.id), row.namespace.0.clone(), |row| {
                serde_json::to_value(EventAlloc(row))
            })
        }
        Change::Deployment { before, after } => {
            forms!(before, after, |row| Object::new(ObjectKind::Deployment, row.id), row.namespace.0.clone(), |row| {
                serde_json::to_value(&**row)
            })
        }
        Change::Eval { before, after } => {
            forms!(before, after, |row| Object::new(ObjectKind::Evaluation, row.id), row.namespace.0.clone(), |row| {
                serde_json::to_value(&**row)
            })
        }
        Change::Job { before, after } => {
            forms!(before, after, |row| Object::job(&row.namespace, &row.id), row.namespace.0.clone(), |row| {
                serde_json::to_value(&**row)
            })
        }
        Change::Namespace { before, after } => {
            forms!(before, after, |row| Object::new(ObjectKind::Namespace, &row.name), none(), |row| {
                serde_json::to_value(&**row)
            })
        }
        Change::Node { before, after } => {
            forms!(before, after, |row| Object::new(ObjectKind::Node, row.id), none(), |row| serde_json::to_value(
                NodeView::new(row)
            ))
        }
        Change::NodePool { before, after } => {
            forms!(before, after, |row| Object::new(ObjectKind::NodePool, &row.name), none(), |row| {
                serde_json::to_value(&**row)
            })
        }
        // Changes that belong to another object's history, or to none.
        Change::JobSummary { .. }
        | Change::JobVersion { .. }
        | Change::JobSubmission { .. }
        | Change::SchedulerConfig { .. }
        | Change::ClusterMeta { .. }
        | Change::AclPolicy { .. }
        | Change::AclToken { .. }
        | Change::AclTokenBootstrap { .. }
        | Change::OneTimeToken { .. }
        | Change::AclRole { .. }
        | Change::AclAuthMethod { .. }
        | Change::AclBindingRule { .. }
        | Change::AutopilotConfig { .. }
        | Change::PeriodicLaunch { .. }
        | Change::ScalingPolicy { .. }
        | Change::ScalingEvent { .. }
        | Change::ServiceRegistration { .. }
        | Change::CsiVolume { .. }
        | Change::CsiPlugin { .. }
        | Change::Variable { .. }
        | Change::VariablesQuota { .. }
        | Change::RootKey { .. }
        | Change::PendingWork { .. }
        | Change::Idempotency { .. }
        | Change::Restored => None,
    }
}
