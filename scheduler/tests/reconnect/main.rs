//! A node goes away and comes back: everything that can be said meanwhile, in every order. The tables are the real
//! ones, and so are the scheduler, the applier and the rules of node calls; only clients and the order of events are
//! made up. See [`world`] for the steps.

mod explore;
mod key;
mod rest;
mod world;

use explore::Explored;
use world::{Step, World};

#[expect(clippy::disallowed_macros, reason = "how much was seen is worth telling")]
fn check(name: &str, start: World, steps: &[Step], depth: usize) {
    let Explored { paths, states, failure } = explore::every_order(start, steps, depth);
    println!("{name}: depth {depth}, {paths} paths, {states} different states, each brought to rest");
    if let Some((path, what)) = failure {
        let story: Vec<String> = path.iter().map(Step::to_string).collect();
        panic!("{name}: {what}\n  after: {}", story.join(", "));
    }
}

#[test]
fn reconnecting_node_leaves_the_wanted_alloc_count_in_every_event_order() {
    check("replaced at once", World::disconnected(1, 0), Step::RETURN, 8);
    check("two replaced at once", World::disconnected(2, 0), Step::RETURN, 6);
}

#[test]
fn node_may_reconnect_before_its_allocs_are_replaced_in_every_event_order() {
    check("replaced later", World::disconnected(1, 60), Step::RETURN, 8);
}

#[test]
fn node_may_disconnect_again_and_allocs_fail_in_every_event_order() {
    check("replaced at once", World::disconnected(1, 0), Step::ALL, 5);
    check("replaced later", World::disconnected(1, 60), Step::ALL, 5);
}

#[test]
fn node_may_be_drained_while_it_reconnects_in_every_event_order() {
    check("replaced at once", World::disconnected(1, 0), Step::DRAIN, 5);
    check("two replaced at once", World::disconnected(2, 0), Step::DRAIN, 4);
    check("two replaced later", World::disconnected(2, 60), Step::DRAIN, 4);
}

#[test]
fn second_node_may_reconnect_while_the_first_drains_in_every_event_order() {
    check("two replaced at once", World::disconnected(2, 0), Step::TWO, 5);
    check("two replaced later", World::disconnected(2, 60), Step::TWO, 4);
}
