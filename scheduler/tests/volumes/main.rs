//! Claims on a volume with a single writer: nodes that mount and unmount, allocs that end, nodes that go away, leaders
//! that change in the middle of a release, in every order. The tables, the steps of a release and the watcher are the
//! real ones; the storage and the nodes are made up. See [`world`] for the steps.

mod explore;
mod world;

use explore::Explored;
use world::{Step, World};

#[expect(clippy::disallowed_macros, reason = "how much was seen is worth telling")]
fn check(name: &str, steps: &[Step], depth: usize) {
    let Explored { paths, states, failure } = explore::every_order(World::new(false), steps, depth);
    println!("{name}: depth {depth}, {paths} paths, {states} different states, each brought to rest");
    if let Some((path, what)) = failure {
        panic!("{name}: {what}\n  after: {path:?}");
    }
}

#[test]
fn volume_never_has_two_writers_and_its_claims_are_always_freed() {
    check("two nodes", Step::TWO, 10);
}

#[test]
fn three_allocs_take_turns_in_every_event_order() {
    check("three allocs", Step::THREE, 12);
}

#[test]
fn claim_freed_before_the_controller_has_detached_the_volume_is_found() {
    let Explored { failure, .. } = explore::every_order(World::new(true), Step::TWO, 10);
    let (path, what) = failure.expect("a node that is cut off still writes");
    assert!(
        what.contains("write at a time") || what.contains("without a claim") || what.contains("not freed"),
        "{path:?}: {what}"
    );
}
