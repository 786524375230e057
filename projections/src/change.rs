//! Changes of an entry: one per written row. Blocking queries, events and the leader's reactors are driven by changes
//! only.

use std::sync::Arc;

use songline_commands::WorkId;
use songline_model::{
    AccessorId, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, AllocId, Allocation, AutopilotConfig,
    BindingRuleId, CsiPlugin, CsiPluginId, CsiVolume, CsiVolumeKey, Deployment, DeploymentId, EvalId, Evaluation, Job,
    JobKey, JobScalingEvents, JobSubmission, JobSummary, Namespace, NamespaceName, Node, NodeId, NodePool,
    NodePoolName, OneTimeToken, PeriodicLaunch, RoleId, RootKey, RootKeyId, ScalingPolicy, SchedulerConfiguration,
    ServiceRegistration, Str, Variable, VariableKey, VariablesQuota,
};

use crate::acl::AclBootstrap;
use crate::idempotency::Remembered;
use crate::operator::ClusterMetadata;
use crate::table::{Table, TableType, tables, with_tables};
use crate::work::Work;

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
            /// Hands the change to `visitor` with the type of its table.
            pub(crate) fn visit(&self, visitor: &mut impl Visitor) {
                match self {
                    $(Change::$change { before, after } => visitor.visit::<tables::$table>(before.as_ref(), after.as_ref()),)*
                    Change::Restored => {}
                }
            }
        }
    };
}
with_tables!(changes);

/// Operation on a change, generic over its table.
pub(crate) trait Visitor {
    fn visit<T: TableType>(&mut self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>);
}
