//! The list of tables, and the storage of one table: an ordered map of shared rows, each with the hash that it adds to
//! the table's digest.
//!
//! The noun's own file has the key, the indexes and the meaning of a row. Only `Tx` changes a table.

use std::sync::Arc;

use imbl::OrdMap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use songline_commands::WorkId;
use songline_model::*;

use crate::change::{Change, RowKey};
use crate::digest::Digest;
use crate::row_map::RowMap;
use crate::state::State;

/// Form in which a table keeps its rows: shared rows, or a place where the packed row is found, for tables with very
/// many rows.
macro_rules! kept {
    (Evals, $row:ty) => { crate::eval::EvalPlace };
    ($table:ident, $row:ty) => { Arc<$row> };
}

/// Map that holds a table's rows: a tree, or runs for very many small rows.
macro_rules! row_map {
    (Evals, $key:ty) => { crate::runs::Runs<$key, Entry<crate::eval::EvalPlace>> };
    ($table:ident, $key:ty) => { OrdMap<$key, Entry<<tables::$table as TableType>::Kept>> };
}

/// Passes the list of tables to a macro: documentation, table, change, field, name, key and row of each.
macro_rules! with_tables {
    ($then:ident) => {
        $then! {
            /// Machines that run allocations.
            Nodes, Node, nodes, "nodes", NodeId => Node;
            /// Named groups of nodes.
            NodePools, NodePool, node_pools, "node_pools", NodePoolName => NodePool;
            /// The current version of every job.
            Jobs, Job, jobs, "jobs", JobKey => Job;
            /// Numbers of a job's allocations.
            JobSummary, JobSummary, job_summary, "job_summary", JobKey => JobSummary;
            /// The last versions of every job.
            JobVersion, JobVersion, job_version, "job_version", (JobKey, u64) => Job;
            /// Source texts of job versions.
            JobSubmission, JobSubmission, job_submission, "job_submission", (JobKey, u64) => JobSubmission;
            /// Deployments: roll-outs of job versions.
            Deployment, Deployment, deployment, "deployment", DeploymentId => Deployment;
            /// Evaluations.
            Evals, Eval, evals, "evals", EvalId => Evaluation;
            /// Allocations.
            Allocs, Alloc, allocs, "allocs", AllocId => Allocation;
            /// Bounds of the counts of groups, for autoscalers.
            ScalingPolicy, ScalingPolicy, scaling_policy, "scaling_policy", Str => ScalingPolicy;
            /// Changes of the counts of groups.
            ScalingEvent, ScalingEvent, scaling_event, "scaling_event", JobKey => JobScalingEvents;
            /// Addresses of services.
            ServiceRegistrations, ServiceRegistration, service_registrations, "service_registrations", (NamespaceName, Str) => ServiceRegistration;
            /// Scheduler configuration: one row or none.
            SchedulerConfig, SchedulerConfig, scheduler_config, "scheduler_config", () => SchedulerConfiguration;
            /// The cluster's id: one row or none.
            ClusterMeta, ClusterMeta, cluster_meta, "cluster_meta", () => crate::operator::ClusterMetadata;
            /// CSI volumes.
            CsiVolumes, CsiVolume, csi_volumes, "csi_volumes", CsiVolumeKey => CsiVolume;
            /// CSI plugins, derived from nodes and jobs.
            CsiPlugins, CsiPlugin, csi_plugins, "csi_plugins", CsiPluginId => CsiPlugin;
            /// Namespaces.
            Namespaces, Namespace, namespaces, "namespaces", NamespaceName => Namespace;
            /// ACL policies of tokens, roles and workloads.
            AclPolicy, AclPolicy, acl_policy, "acl_policy", Str => AclPolicy;
            /// ACL tokens of callers.
            AclToken, AclToken, acl_token, "acl_token", AccessorId => AclToken;
            /// Index of the ACL bootstrap: one row or none.
            AclTokenBootstrap, AclTokenBootstrap, acl_token_bootstrap, "acl_token_bootstrap", () => crate::acl::AclBootstrap;
            /// Secrets that can be exchanged once for a token.
            OneTimeToken, OneTimeToken, one_time_token, "one_time_token", AccessorId => OneTimeToken;
            /// ACL roles: several policies under one name.
            AclRoles, AclRole, acl_roles, "acl_roles", RoleId => AclRole;
            /// External identity providers for logins.
            AclAuthMethods, AclAuthMethod, acl_auth_methods, "acl_auth_methods", Str => AclAuthMethod;
            /// Roles and policies that logins receive.
            AclBindingRules, AclBindingRule, acl_binding_rules, "acl_binding_rules", BindingRuleId => AclBindingRule;
            /// Autopilot configuration of the servers: one row or none.
            AutopilotConfig, AutopilotConfig, autopilot_config, "autopilot-config", () => AutopilotConfig;
            /// Last launch of each periodic job.
            PeriodicLaunch, PeriodicLaunch, periodic_launch, "periodic_launch", JobKey => PeriodicLaunch;
            /// Secret maps by path, encrypted.
            Variables, Variable, variables, "variables", VariableKey => Variable;
            /// Total size of each namespace's variables.
            VariablesQuota, VariablesQuota, variables_quota, "variables_quota", NamespaceName => VariablesQuota;
            /// Keys that encrypt variables and sign identities, wrapped.
            RootKeys, RootKey, root_keys, "root_key_meta", RootKeyId => RootKey;
            /// Idempotency keys with the results of their writes.
            Idempotency, Idempotency, idempotency, "idempotency", Str => crate::idempotency::Remembered;
            /// Long work: pieces under way, and the last ones that ended.
            PendingWork, PendingWork, pending_work, "pending_work", WorkId => crate::work::Work;
            /// Limits on what namespaces use together.
            QuotaSpecs, QuotaSpec, quota_specs, "quota_specs", QuotaName => QuotaSpec;
            /// Amounts that the namespaces of each quota use.
            QuotaUsages, QuotaUsage, quota_usages, "quota_usages", QuotaName => QuotaUsage;
            /// Receivers to which the leader delivers events.
            EventSinks, EventSink, event_sinks, "event_sinks", EventSinkName => EventSink;
            /// How far each event sink has come.
            EventSinkProgress, EventSinkProgress, event_sink_progress, "event_sink_progress", EventSinkName => EventSinkProgress;
        }
    };
}
pub(crate) use with_tables;

macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident, $change:ident, $field:ident, $name:literal, $key:ty => $row:ty;)*) => {
        /// A table of the state.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            /// Every table, in the order of checkpoints.
            pub const ALL: &'static [Table] = &[$(Table::$table),*];

            /// The table's name; the reference's where it has the table.
            pub const fn name(self) -> &'static str {
                match self { $(Table::$table => $name),* }
            }
        }

        /// One type per table.
        pub mod tables {
            $($(#[$doc])* #[derive(Debug)] pub struct $table;)*
        }

        /// The rows of all tables.
        #[derive(Clone, Default)]
        pub(crate) struct Tables {
            $(pub(crate) $field: Rows<tables::$table>,)*
        }

        impl Tables {
            pub(crate) fn len(&self, table: Table) -> usize {
                match table { $(Table::$table => self.$field.0.len()),* }
            }
        }

        impl Table {
            /// Calls the part of `visitor` that is for the table.
            pub fn visit<V>(self, visitor: V) -> V::Out
            where
                V: TableVisitor,
                $(V: VisitsTable<tables::$table>,)*
            {
                match self { $(Table::$table => VisitsTable::<tables::$table>::visit(visitor)),* }
            }

            /// The table of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Table::ALL.iter().copied().find(|table| table.name() == name)
            }
        }

        $(impl Noun for tables::$table {
            type Row = $row;
            const TABLE: Table = Table::$table;

            fn change(before: Option<Arc<$row>>, after: Option<Arc<$row>>) -> Change {
                Change::$change { before, after }
            }
        }

        impl TableType for tables::$table {
            type Key = $key;
            type Kept = kept!($table, $row);
            type Map = row_map!($table, $key);

            fn rows(state: &State) -> &Rows<Self> {
                &state.tables.$field
            }

            fn rows_mut(state: &mut State) -> &mut Rows<Self> {
                &mut state.tables.$field
            }

            fn row_key(key: &$key) -> RowKey {
                RowKey::$change(key.clone())
            }

            fn before(change: Change) -> Option<Arc<$row>> {
                match change {
                    Change::$change { before, .. } => before,
                    _ => None,
                }
            }
        })*
    };
}
with_tables!(tables);

/// Number of tables.
pub(crate) const TABLES: usize = Table::ALL.len();

/// A noun: the rows of one table. Implemented by the types of [`tables`].
pub trait Noun: 'static {
    /// A row of the table.
    type Row: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The table.
    const TABLE: Table;

    /// A change of one row.
    fn change(before: Option<Arc<Self::Row>>, after: Option<Arc<Self::Row>>) -> Change;
}

/// Operation on any table.
pub trait TableVisitor {
    /// The result of the operation.
    type Out;
}

/// Operation on one table.
pub trait VisitsTable<T: Noun>: TableVisitor {
    /// The result for the table.
    fn visit(self) -> Self::Out;
}

