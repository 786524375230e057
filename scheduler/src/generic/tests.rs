//! Stories of the whole scheduler on a real state: see [`cluster::tell`].

mod abilities;
mod asks;
mod canaries;
mod changes;
pub(crate) mod cluster;
mod disconnected;
mod evals;
mod fixed;
mod granting;
mod placing;
mod preempting;
mod quotas;
mod ranking;

use expect_test::Expect;

/// Runs the story and compares its output.
#[track_caller]
fn check(story: &str, expected: Expect) {
    expected.assert_eq(&cluster::tell(story));
}
