//! Pages of evaluations for a list request: chooses the index that narrows the walk, and walks. The caller formats the
//! page.
//!
//! The result equals that of a walk through all evaluations, errors included: an index only skips rows that the
//! request would not match.

use std::ops::Bound;
use std::sync::Arc;

use songline_lang::bexpr::{EvalError, Filter, PlainNames};
use songline_model::{EvalId, EvalStatus, Evaluation, JobKey, NodeId};

use crate::eval::packed::{Looked, PackedEval};
use crate::key_set::KeySet;
use crate::runs::Runs;
use crate::state::State;

/// Request for a list of evaluations, ordered by create index and id.
#[derive(Clone, Copy)]
pub struct EvalList<'a> {
    /// The requested namespace; `None` if there may be several.
    pub namespace: Option<&'a str>,
    /// Whether rows of a namespace are requested.
    pub in_namespace: &'a dyn Fn(&str) -> bool,
    /// The job's id; empty selects any.
    pub job: &'a str,
    /// The status; empty selects any.
    pub status: &'a str,
    /// Filter that rows have to match.
    pub filter: Option<&'a Filter>,
    /// Whether the newest rows come first.
    pub reverse: bool,
    /// Create index of the first row. `None`: the list starts at its beginning, or with `reverse` at its end.
    pub from: Option<u64>,
    /// Whether a row lies before the first row of the page. It is not called again after the first row that does not.
    pub is_before: &'a dyn Fn(u64, EvalId) -> bool,
    /// Number of rows requested.
    pub rows_max: usize,
}

/// Fields of an evaluation that are texts or integers.
const NAMES: PlainNames<'_> = PlainNames {
    texts: &[
        "ID",
        "Namespace",
        "Type",
        "TriggeredBy",
        "JobID",
        "NodeID",
        "DeploymentID",
        "Status",
        "StatusDescription",
        "NextEval",
        "PreviousEval",
        "BlockedEval",
        "QuotaLimitReached",
    ],
    integers: &[
        "Priority",
        "JobModifyIndex",
        "NodeModifyIndex",
        "SnapshotIndex",
        "CreateIndex",
        "ModifyIndex",
        "CreateTime",
        "ModifyTime",
    ],
};

/// Largest number of keys that are merged from several sets; beyond that, a walk through all rows is cheaper.
const MERGED_MAX: usize = 10_000;
/// Cost of a row found through an index, relative to a row of the walk through all.
const LOOKUP_COST: usize = 6;

type Key = (u64, EvalId);

/// Rows to walk through.
enum Source<'a> {
    All,
    Keys(&'a KeySet<Key>),
    Runs(&'a Runs<Key>),
    Merged(Vec<Key>),
}

impl Source<'_> {
    fn none() -> Self {
        Source::Merged(Vec::new())
    }

    fn merged(mut keys: Vec<Key>) -> Self {
        keys.sort_unstable();
        Source::Merged(keys)
    }

    /// Number of rows; `None` for all.
    fn len(&self) -> Option<usize> {
        match self {
            Source::All => None,
            Source::Keys(keys) => Some(keys.len()),
            Source::Runs(keys) => Some(keys.len()),
            Source::Merged(keys) => Some(keys.len()),
        }
    }
}

impl State {
    /// The first page of rows. Fails if the filter fails on a row.
    pub fn list_evals(&self, list: &EvalList<'_>) -> Result<Vec<Arc<Evaluation>>, EvalError> {
        let range = match list.from {
            None => (Bound::Unbounded, Bound::Unbounded),
            Some(from) if list.reverse => (Bound::Unbounded, Bound::Included((from, EvalId::from_bytes([0xff; 16])))),
            Some(from) => (Bound::Included((from, EvalId::NIL)), Bound::Unbounded),
        };
        let row = |key: &Key| (*key, self.by.evals_by_create.get(key).expect("an index holds ids of rows"));
        match self.narrowest(list) {
            Source::All => walk(list, self.by.evals_by_create.range(range).map(|(key, packed)| (*key, packed))),
            Source::Keys(keys) => walk(list, keys.range(range).map(row)),
            Source::Runs(keys) => walk(list, keys.range(range).map(|(key, ())| row(key))),
            Source::Merged(keys) => {
                walk(list, keys.iter().filter(|key| std::ops::RangeBounds::contains(&range, *key)).map(row))
            }
        }
    }

