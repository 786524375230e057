//! The state at one index: rows, indexes, digests. Cloning is O(1), and a clone never changes: it is a view.
//!
//! The reads of each table are in the noun's file; every change goes through `Tx`.

use std::fmt;

use imbl::{OrdMap, OrdSet, Vector};
use songline_commands::{Envelope, WorkId};
use songline_model::{
    AllocId, Allocation, CsiPluginId, CsiVolumeKey, DeploymentId, EvalId, EvalStatus, JobKey, NamespaceName, NodeId,
    NodePoolName, QuotaName, QuotaUsed, RootKeyId, ScalingTarget, Str, Time, VariableKey,
};

use crate::alloc::{Counts, Listed};
use crate::digest::Digest;
use crate::eval::PackedEval;
use crate::key_set::KeySet;
use crate::node::ready::ReadyByPool;
use crate::node::usage::NodeUsage;
use crate::runs::Runs;
use crate::service_registration::ServiceKey;
use crate::table::{TABLES, Table, Tables};
use crate::tx::Stamp;
use crate::work::WorkFilter;

/// The index of the rows that exist before any entry.
pub const BUILT_IN_INDEX: u64 = 1;

/// Number of past totals that are remembered, to compare a digest taken some entries ago.
const HISTORY_MAX: usize = 4096;

/// All tables at one index.
#[derive(Clone)]
pub struct State {
    pub(crate) raft_index: u64,
    pub(crate) base: u64,
    pub(crate) at: Time,
    pub(crate) table_index: [u64; TABLES],
    pub(crate) digests: [Digest; TABLES],
    /// Index (as users see it) and digest total after each of the last entries, oldest first.
    pub(crate) history: Vector<(u64, Digest)>,
    pub(crate) tables: Tables,
    pub(crate) by: Indexes,
}

/// Secondary indexes. The nested maps hold rows, because readers walk many rows of one key.
#[derive(Clone, Default)]
pub(crate) struct Indexes {
    pub(crate) nodes_by_pool: OrdSet<(NodePoolName, NodeId)>,
    pub(crate) ready_nodes: ReadyByPool,
    /// Keyed by the secret as spelled.
    pub(crate) nodes_by_secret: OrdSet<(Str, NodeId)>,
    /// Holds the packed rows, because lists walk many of them in this order.
    pub(crate) evals_by_create: Runs<(u64, EvalId), PackedEval>,
    /// Evaluations of a checkpoint that is being read; sorted into the indexes when all are read.
    pub(crate) evals_loaded: Vec<((u64, EvalId), PackedEval)>,
    pub(crate) evals_by_status: [Runs<(u64, EvalId)>; EvalStatus::ALL.len()],
    /// In id order; callers sort the few evaluations of a node as they need.
    pub(crate) evals_by_node: OrdMap<NodeId, KeySet<EvalId>>,
    /// Its keys are shared with the packed evaluations.
    pub(crate) evals_by_job: OrdMap<std::sync::Arc<JobKey>, KeySet<(u64, EvalId)>>,
    pub(crate) blocked_evals: OrdSet<(JobKey, EvalId)>,
    pub(crate) allocs_by_create: Runs<(u64, AllocId)>,
    pub(crate) allocs_by_job: OrdMap<JobKey, OrdMap<AllocId, std::sync::Arc<Allocation>>>,
    pub(crate) allocs_by_node: OrdMap<NodeId, OrdMap<AllocId, Listed>>,
    pub(crate) usage_by_node: OrdMap<NodeId, NodeUsage>,
    pub(crate) allocs_by_eval: OrdMap<EvalId, KeySet<AllocId>>,
    pub(crate) allocs_by_deployment: OrdMap<DeploymentId, KeySet<AllocId>>,
    /// System jobs that are not stopped: every change of a node asks for them.
    pub(crate) system_jobs: OrdSet<JobKey>,
    pub(crate) job_counts: OrdMap<JobKey, Counts>,
    pub(crate) deployments_by_create: OrdSet<(u64, DeploymentId)>,
    pub(crate) deployments_by_job: OrdSet<(JobKey, u64, DeploymentId)>,
    pub(crate) acl: crate::acl::Indexes,
    pub(crate) csi_volumes_by_plugin: OrdSet<(CsiPluginId, CsiVolumeKey)>,
    /// Number of allocations that may still use identities signed with a key. Only the number is needed.
    pub(crate) allocs_by_signing_key: OrdMap<RootKeyId, u64>,
    pub(crate) variables_by_path: OrdSet<(Str, NamespaceName)>,
    pub(crate) variables_by_root_key: OrdSet<(RootKeyId, VariableKey)>,
    pub(crate) namespaces_by_quota: OrdSet<(QuotaName, NamespaceName)>,
    /// Amounts that the live allocations of each namespace use; namespaces without one are left out.
    pub(crate) used_by_namespace: OrdMap<NamespaceName, QuotaUsed>,
    pub(crate) policies_by_target: OrdSet<(ScalingTarget, Str)>,
    pub(crate) policies_by_type: OrdSet<(Str, Str)>,
    pub(crate) services_by_name: OrdSet<(NamespaceName, Str, Str)>,
    pub(crate) services_by_job: OrdSet<(JobKey, Str)>,
    pub(crate) services_by_node: OrdSet<(NodeId, ServiceKey)>,
    pub(crate) services_by_alloc: OrdSet<(AllocId, ServiceKey)>,
    pub(crate) idempotency_by_index: OrdSet<(u64, Str)>,
    /// Keys of servers for forwarded writes, by index.
    pub(crate) forwarded_by_index: OrdSet<(u64, Str)>,
    /// The parsed filters of the work under way that selects rows by filter.
    pub(crate) work_filters: OrdMap<WorkId, WorkFilter>,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("State");
        out.field("applied_index", &self.applied_index()).field("base", &self.base).field("at", &self.at);
        out.field("digest", &self.digest()).finish_non_exhaustive()
    }
}

