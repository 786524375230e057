//! For tests: the invariants of every state, recomputed from the rows alone.

use std::collections::{BTreeMap, BTreeSet};

use imbl::OrdMap;
use songline_model::{AllocId, Allocation, Eligibility, EvalStatus, JobKey, NamespaceName, RootKeyId};

use crate::alloc::Counts;
use crate::digest;
use crate::key_set::KeySet;
use crate::node::ready::ReadyByPool;
use crate::row_map::RowMap;
use crate::table::{Kept, TableType, TableVisitor, VisitsTable};
use crate::{Digest, State, Table};

/// Panics when an index, a digest, a count or an invariant disagrees with the rows.
pub(crate) fn consistent(state: &State) {
    for table in Table::ALL {
        table.visit(Digests(state));
    }
    invariants(state);
    indexes(state);
    crate::acl::check::consistent(state);
}

struct Digests<'a>(&'a State);

impl TableVisitor for Digests<'_> {
    type Out = ();
}

impl<T: TableType> VisitsTable<T> for Digests<'_> {
    fn visit(self) {
        let mut sum = Digest::ZERO;
        for (key, entry) in T::rows(self.0).0.iter() {
            let row = entry.kept.row(self.0, key);
            assert!(*key == T::key(&row), "{}: a row is below its own key", T::TABLE.name());
            let hash = digest::row::<T>(key, &row, &mut Vec::new());
            assert_eq!(hash, entry.hash, "{}: the hash is that of the row", T::TABLE.name());
            sum = sum.plus(hash);
        }
        assert_eq!(sum, self.0.digests[T::TABLE as usize], "{}: the digest is the sum of its rows", T::TABLE.name());
    }
}

fn invariants(state: &State) {
    for job in state.jobs() {
        assert!(state.job_summary(&job.namespace, &job.id).is_some(), "{}: a job has a summary", job.id);
        assert!(state.job_version(&job.namespace, &job.id, job.version).is_some(), "{}: its version is kept", job.id);
    }
    for key in state.job_summaries().map(|row| JobKey::new(&*row.namespace, &*row.job_id)) {
        assert!(state.job_by_key(&key).is_some(), "a summary is a job's");
    }
    for launch in state.periodic_launches() {
        assert!(state.job_by_key(&launch.key()).is_some(), "{}: only jobs launch", launch.id);
    }
    for policy in state.scaling_policies() {
        assert!(state.job_by_key(&policy.target_key().job).is_some(), "a scaling policy is a job's");
    }
    for row in state.tables.scaling_event.iter() {
        assert!(state.job_by_key(&row.job_key()).is_some(), "scaling events are a job's");
        assert!(
            row.scaling_events.values().all(|events| events.len() <= songline_model::SCALING_EVENTS_MAX),
            "a group keeps twenty"
        );
    }
    for alloc in state.allocs() {
        assert!(
            alloc.job.is_some() && !alloc.job_id.is_empty() && !alloc.namespace.is_empty(),
            "an alloc knows its job"
        );
    }
    for node in state.nodes() {
        assert!(
            node.drain_strategy.is_none() || node.scheduling_eligibility == Eligibility::Ineligible,
            "a draining node is ineligible"
        );
        assert!(node.events.iter().flatten().count() <= 10, "a node keeps ten events");
    }
    for deployment in state.deployments() {
        for id in deployment.task_groups.iter().flatten().flat_map(|(_, group)| group.placed_canaries.iter().flatten())
        {
            assert!(
                state.alloc(*id).is_none_or(|alloc| alloc.deployment_id == Some(deployment.id)),
                "canaries are the deployment's own"
            );
        }
    }
    assert!(
        state.namespace("default").is_some()
            && state.node_pool("default").is_some()
            && state.node_pool("all").is_some()
    );
    assert!(state.latest_index() <= state.applied_index().max(1), "no table is ahead of the log");
}

