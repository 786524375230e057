//! Removal of many evaluations from the indexes at once: sorted in index order, so that each leaf is found and copied
//! once. A change or deletion of a single evaluation is handled in `eval.rs`.

use std::sync::Arc;

use songline_model::{EvalId, EvalStatus, Evaluation, NodeId};

use crate::state::Indexes;

/// Position in create order: create index and id.
type Created = (u64, EvalId);

/// Removes deleted rows from every index.
pub(super) fn all(by: &mut Indexes, gone: &[Arc<Evaluation>]) {
    leave_orders(by, gone);
    leave_nodes(by, gone);
    leave_jobs(by, gone);
    for row in gone.iter().filter(|row| row.status == EvalStatus::Blocked) {
        by.blocked_evals.remove(&(super::job_key(row), row.id));
    }
}

fn leave_orders(by: &mut Indexes, gone: &[Arc<Evaluation>]) {
    let mut created: Vec<(Created, EvalStatus)> =
        gone.iter().map(|row| ((row.create_index, row.id), row.status)).collect();
    created.sort_unstable_by_key(|(key, _)| *key);
    for &status in EvalStatus::ALL {
        let of_status: Vec<Created> = created.iter().filter(|(_, of)| *of == status).map(|(key, _)| *key).collect();
        by.evals_by_status[status as usize].remove_sorted(&of_status, |_| ());
    }
    let created: Vec<Created> = created.into_iter().map(|(key, _)| key).collect();
    by.evals_by_create.remove_sorted(&created, |_| ());
}

fn leave_nodes(by: &mut Indexes, gone: &[Arc<Evaluation>]) {
    let mut of_nodes: Vec<(NodeId, EvalId)> = gone.iter().filter_map(|row| Some((row.node_id?, row.id))).collect();
    of_nodes.sort_unstable();
    let mut ids = Vec::new();
    for of_node in of_nodes.chunk_by(|(one, _), (other, _)| one == other) {
        ids.clear();
        ids.extend(of_node.iter().map(|(_, id)| *id));
        let (node, _) = of_node[0];
        if let Some(evals) = by.evals_by_node.get_mut(&node) {
            evals.remove_sorted(&ids);
            if evals.is_empty() {
                by.evals_by_node.remove(&node);
            }
        }
    }
}

fn leave_jobs(by: &mut Indexes, gone: &[Arc<Evaluation>]) {
    let mut of_jobs: Vec<&Evaluation> = gone.iter().map(|row| &**row).collect();
    of_jobs.sort_by(|one, other| {
        let order = |row: &Evaluation| (row.create_index, row.id);
        one.namespace
            .cmp(&other.namespace)
            .then_with(|| one.job_id.cmp(&other.job_id))
            .then_with(|| order(one).cmp(&order(other)))
    });
    let mut keys = Vec::new();
    for of_job in of_jobs.chunk_by(|one, other| one.job_id == other.job_id && one.namespace == other.namespace) {
        let job = super::job_key(of_job[0]);
        keys.clear();
        keys.extend(of_job.iter().map(|row| (row.create_index, row.id)));
        super::leave_job(&mut by.evals_by_job, &job, &keys);
        let live = of_job.iter().filter(|row| !row.status.is_terminal()).count() as u64;
        crate::index::count(&mut by.job_counts, &job, |counts| {
            counts.evals -= of_job.len() as u64;
            counts.evals_live -= live;
        });
    }
}
