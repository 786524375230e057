//! Jobs on which the scheduler, or the applier, panics: they fail with the reason, and nobody else notices.

use songline_model::EvalStatus;

use crate::server::lead::tests::{Alone, hurry};
use crate::server::lock;

/// Registers a job that is poison and one that is not. Answers why the evaluation of the first failed.
async fn told_of_poison(alone: &Alone) -> String {
    alone.register("poison").await;
    alone.until("work on it panicked", |it| (it.core().metrics.panics() > 0).then_some(())).await;
    // The one worker, and the applier, are still there.
    alone.register("web").await;
    alone.until("the other job is placed", |it| (it.placed("web") == 2).then_some(())).await;
    let failed = alone.until("the evaluation has failed", |it| {
        hurry(it.core());
        it.evals("poison").into_iter().find(|eval| eval.status == EvalStatus::Failed)
    });
    let told = failed.await.status_description.to_string();
    assert_eq!((alone.core().metrics.panics(), alone.placed("poison")), (3, 0));
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_scheduling_panics_fails_with_the_reason_and_stops_no_other() {
    let alone = Alone::start().await;
    lock(&alone.core().hooks.scheduling_panics).insert("poison".into());
    assert_eq!(
        told_of_poison(&alone).await,
        "evaluation reached delivery limit (3): the scheduler panicked 3 times on it, the last time with \"job poison is poison\"; \
         this is a defect of Songline, please report it"
    );
    alone.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_on_which_the_applier_panics_fails_its_evaluation_and_stops_no_other() {
    let alone = Alone::start().await;
    lock(&alone.core().hooks.applying_panics).insert("poison".into());
    assert_eq!(
        told_of_poison(&alone).await,
        "evaluation reached delivery limit (3): the scheduler panicked 3 times on it, the last time with \"a plan is poison\"; \
         this is a defect of Songline, please report it"
    );
    alone.stop().await;
}