fn indexes(state: &State) {
    let by = &state.by;
    let rows = |table| state.table_len(table);
    assert_eq!(state.evals().count(), rows(Table::Evals));
    assert_eq!(by.evals_by_create.len(), rows(Table::Evals));
    for ((created, id), packed) in by.evals_by_create.iter() {
        let eval = state.eval(*id).expect("an index holds ids of rows");
        assert_eq!(
            (eval.create_index, &eval),
            (*created, &packed.row(id)),
            "the rows of the index are those of the table"
        );
        assert!(by.evals_by_status[eval.status as usize].range((*created, *id)..=(*created, *id)).next().is_some());
        assert!(eval.node_id.is_none_or(|node| by.evals_by_node[&node].range(*id..=*id).next().is_some()));
    }
    assert_eq!(by.evals_by_status.iter().map(crate::runs::Runs::len).sum::<usize>(), rows(Table::Evals));
    let with_node = state.evals().filter(|eval| eval.node_id.is_some()).count();
    assert_eq!(by.evals_by_node.values().map(|evals| evals.len()).sum::<usize>(), with_node);
    assert_eq!(by.evals_by_job.values().map(|evals| evals.iter().count()).sum::<usize>(), rows(Table::Evals));
    let blocked: BTreeSet<_> = state
        .evals()
        .filter(|eval| eval.status == EvalStatus::Blocked)
        .map(|eval| (JobKey::new(&*eval.namespace, &*eval.job_id), eval.id))
        .collect();
    assert_eq!(blocked, by.blocked_evals.iter().cloned().collect());
    assert_eq!(state.allocs().count(), rows(Table::Allocs));
    assert_eq!(by.allocs_by_create.len(), rows(Table::Allocs));
    for (key, allocs) in &by.allocs_by_job {
        assert!(!allocs.is_empty());
        allocs.iter().for_each(|(id, row)| {
            assert!(row.job_key() == *key && std::sync::Arc::ptr_eq(row, state.alloc(*id).expect("is there")))
        });
    }
    for (node, allocs) in &by.allocs_by_node {
        assert!(!allocs.is_empty());
        allocs.iter().for_each(|(id, listed)| {
            let row = &listed.row;
            assert!(row.node_id == Some(*node) && std::sync::Arc::ptr_eq(row, state.alloc(*id).expect("is there")));
            assert_eq!(listed.alloc_modify_index, row.alloc_modify_index);
            assert_eq!(listed.has_previous, row.previous_allocation.is_some());
        });
    }
    assert_eq!(by.allocs_by_job.values().map(imbl::OrdMap::len).sum::<usize>(), rows(Table::Allocs));
    let count = |has: fn(&Allocation) -> bool| state.allocs().filter(|alloc| has(alloc)).count();
    assert_eq!(
        by.allocs_by_node.values().map(imbl::OrdMap::len).sum::<usize>(),
        count(|alloc| alloc.node_id.is_some())
    );
    let in_sets = |sets: &mut dyn Iterator<Item = &KeySet<AllocId>>| sets.map(KeySet::len).sum::<usize>();
    assert_eq!(in_sets(&mut by.allocs_by_eval.values()), count(|alloc| alloc.eval_id.is_some()));
    assert_eq!(in_sets(&mut by.allocs_by_deployment.values()), count(|alloc| alloc.deployment_id.is_some()));
    assert_eq!(by.deployments_by_create.len(), rows(Table::Deployment));
    assert_eq!(by.deployments_by_job.len(), rows(Table::Deployment));
    assert_eq!(by.nodes_by_pool.len(), rows(Table::Nodes));
    assert_eq!(by.nodes_by_secret.len(), rows(Table::Nodes));
    assert!(state.nodes().all(|node| by.nodes_by_pool.contains(&(node.node_pool.clone(), node.id))));
    let mut ready = ReadyByPool::new();
    state.nodes().for_each(|node| crate::node::ready::move_node(&mut ready, None, Some(node)));
    assert_eq!(by.ready_nodes, ready, "the ready nodes are those of the table");
    let mut usage = OrdMap::new();
    state.allocs().for_each(|alloc| crate::node::usage::count(&mut usage, None, Some(alloc)));
    assert_eq!(by.usage_by_node, usage, "the usage of nodes is the sum of their allocations");
    crate::csi::check::consistent(state);
    let filtered: Vec<_> = state.work_under_way().filter_map(|work| work.filter()).map(|(id, _)| id).collect();
    assert_eq!(filtered, by.work_filters.keys().copied().collect::<Vec<_>>(), "work under way has a parsed filter");
    assert_eq!(by.idempotency_by_index.len() + by.forwarded_by_index.len(), rows(Table::Idempotency));
    variables_and_keys(state);
    crate::quota::check::consistent(state);
    assert_eq!(rows(Table::EventSinks), rows(Table::EventSinkProgress));
    assert!(state.event_sinks().all(|sink| state.event_sink_progress(&sink.id).is_some()), "a sink has its progress");
    assert_eq!(by.policies_by_target.len(), rows(Table::ScalingPolicy));
    assert_eq!(by.policies_by_type.len(), rows(Table::ScalingPolicy));
    let targets: BTreeSet<_> = state.scaling_policies().map(|row| row.target_key()).collect();
    assert_eq!(targets.len(), rows(Table::ScalingPolicy), "one policy a target and type");
    for table in
        [by.services_by_name.len(), by.services_by_job.len(), by.services_by_node.len(), by.services_by_alloc.len()]
    {
        assert_eq!(table, rows(Table::ServiceRegistrations));
    }
    let mut counts: BTreeMap<JobKey, Counts> = BTreeMap::new();
    for alloc in state.allocs() {
        let of_job = counts.entry(alloc.job_key()).or_default();
        of_job.allocs += 1;
        of_job.allocs_live += u64::from(!alloc.terminal());
    }
    for eval in state.evals() {
        let of_job = counts.entry(JobKey::new(&*eval.namespace, &*eval.job_id)).or_default();
        of_job.evals += 1;
        of_job.evals_live += u64::from(!eval.status.is_terminal());
    }
    assert_eq!(counts, by.job_counts.iter().map(|(key, counts)| (key.clone(), *counts)).collect());
}

