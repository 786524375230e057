//! What an entry changed: one change per written row. Blocking queries, events and the leader's reactors live on these and nothing else.

use std::sync::Arc;

use songline_commands::WorkId;
use songline_model::{
    AccessorId, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, AllocId, Allocation, AutopilotConfig, BindingRuleId,
    CsiPlugin, CsiPluginId, CsiVolume, CsiVolumeKey, Deployment, DeploymentId, EvalId, Evaluation, Job, JobKey, JobScalingEvents,
    JobSubmission, JobSummary, Namespace, NamespaceName, Node, NodeId, NodePool, NodePoolName, OneTimeToken, PeriodicLaunch, RoleId,
    RootKey, RootKeyId, ScalingPolicy, SchedulerConfiguration, ServiceRegistration, Str, Variable, VariableKey, VariablesQuota,
};

use crate::acl::AclBootstrap;
use crate::idempotency::Remembered;
use crate::operator::ClusterMetadata;
use crate::table::{Table, TableType, tables, with_tables};
use crate::work::Work;

macro_rules! changes {
    ($($(#[$doc:meta])* $table:ident, $change:ident, $field:ident, $name:literal, $key:ty => $row:ty;)*) => {
        /// One row's change by one entry: as it was before the entry and as it is after. Rows made and dropped by the same entry have none.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Change {
            $($(#[$doc])* $change {
                /// Absent when the entry made the row.
                before: Option<Arc<$row>>,
                /// Absent when the entry dropped the row.
                after: Option<Arc<$row>>,
            },)*
            /// The whole state was replaced by an archive's: every row may be another one.
            Restored,
        }

        /// Names a row among all rows.
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

            /// Whether the entry dropped the row.
            pub fn is_gone(&self) -> bool {
                matches!(self, $(Change::$change { after: None, .. })|*)
            }

            /// The row alone: as it is after the entry, or as it was before when it is gone, as a change that made it.
            pub fn image(&self) -> Change {
                match self {
                    $(Change::$change { before, after } => {
                        Change::$change { before: None, after: after.as_ref().or(before.as_ref()).cloned() }
                    })*
                    Change::Restored => Change::Restored,
                }
            }

            /// Whether the row was neither there before nor is there after.
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

/// What is done with a change whatever its table.
pub(crate) trait Visitor {
    fn visit<T: TableType>(&mut self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>);
}
