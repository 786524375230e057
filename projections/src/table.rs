//! The list of tables, and one table's storage: an ordered map of shared rows, each with the hash it adds to the table's digest.
//!
//! What a row means, which indexes it has and how its key is made is in the noun's own file. Nobody but `Tx` changes a table.

use std::sync::Arc;

use imbl::OrdMap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use songline_model::{
    AccessorId, AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, AllocId, Allocation, AutopilotConfig, BindingRuleId,
    CsiPlugin, CsiPluginId, CsiVolume, CsiVolumeKey, Deployment, DeploymentId, EvalId, Evaluation, Job, JobKey, JobSubmission, JobSummary,
    Namespace, NamespaceName, Node, NodeId, NodePool, NodePoolName, OneTimeToken, PeriodicLaunch, RoleId, RootKey, RootKeyId,
    SchedulerConfiguration, Str, Variable, VariableKey, VariablesQuota,
};

use crate::acl::AclBootstrap;
use crate::change::{Change, RowKey};
use crate::digest::{Digest, KeyBytes};
use crate::idempotency::Remembered;
use crate::operator::ClusterMetadata;
use crate::state::State;

/// Hands the list of tables to a macro: documentation, table, change, field, name, key and row of each.
macro_rules! with_tables {
    ($then:ident) => {
        $then! {
            /// Machines that run allocations.
            Nodes, Node, nodes, "nodes", NodeId => Node;
            /// Groups of nodes.
            NodePools, NodePool, node_pools, "node_pools", NodePoolName => NodePool;
            /// The current version of every job.
            Jobs, Job, jobs, "jobs", JobKey => Job;
            /// Counts of a job's allocations.
            JobSummary, JobSummary, job_summary, "job_summary", JobKey => JobSummary;
            /// The last versions of every job.
            JobVersion, JobVersion, job_version, "job_version", (JobKey, u64) => Job;
            /// What versions were written as.
            JobSubmission, JobSubmission, job_submission, "job_submission", (JobKey, u64) => JobSubmission;
            /// Ways from one version to the next.
            Deployment, Deployment, deployment, "deployment", DeploymentId => Deployment;
            /// Evaluations.
            Evals, Eval, evals, "evals", EvalId => Evaluation;
            /// Allocations.
            Allocs, Alloc, allocs, "allocs", AllocId => Allocation;
            /// How the cluster schedules: one row or none.
            SchedulerConfig, SchedulerConfig, scheduler_config, "scheduler_config", () => SchedulerConfiguration;
            /// The cluster's id: one row or none.
            ClusterMeta, ClusterMeta, cluster_meta, "cluster_meta", () => ClusterMetadata;
            /// CSI volumes.
            CsiVolumes, CsiVolume, csi_volumes, "csi_volumes", CsiVolumeKey => CsiVolume;
            /// CSI plugins, derived from nodes and jobs.
            CsiPlugins, CsiPlugin, csi_plugins, "csi_plugins", CsiPluginId => CsiPlugin;
            /// Namespaces.
            Namespaces, Namespace, namespaces, "namespaces", NamespaceName => Namespace;
            /// What tokens, roles and workloads may.
            AclPolicy, AclPolicy, acl_policy, "acl_policy", Str => AclPolicy;
            /// Who calls.
            AclToken, AclToken, acl_token, "acl_token", AccessorId => AclToken;
            /// When the first token was made: one row or none.
            AclTokenBootstrap, AclTokenBootstrap, acl_token_bootstrap, "acl_token_bootstrap", () => AclBootstrap;
            /// Secrets that are exchanged once for a token.
            OneTimeToken, OneTimeToken, one_time_token, "one_time_token", AccessorId => OneTimeToken;
            /// Several policies under one name.
            AclRoles, AclRole, acl_roles, "acl_roles", RoleId => AclRole;
            /// Who outside is believed when somebody logs in.
            AclAuthMethods, AclAuthMethod, acl_auth_methods, "acl_auth_methods", Str => AclAuthMethod;
            /// What logins may.
            AclBindingRules, AclBindingRule, acl_binding_rules, "acl_binding_rules", BindingRuleId => AclBindingRule;
            /// How the servers look after themselves: one row or none.
            AutopilotConfig, AutopilotConfig, autopilot_config, "autopilot-config", () => AutopilotConfig;
            /// When each periodic job last ran.
            PeriodicLaunch, PeriodicLaunch, periodic_launch, "periodic_launch", JobKey => PeriodicLaunch;
            /// Secret maps by path, encrypted.
            Variables, Variable, variables, "variables", VariableKey => Variable;
            /// How much the variables of a namespace take.
            VariablesQuota, VariablesQuota, variables_quota, "variables_quota", NamespaceName => VariablesQuota;
            /// What variables are encrypted with, wrapped.
            RootKeys, RootKey, root_keys, "root_key_meta", RootKeyId => RootKey;
            /// Keys of writes that run once.
            Idempotency, Idempotency, idempotency, "idempotency", Str => Remembered;
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

            /// Its name: the reference's, where it has the table.
            pub const fn name(self) -> &'static str {
                match self { $(Table::$table => $name),* }
            }
        }

        /// The tables as types.
        pub(crate) mod tables {
            $($(#[$doc])* #[derive(Debug)] pub(crate) struct $table;)*
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

        /// What is done with a table whatever it is.
        pub(crate) trait EachTable {
            type Error;
            fn table<T: TableType>(&mut self) -> Result<(), Self::Error>;
        }

        impl Table {
            /// Hands the table to `visitor` as a type.
            pub(crate) fn visit<V: EachTable>(self, visitor: &mut V) -> Result<(), V::Error> {
                match self { $(Table::$table => visitor.table::<tables::$table>()),* }
            }

            /// The table of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Table::ALL.iter().copied().find(|table| table.name() == name)
            }
        }

        $(impl TableType for tables::$table {
            type Key = $key;
            type Row = $row;
            const TABLE: Table = Table::$table;

            fn rows(state: &State) -> &Rows<Self> {
                &state.tables.$field
            }

            fn rows_mut(state: &mut State) -> &mut Rows<Self> {
                &mut state.tables.$field
            }

            fn row_key(key: &$key) -> RowKey {
                RowKey::$change(key.clone())
            }

            fn change(before: Option<Arc<$row>>, after: Option<Arc<$row>>) -> Change {
                Change::$change { before, after }
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

/// How many tables there are.
pub(crate) const TABLES: usize = Table::ALL.len();

/// What the machinery asks of a table; written by the macro above.
pub(crate) trait TableType: Rules<Self::Key, Self::Row> + Sized {
    type Key: Ord + Clone + KeyBytes;
    type Row: Serialize + DeserializeOwned;
    const TABLE: Table;

    fn rows(state: &State) -> &Rows<Self>;
    fn rows_mut(state: &mut State) -> &mut Rows<Self>;
    fn row_key(key: &Self::Key) -> RowKey;
    fn change(before: Option<Arc<Self::Row>>, after: Option<Arc<Self::Row>>) -> Change;
    /// The `before` of a change of this table.
    fn before(change: Change) -> Option<Arc<Self::Row>>;
}

/// What a noun says of its table.
pub(crate) trait Rules<K, R: Serialize + DeserializeOwned> {
    /// The key of a row.
    fn key(row: &R) -> K;

    /// Appends the bytes that count in the digest. Two rows with equal bytes are the same row.
    fn encode(row: &R, out: &mut Vec<u8>) {
        crate::digest::encode(row, out);
    }

    /// The job that is part of the row: checkpoints write each job once.
    fn job(_row: &Arc<R>) -> Option<&Arc<Job>> {
        None
    }

    /// Appends what a checkpoint holds of the row beside its job.
    fn store(row: &R, out: &mut Vec<u8>) {
        crate::digest::encode(row, out);
    }

    /// The row of what `store` wrote and of its job.
    fn load(stored: &[u8], _job: Option<Arc<Job>>) -> Result<Arc<R>, rmp_serde::decode::Error> {
        rmp_serde::from_slice(stored).map(Arc::new)
    }

    /// Brings the secondary indexes from `before` to `after`.
    fn reindex(_state: &mut State, _before: Option<&Arc<R>>, _after: Option<&Arc<R>>) {}
}

/// A row and what it adds to its table's digest.
#[derive(Debug)]
pub(crate) struct Entry<R> {
    pub(crate) row: Arc<R>,
    pub(crate) hash: Digest,
}

impl<R> Clone for Entry<R> {
    fn clone(&self) -> Self {
        Self { row: Arc::clone(&self.row), hash: self.hash }
    }
}

/// One table.
pub(crate) struct Rows<T: TableType>(pub(crate) OrdMap<T::Key, Entry<T::Row>>);

impl<T: TableType> Clone for Rows<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: TableType> Default for Rows<T> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<T: TableType> Rows<T> {
    pub(crate) fn get(&self, key: &T::Key) -> Option<&Arc<T::Row>> {
        self.0.get(key).map(|entry| &entry.row)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<T::Row>> + Clone {
        self.0.iter().map(|(_, entry)| &entry.row)
    }

    pub(crate) fn range(&self, range: impl std::ops::RangeBounds<T::Key>) -> impl DoubleEndedIterator<Item = &Arc<T::Row>> {
        self.0.range(range).map(|(_, entry)| &entry.row)
    }
}