fn variables_and_keys(state: &State) {
    let by = &state.by;
    assert!(state.root_keys().filter(|row| row.meta.is_active()).count() <= 1, "at most one root key is active");
    assert!(
        state
            .variables()
            .all(|row| by.variables_by_path.contains(&(row.meta.path.clone(), row.meta.namespace.clone())))
    );
    assert!(state.variables().all(|row| by.variables_by_root_key.contains(&(row.encrypted.key_id, row.key()))));
    assert_eq!(
        (by.variables_by_path.len(), by.variables_by_root_key.len()),
        (state.variables().count(), state.variables().count())
    );
    let mut sizes: BTreeMap<NamespaceName, i64> = BTreeMap::new();
    for row in state.variables() {
        *sizes.entry(row.meta.namespace.clone()).or_default() += row.encrypted.data.len() as i64;
    }
    for quota in state.tables.variables_quota.iter() {
        assert_eq!(
            quota.size,
            sizes.remove(&quota.namespace).unwrap_or(0),
            "{}: the size is the sum of its variables",
            quota.namespace
        );
    }
    assert!(sizes.values().all(|size| *size == 0), "every namespace with variables is counted");
    let mut signed: BTreeMap<RootKeyId, u64> = BTreeMap::new();
    for key in state.allocs().filter(|alloc| alloc.needs_signing_key()).filter_map(|alloc| alloc.signing_key_id) {
        *signed.entry(key).or_default() += 1;
    }
    assert_eq!(signed, by.allocs_by_signing_key.iter().map(|(key, count)| (*key, *count)).collect());
}
