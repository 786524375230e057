//! Kinds of objects that have a history, and the object of a change. Each noun's file in `nouns` says which object a
//! row belongs to.

use std::sync::Arc;

use songline_model::Str;
use songline_projections::{Change, Visitor, Visits};

use crate::nouns::Announce;

macro_rules! object_kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        /// Kinds of objects that have a history.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ObjectKind {
            $($(#[$doc])* $kind,)*
        }

        impl ObjectKind {
            /// The kind's word in URL paths and in the record's keys.
            pub const fn as_str(self) -> &'static str {
                match self { $(ObjectKind::$kind => $word),* }
            }
        }
    };
}
object_kinds! {
    /// Allocations.
    Allocation = "allocation",
    /// Deployments.
    Deployment = "deployment",
    /// Evaluations.
    Evaluation = "evaluation",
    /// Jobs.
    Job = "job",
    /// Namespaces.
    Namespace = "namespace",
    /// Nodes.
    Node = "node",
    /// Node pools.
    NodePool = "node_pool",
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

/// JSON text of a row; `None` when the row does not exist.
pub(super) type Form = Option<Result<String, serde_json::Error>>;

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

/// The object of a change, and its row before and after. `None`: the change belongs to another object's history, or to
/// none.
pub(super) fn of(change: &Change) -> Option<ChangeOf> {
    change.visit(OfObject)
}

struct OfObject;

impl Visitor for OfObject {
    type Out = Option<ChangeOf>;

    fn restored(self) -> Option<ChangeOf> {
        None
    }
}

impl<T: Announce> Visits<T> for OfObject {
    fn visit(self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) -> Option<ChangeOf> {
        let row = after.or(before)?;
        let object = T::object(row)?;
        let form = |row: &Arc<T::Row>| serde_json::to_string(&T::view(row));
        // The fields of a dropped object are not shown.
        let before = before.filter(|_| after.is_some());
        Some(ChangeOf { object, namespace: T::namespace(row), before: before.map(form), after: after.map(form) })
    }
}
