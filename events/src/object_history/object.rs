//! Kinds of objects that have a history, and the object of a change. Each noun's file in `nouns` says which object a
//! row belongs to.

use std::sync::Arc;

use songline_model::Str;
use songline_projections::{Change, Visitor, Visits, tables};

use crate::event::Topic;
use crate::nouns::Announce;

macro_rules! object_kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal in $table:ident,)*) => {
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

            /// The kind with this word.
            pub(super) fn from_word(word: &[u8]) -> Option<Self> {
                [$(ObjectKind::$kind),*].into_iter().find(|kind| kind.as_str().as_bytes() == word)
            }

            /// Topic of the events whose payload is an object of the kind.
            pub(super) fn topic(self) -> Option<Topic> {
                match self { $(ObjectKind::$kind => <tables::$table as Announce>::TOPIC),* }
            }
        }
    };
}
object_kinds! {
    /// Allocations.
    Allocation = "allocation" in Allocs,
    /// Deployments.
    Deployment = "deployment" in Deployment,
    /// Evaluations.
    Evaluation = "evaluation" in Evals,
    /// Jobs.
    Job = "job" in Jobs,
    /// Namespaces.
    Namespace = "namespace" in Namespaces,
    /// Nodes.
    Node = "node" in Nodes,
    /// Node pools.
    NodePool = "node_pool" in NodePools,
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

/// Step in the life of an object.
pub(super) enum Step {
    /// It is new.
    Created,
    /// It changed. The JSON of the row before it, when no entry that is covered wrote that row.
    Updated(Option<Result<Vec<u8>, serde_json::Error>>),
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
/// Entries from `covered_from` on are covered.
pub(super) fn of(change: &Change, covered_from: u64) -> Option<ChangeOf> {
    change.visit(OfObject { covered_from })
}

struct OfObject {
    covered_from: u64,
}

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
        let step = match (before, after) {
            (_, None) => Step::Deleted,
            (None, Some(_)) => Step::Created,
            (Some(before), Some(_)) => {
                let is_uncovered = T::written_at(before) < self.covered_from;
                Step::Updated(is_uncovered.then(|| serde_json::to_vec(&T::view(before))))
            }
        };
        Some(ChangeOf { object, namespace: T::namespace(row), step })
    }
}
