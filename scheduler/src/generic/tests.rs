//! The scheduler as a whole on a real state, as stories: see [`cluster::tell`].

mod away;
mod changes;
pub(crate) mod cluster;
mod evals;
mod fixed;
mod placing;
mod unbuilt;

use expect_test::Expect;

/// Runs the story and compares what it told.
#[track_caller]
fn check(story: &str, expected: Expect) {
    expected.assert_eq(&cluster::tell(story));
}
