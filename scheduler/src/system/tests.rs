//! Stories of whole evaluations of system and sysbatch jobs, told in the language of `generic/tests/cluster.rs`.

mod changes;
mod nodes;
mod placing;
mod preempting;
mod random;
mod sysbatch;

use expect_test::Expect;

use crate::generic::tests::cluster;

/// Runs the story and compares its output.
#[track_caller]
fn check(story: &str, expected: Expect) {
    expected.assert_eq(&cluster::tell(story));
}