impl State {
    /// The state before the first entry: the default namespace and the built-in node pools, at index 1.
    pub fn new() -> Self {
        let mut state = Self::empty();
        crate::tx::built_in(&mut state);
        state
    }

    /// A state without rows.
    pub(crate) fn empty() -> Self {
        Self {
            raft_index: 0,
            base: 0,
            at: Time::default(),
            table_index: [0; TABLES],
            digests: [Digest::ZERO; TABLES],
            history: Vector::new(),
            tables: Tables::default(),
            by: Indexes::default(),
        }
    }

    /// Index of the last applied entry, as users see it.
    pub fn applied_index(&self) -> u64 {
        self.raft_index + self.base
    }

    /// Index of the last applied entry in the Raft log.
    pub fn raft_index(&self) -> u64 {
        self.raft_index
    }

    /// Number added to a Raft index to get the index that users see. Rises when an archive is restored.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Time at which the last applied entry was proposed. Never earlier than that of the entry before.
    pub fn applied_at(&self) -> Time {
        self.at
    }

    /// Index of the last entry that changed a row of the table.
    pub fn table_index(&self, table: Table) -> u64 {
        self.table_index[table as usize]
    }

    /// Index of the last entry that changed any row.
    pub fn latest_index(&self) -> u64 {
        self.table_index.iter().copied().max().unwrap_or(0)
    }

    /// Number of rows of the table.
    pub fn table_len(&self, table: Table) -> usize {
        self.tables.len(table)
    }

    /// The digest of all tables.
    pub fn digest(&self) -> Digest {
        self.digests.iter().fold(Digest::ZERO, |sum, digest| sum.plus(*digest))
    }

    /// The digest of each table.
    pub fn table_digests(&self) -> Vec<(Table, Digest)> {
        Table::ALL.iter().map(|&table| (table, self.digests[table as usize])).collect()
    }

    /// The total digest after the entry at `index` (as users see it); `None` if it is no longer remembered.
    pub(crate) fn digest_at(&self, index: u64) -> Option<Digest> {
        let at = self.history.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.history.get(at).map(|(_, digest)| *digest)
    }

    /// Index and time at which the entry at `raft_index` is applied.
    pub(crate) fn next_stamp(&self, raft_index: u64, envelope: &Envelope) -> Stamp {
        assert!(raft_index > self.raft_index, "entries apply in order, once");
        Stamp { raft_index, index: raft_index + self.base, at: envelope.at.max(self.at), actor: envelope.actor.clone() }
    }

    /// Marks the entry at `raft_index` as applied.
    pub(crate) fn passed(&mut self, raft_index: u64, at: Time) {
        self.raft_index = raft_index;
        self.at = at;
        if self.history.len() >= HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back((self.applied_index(), self.digest()));
    }
}