/// Properties of a table that the generic code of this crate needs; implemented by the macro above.
pub(crate) trait TableType: Noun + Rules<Self::Key, Self::Row> + Sized {
    type Key: Ord + Clone + KeyBytes + Send + 'static;
    type Kept: Kept<Self::Key, Self::Row>;
    type Map: RowMap<Self::Key, Entry<Self::Kept>>;

    fn rows(state: &State) -> &Rows<Self>;
    fn rows_mut(state: &mut State) -> &mut Rows<Self>;
    fn row_key(key: &Self::Key) -> RowKey;
    /// The `before` of a change of this table.
    fn before(change: Change) -> Option<Arc<Self::Row>>;
}

/// Rules of a table, implemented in the noun's file.
pub(crate) trait Rules<K, R: Serialize + DeserializeOwned> {
    /// The key of a row.
    fn key(row: &R) -> K;

    /// The row's short name in stories: its noun and its key.
    #[cfg(test)]
    fn in_story(row: &R) -> String;

    /// Appends the bytes that the digest hashes. Rows with equal bytes are equal.
    fn encode(row: &R, out: &mut Vec<u8>) {
        crate::digest::encode(row, out);
    }

    /// The job that is part of the row: checkpoints write each job once.
    fn job(_row: &Arc<R>) -> Option<&Arc<Job>> {
        None
    }

    /// Appends the bytes that a checkpoint stores for the row, without its job.
    fn store(row: &R, out: &mut Vec<u8>) {
        crate::digest::encode(row, out);
    }

    /// Rebuilds a row from the bytes of `store` and its job.
    fn load(stored: &[u8], _job: Option<Arc<Job>>) -> Result<Arc<R>, rmp_serde::decode::Error> {
        rmp_serde::from_slice(stored).map(Arc::new)
    }

    /// The row with parts of it shared with existing rows. It must be equal to `row`.
    fn share(_state: &State, row: Arc<R>) -> Arc<R> {
        row
    }

    /// Updates the secondary indexes from `before` to `after`.
    fn reindex(_state: &mut State, _before: Option<&Arc<R>>, _after: Option<&Arc<R>>) {}

    /// Removes deleted rows from the secondary indexes.
    fn reindex_gone(state: &mut State, gone: &[Arc<R>]) {
        gone.iter().for_each(|row| Self::reindex(state, Some(row), None));
    }

    /// Adds a row of a checkpoint to the indexes. Work that is cheaper for all rows at once is left to `index_loaded`.
    fn index_row(state: &mut State, row: &Arc<R>) {
        Self::reindex(state, None, Some(row));
    }

    /// Replaces a row that `index_row` added.
    fn index_row_again<Old: Kept<K, R>>(state: &mut State, key: &K, old: &Old, row: &Arc<R>) {
        let old = old.row(state, key);
        Self::reindex(state, Some(&old), Some(row));
    }
}

/// Stored form of a row in its table.
pub(crate) trait Kept<K, R>: Clone {
    /// The stored form of a row.
    fn keep(state: &State, row: &Arc<R>) -> Self;

    /// The row stored under `key`, while the indexes still hold it.
    fn row(&self, state: &State, key: &K) -> Arc<R>;
}

impl<K, R> Kept<K, R> for Arc<R> {
    fn keep(_state: &State, row: &Arc<R>) -> Self {
        Arc::clone(row)
    }

    fn row(&self, _state: &State, _key: &K) -> Arc<R> {
        Arc::clone(self)
    }
}

/// A stored row and the hash that it adds to its table's digest.
#[derive(Debug, Clone)]
pub(crate) struct Entry<Kept> {
    pub(crate) kept: Kept,
    pub(crate) hash: Digest,
}

/// The rows of one table.
pub(crate) struct Rows<T: TableType>(pub(crate) T::Map);

impl<T: TableType> Clone for Rows<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: TableType> Default for Rows<T> {
    fn default() -> Self {
        Self(T::Map::default())
    }
}

impl<T: TableType> Rows<T> {
    pub(crate) fn get(&self, key: &T::Key) -> Option<&T::Kept> {
        self.0.get(key).map(|entry| &entry.kept)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T::Kept> + Clone {
        self.0.iter().map(|(_, entry)| &entry.kept)
    }

    pub(crate) fn range(&self, range: impl std::ops::RangeBounds<T::Key>) -> impl DoubleEndedIterator<Item = &T::Kept> {
        self.0.range(range).map(|(_, entry)| &entry.kept)
    }

    /// All rows of the table, in whatever form they are stored.
    pub(crate) fn rows<'a>(state: &'a State) -> impl Iterator<Item = Arc<T::Row>>
    where
        T: 'a,
        T::Kept: 'a,
    {
        T::rows(state).0.iter().map(|(key, entry)| entry.kept.row(state, key))
    }
}
