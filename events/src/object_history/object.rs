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

/// JSON text of a row, or of the parts of it that are compared.
pub(super) type Text = Result<String, serde_json::Error>;

/// Step in the life of an object.
pub(super) enum Step {
    /// It is new: the whole row.
    Created(Text),
    /// It changed: what is compared of the row before, and of the row after.
    Updated(Text, Text),
    /// It was dropped.
    Deleted,
}

/// A change of one object.
pub(super) struct ChangeOf {
    /// Identity of the object.
    pub(super) object: Object,
    /// Namespace of the object; empty when it has none.
    pub(super) namespace: Str,
    pub(super) step: Step,
}

/// The object of a change, and what happened to it. `None`: the change belongs to another object's history, or to none.
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
        let text = |row: &T::Row| serde_json::to_string(&T::view(row));
        let step = match (before, after) {
            (_, None) => Step::Deleted,
            (None, Some(after)) => Step::Created(text(after)),
            (Some(before), Some(after)) => match T::without_equal_parts(before, after) {
                Some((before, after)) => Step::Updated(text(&before), text(&after)),
                None => Step::Updated(text(before), text(after)),
            },
        };
        Some(ChangeOf { object, namespace: T::namespace(row), step })
    }
}
