//! Adds the scheduler's running time to its decisions: the scheduler has no clock of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use songline_model::{AllocMetric, Dur, Evaluation, Str};
use songline_scheduler::{Done, Step};

/// Divides the time of a step among the placements that it tried. Metrics that already have a time keep it.
pub(crate) fn stamp(mut step: Step, took: Duration) -> Step {
    match &mut step {
        Step::Submit { create, plan } => {
            let placed: usize = plan.node_allocation.values().map(Vec::len).sum();
            let each = share(took, placed);
            for alloc in plan.node_allocation.values_mut().flatten() {
                let Some(metrics) = alloc.metrics.as_ref().filter(|metrics| metrics.allocation_time == Dur::ZERO)
                else {
                    continue;
                };
                let timed = Arc::new(AllocMetric { allocation_time: each, ..AllocMetric::clone(metrics) });
                Arc::make_mut(alloc).metrics = Some(timed);
            }
            create.iter_mut().for_each(|eval| stamp_failures(eval, took));
        }
        Step::Done { create, done } => {
            create.iter_mut().for_each(|eval| stamp_failures(eval, took));
            match &mut **done {
                Done::Update(eval) | Done::Reblock(eval) => stamp_failures(eval, took),
            }
        }
    }
    step
}

/// Like [`stamp`], for the groups of an evaluation that could not be placed.
pub(crate) fn stamp_failures(eval: &mut Evaluation, took: Duration) {
    let Some(failed) = &mut eval.failed_tg_allocs else { return };
    stamp_metrics(Arc::make_mut(failed), took);
}

/// Like [`stamp`], for bare metrics by group.
pub(crate) fn stamp_metrics(failed: &mut BTreeMap<Str, AllocMetric>, took: Duration) {
    let each = share(took, failed.len());
    for metric in failed.values_mut().filter(|metric| metric.allocation_time == Dur::ZERO) {
        metric.allocation_time = each;
    }
}

fn share(took: Duration, placements: usize) -> Dur {
    let placements = i64::try_from(placements.max(1)).unwrap_or(i64::MAX);
    Dur((Dur::from(took).nanos() / placements).max(1))
}
