//! Launches of a periodic job while leaders change, clocks differ, writes are late, and the job is changed, in every
//! order. The tables and the machine are the real ones; only the writes' fate and the order of events are made up. See
//! [`world`] for the steps.

#[path = "../reconnect/explore.rs"]
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
    if let Some((path, why)) = failure {
        panic!("{name}: {path:?}: {why}");
    }
}

#[test]
fn each_time_is_launched_once_whatever_leaders_and_writes_do() {
    check("every minute", World::new(false), Step::LEADERS, 7);
}

#[test]
fn each_time_is_launched_once_while_the_job_is_changed_and_stopped() {
    check("every minute", World::new(false), Step::ALL, 6);
}

#[test]
fn job_that_prohibits_overlap_has_one_running_child_in_every_order() {
    check("without overlap", World::new(true), Step::OVERLAP, 7);
}
