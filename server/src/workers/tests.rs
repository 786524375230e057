//! Jobs on which the scheduler or the plan applier panics fail with the reason, and other jobs continue.

mod followers;

use std::collections::BTreeSet;

use parking_lot::Mutex;
use songline_model::{EvalStatus, Str};

use crate::hooks::Hooks;
use crate::lead::tests::{Alone, hurry};

/// Registers a job that is listed in `panics` and one that is not. The first fails with `message`, the message of its
/// panic, and the other is placed.
async fn check(panics: impl FnOnce(&Hooks) -> &Mutex<BTreeSet<Str>>, message: &str) {
    let alone = Alone::start().await;
    panics(&alone.core().hooks).lock().insert("poison".into());
    alone.register("poison").await;
    alone.until("work on it panicked", |it| (it.core().metrics.panics() > 0).then_some(())).await;
    // The one worker, and the applier, still run.
    alone.register("web").await;
    alone.until("the other job is placed", |it| (it.placed("web") == 2).then_some(())).await;
    let failed = alone.until("the evaluation has failed", |it| {
        hurry(it.core());
        it.evals("poison").into_iter().find(|eval| eval.status == EvalStatus::Failed)
    });
    let told = failed.await.status_description.to_string();
    assert_eq!((alone.core().metrics.panics(), alone.placed("poison")), (3, 0));
    assert_eq!(
        told,
        format!(
            "evaluation reached delivery limit (3): the scheduler panicked 3 times on it, the last time with \"{message}\"; \
             this is a defect of Songline, please report it"
        )
    );
    alone.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_scheduling_panics_fails_with_the_reason_and_stops_no_other() {
    check(|hooks| &hooks.scheduling_panics, "job poison is poison").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_on_which_the_applier_panics_fails_its_evaluation_and_stops_no_other() {
    check(|hooks| &hooks.applying_panics, "a plan is poison").await;
}
