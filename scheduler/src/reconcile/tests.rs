//! Stories of the reconciler beside its golden cases, which are in `tests/golden`.

mod deployments;
mod disconnect;
mod nodes;
mod replaced;
mod story;

use expect_test::Expect;

/// Reconciles the story (see [`story::reconcile`]) and compares the result.
#[track_caller]
fn check(story: &str, expected: Expect) {
    expected.assert_eq(&story::reconcile(story));
}