    /// The index with the fewest matching rows; all rows if it saves too little.
    fn narrowest(&self, list: &EvalList<'_>) -> Source<'_> {
        let mut demands = list.filter.map(|filter| filter.demands(NAMES)).unwrap_or_default();
        demands.extend([
            ("JobID", list.job),
            ("Status", list.status),
            ("Namespace", list.namespace.unwrap_or_default()),
        ]);
        demands.retain(|(_, literal)| !literal.is_empty());
        let namespace = demands.iter().find(|(field, _)| *field == "Namespace").map(|(_, literal)| *literal);
        let sources = demands.iter().filter_map(|(field, literal)| self.source(field, literal, namespace));
        let narrowest = sources.min_by_key(Source::len).unwrap_or(Source::All);
        match narrowest.len() {
            Some(len) if len.saturating_mul(LOOKUP_COST) <= self.by.evals_by_create.len() => narrowest,
            Some(_) | None => Source::All,
        }
    }

    /// The rows whose field equals `literal`. `None`: no index has the field, or too many sets would have to be
    /// merged.
    fn source(&self, field: &str, literal: &str, namespace: Option<&str>) -> Option<Source<'_>> {
        match field {
            "ID" => Some(
                match literal
                    .parse::<EvalId>()
                    .ok()
                    .and_then(|id| Some((self.tables.evals.get(&id)?.create_index(), id)))
                {
                    Some(key) => Source::Merged(vec![key]),
                    None => Source::none(),
                },
            ),
            "NodeID" => match literal.parse::<NodeId>().ok().and_then(|node| self.by.evals_by_node.get(&node)) {
                Some(ids) if ids.len() > MERGED_MAX => None,
                Some(ids) => {
                    let created =
                        |id: &EvalId| self.tables.evals.get(id).expect("an index holds ids of rows").create_index();
                    Some(Source::merged(ids.iter().map(|id| (created(id), *id)).collect()))
                }
                None => Some(Source::none()),
            },
            "Status" => Some(match EvalStatus::from_word(literal) {
                Some(status) => Source::Runs(&self.by.evals_by_status[status as usize]),
                None => Source::none(),
            }),
            "JobID" => match namespace {
                Some(namespace) => Some(match self.by.evals_by_job.get(&JobKey::new(namespace, literal)) {
                    Some(keys) => Source::Keys(keys),
                    None => Source::none(),
                }),
                None => merge(self.sets_in_namespaces(literal)),
            },
            "Namespace" => {
                let from = JobKey::new(literal, "");
                let of_namespace = self.by.evals_by_job.range::<_, JobKey>(from..);
                merge(of_namespace.take_while(|(key, _)| key.namespace == *literal).map(|(_, keys)| keys))
            }
            _ => None,
        }
    }

    /// The evaluations of the jobs with this id, one set per namespace.
    fn sets_in_namespaces<'s>(&'s self, job: &str) -> impl Iterator<Item = &'s KeySet<Key>> {
        let mut from = Some(JobKey::default());
        let namespaces = std::iter::from_fn(move || {
            let (key, _) = self.by.evals_by_job.range::<_, JobKey>(from.take()?..).next()?;
            // No name contains NUL, so this key is after all jobs of the namespace and before those of the next one.
            from = Some(JobKey::new(format!("{}\0", key.namespace), ""));
            Some(key.namespace.clone())
        });
        let job = job.to_owned();
        namespaces.filter_map(move |namespace| self.by.evals_by_job.get(&JobKey::new(namespace.as_str(), job.as_str())))
    }
}

/// Merges the keys of sets in order. `None`: there are more than `MERGED_MAX`.
fn merge<'a>(sets: impl Iterator<Item = &'a KeySet<Key>>) -> Option<Source<'a>> {
    let mut keys = Vec::new();
    for set in sets {
        if keys.len() + set.len() > MERGED_MAX {
            return None;
        }
        keys.extend(set.iter().copied());
    }
    Some(Source::merged(keys))
}

fn walk<'a>(
    list: &EvalList<'_>,
    rows: impl DoubleEndedIterator<Item = (Key, &'a PackedEval)>,
) -> Result<Vec<Arc<Evaluation>>, EvalError> {
    if list.reverse { walk_on(list, rows.rev()) } else { walk_on(list, rows) }
}

fn walk_on<'a>(
    list: &EvalList<'_>,
    rows: impl Iterator<Item = (Key, &'a PackedEval)>,
) -> Result<Vec<Arc<Evaluation>>, EvalError> {
    let mut found = Vec::new();
    for ((_, id), packed) in rows.skip_while(|((created, id), _)| (list.is_before)(*created, *id)) {
        if !is_meant(list, packed) {
            continue;
        }
        if let Some(filter) = list.filter
            && !filter.matches_fields(&Looked::new(id, packed))?
        {
            continue;
        }
        found.push(packed.row(&id));
        if found.len() >= list.rows_max {
            break;
        }
    }
    Ok(found)
}

fn is_meant(list: &EvalList<'_>, packed: &PackedEval) -> bool {
    let job = packed.job();
    (list.in_namespace)(&job.namespace)
        && (list.job.is_empty() || job.id == *list.job)
        && (list.status.is_empty() || packed.status().as_str() == list.status)
}

#[cfg(test)]
mod tests;
