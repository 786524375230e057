//! Sweeps: many evaluations that one entry drops, stored as one piece. Stores derived from the log keep a sweep
//! instead of one record for each evaluation, and expand it on reads. This module knows nothing of the form of
//! records.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_commands::Kind;
use songline_model::{DeploymentId, EvalId, Evaluation, JobKey, Str};
use songline_projections::Change;

/// Smallest number of dropped rows that make a sweep. Fewer rows are recorded one by one.
const ROWS_MIN: usize = 16;

/// Evaluations that one entry dropped, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sweep {
    jobs: Vec<JobKey>,
    rows: Vec<Row>,
    /// Create indexes of the first and of the last evaluation.
    created: (u64, u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    id: EvalId,
    /// Position of the job in `jobs`.
    job: u32,
    deployment: Option<DeploymentId>,
}

/// Stored form of a sweep: columns of ids and numbers.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    created: (u64, u64),
    #[serde(borrow)]
    jobs: Vec<(&'a str, &'a str)>,
    #[serde(with = "serde_bytes")]
    ids: &'a [u8],
    #[serde(with = "serde_bytes")]
    jobs_of: &'a [u8],
    deployments: BTreeMap<u32, DeploymentId>,
}

/// The evaluation that a change drops.
fn dropped(change: &Change) -> Option<&Arc<Evaluation>> {
    match change {
        Change::Eval { before: Some(before), after: None } => Some(before),
        _ => None,
    }
}

impl Sweep {
    /// Splits an entry's changes into its sweep and all others. `None`: the entry does not sweep.
    pub(crate) fn split(kind: Kind, changes: &[Change]) -> Option<(Self, Vec<Change>)> {
        let may_sweep = matches!(kind, Kind::EvalReap | Kind::EvalDelete | Kind::WorkContinue);
        if !may_sweep || changes.iter().filter_map(dropped).take(ROWS_MIN).count() < ROWS_MIN {
            return None;
        }
        let mut sweep = Self { jobs: Vec::new(), rows: Vec::new(), created: (u64::MAX, 0) };
        let mut others = Vec::new();
        let mut places = BTreeMap::new();
        for change in changes {
            let Some(eval) = dropped(change) else {
                others.push(change.clone());
                continue;
            };
            let names = (eval.namespace.as_str(), eval.job_id.as_str());
            let job = *places.entry(names).or_insert_with(|| {
                sweep.jobs.push(JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() });
                u32::try_from(sweep.jobs.len() - 1).expect("an entry has fewer than 2^32 changes")
            });
            sweep.rows.push(Row { id: eval.id, job, deployment: eval.deployment_id });
            sweep.created = (sweep.created.0.min(eval.create_index), sweep.created.1.max(eval.create_index));
        }
        Some((sweep, others))
    }

    /// Create indexes of the first and of the last evaluation.
    pub(crate) fn created(&self) -> (u64, u64) {
        self.created
    }

    /// Namespace of an evaluation of the sweep.
    pub(crate) fn namespace_of(&self, id: EvalId) -> Option<Str> {
        let row = self.rows.iter().find(|row| row.id == id)?;
        Some(self.jobs.get(row.job as usize)?.namespace.0.clone())
    }

    /// The drops as changes. The rows have only the fields that dropped rows show.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        self.rows.iter().filter_map(|row| {
            let job = self.jobs.get(row.job as usize)?;
            let before = Evaluation {
                id: row.id,
                namespace: job.namespace.clone(),
                job_id: job.id.clone(),
                deployment_id: row.deployment,
                ..Evaluation::default()
            };
            Some(Change::Eval { before: Some(Arc::new(before)), after: None })
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let ids: Vec<u8> = self.rows.iter().flat_map(|row| *row.id.as_bytes()).collect();
        let jobs_of: Vec<u8> = self.rows.iter().flat_map(|row| row.job.to_be_bytes()).collect();
        let deployments = (0_u32..).zip(&self.rows).filter_map(|(at, row)| Some((at, row.deployment?))).collect();
        let jobs = self.jobs.iter().map(|job| (job.namespace.as_str(), job.id.as_str())).collect();
        let stored = Stored { created: self.created, jobs, ids: &ids, jobs_of: &jobs_of, deployments };
        rmp_serde::to_vec(&stored).expect("texts, bytes and numbers fit into msgpack")
    }

    /// Decodes bytes of [`Self::encode`]. `None`: they are damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let stored: Stored<'_> = rmp_serde::from_slice(bytes).ok()?;
        let (ids, rest) = stored.ids.as_chunks::<16>();
        let (jobs_of, rest_of_jobs) = stored.jobs_of.as_chunks::<4>();
        let jobs: Vec<_> = stored.jobs.iter().map(|(namespace, id)| JobKey::new(*namespace, *id)).collect();
        let rows = (0_u32..).zip(ids.iter().zip(jobs_of)).map(|(at, (id, job))| Row {
            id: EvalId::from_bytes(*id),
            job: u32::from_be_bytes(*job),
            deployment: stored.deployments.get(&at).copied(),
        });
        let rows: Vec<Row> = rows.collect();
        let is_whole = rest.is_empty() && rest_of_jobs.is_empty() && ids.len() == jobs_of.len();
        (is_whole && rows.iter().all(|row| (row.job as usize) < jobs.len())).then_some(Self {
            jobs,
            rows,
            created: stored.created,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops(rows: u8) -> Vec<Change> {
        let eval = |n: u8| Evaluation {
            id: EvalId::from_bytes([n + 1; 16]),
            namespace: if n.is_multiple_of(2) { "default" } else { "dev" }.into(),
            job_id: format!("job-{}", n % 3).into(),
            deployment_id: Some(DeploymentId::from_bytes([n; 16])).filter(|_| n % 5 == 1),
            create_index: 100 + u64::from(n),
            ..Evaluation::default()
        };
        (0..rows).map(|n| Change::Eval { before: Some(Arc::new(eval(n))), after: None }).collect()
    }

    #[test]
    fn sweep_survives_encoding_and_yields_its_changes_in_order() {
        let mut changes = drops(40);
        changes.insert(7, Change::Restored);
        let (sweep, others) = Sweep::split(Kind::WorkContinue, &changes).expect("these are many");
        assert_eq!((others, sweep.created()), (vec![Change::Restored], (100, 139)));
        let bytes = sweep.encode();
        assert_eq!(Sweep::decode(&bytes).as_ref(), Some(&sweep));
        assert_eq!(Sweep::decode(&bytes[..bytes.len() - 1]), None, "what is cut off is damaged");
        let told = |change: &Change| {
            let row = dropped(change)?;
            Some((row.id, row.namespace.clone(), row.job_id.clone(), row.deployment_id))
        };
        assert!(sweep.changes().map(|change| told(&change)).eq(drops(40).iter().map(told)));
        assert_eq!(sweep.namespace_of(EvalId::from_bytes([2; 16])).as_deref(), Some("dev"));
        assert_eq!(sweep.namespace_of(EvalId::from_bytes([99; 16])), None);
    }

    #[test]
    fn few_rows_and_other_command_kinds_make_no_sweep() {
        assert_eq!(Sweep::split(Kind::WorkContinue, &drops(15)), None);
        assert_eq!(Sweep::split(Kind::EvalUpdate, &drops(40)), None);
    }
}
