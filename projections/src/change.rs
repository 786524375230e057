//! Changes of an entry: one per written row. Blocking queries, events and the leader's reactors are driven by changes
//! only.

use std::sync::Arc;

use songline_commands::WorkId;
use songline_model::*;

use crate::table::{Noun, Table, tables, with_tables};

macro_rules! changes {
    ($($(#[$doc:meta])* $table:ident, $change:ident, $field:ident, $name:literal, $key:ty => $row:ty;)*) => {
        /// Change of one row by one entry: the row before and after the entry. Rows that the same entry creates and
        /// deletes have no change.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Change {
            $($(#[$doc])* $change {
                /// The row before the entry; absent if the entry created it.
                before: Option<Arc<$row>>,
                /// The row after the entry; absent if the entry deleted it.
                after: Option<Arc<$row>>,
            },)*
            /// The whole state was replaced by that of an archive: any row may differ.
            Restored,
        }

        /// Key of a row among the rows of all tables.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum RowKey {
            $($change($key),)*
        }

        impl Change {
            /// The table of the row. `None`: the whole state.
            pub fn table(&self) -> Option<Table> {
                match self {
                    $(Change::$change { .. } => Some(Table::$table),)*
                    Change::Restored => None,
                }
            }

            /// Whether the entry deleted the row.
            pub fn is_gone(&self) -> bool {
                matches!(self, $(Change::$change { after: None, .. })|*)
            }

            /// The row as a creating change: the row after the entry, or the row before it if the entry deleted it.
            pub fn image(&self) -> Change {
                match self {
                    $(Change::$change { before, after } => {
                        Change::$change { before: None, after: after.as_ref().or(before.as_ref()).cloned() }
                    })*
                    Change::Restored => Change::Restored,
                }
            }

            /// Whether the row exists neither before nor after.
            pub(crate) fn is_void(&self) -> bool {
                matches!(self, $(Change::$change { before: None, after: None })|*)
            }
        }

        impl Change {
            /// Hands the change to the part of `visitor` that is for its table.
            pub fn visit<V>(&self, visitor: V) -> V::Out
            where
                V: Visitor,
                $(V: Visits<tables::$table>,)*
            {
                match self {
                    $(Change::$change { before, after } => {
                        Visits::<tables::$table>::visit(visitor, before.as_ref(), after.as_ref())
                    })*
                    Change::Restored => visitor.restored(),
                }
            }
        }
    };
}
with_tables!(changes);

/// Operation on a change of any table.
pub trait Visitor {
    /// The result of the operation.
    type Out;

    /// The result for [`Change::Restored`].
    fn restored(self) -> Self::Out;
}

/// Operation on the changes of one table.
pub trait Visits<T: Noun>: Visitor {
    /// The result for a change of the table.
    fn visit(self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) -> Self::Out;
}
