//! Blocked evaluations lose no wake-up: capacity comes and goes while a worker and the leader's queues are at any point
//! of their work, in every order. The tables, the queues, the scheduler and the applier are the real ones. A world in
//! which nothing is left to do must have no room for what still waits. See [`world`] for the steps.

mod world;

use std::collections::BTreeSet;

use world::{Event, Step, World};

/// Most steps of one order; far more than any order here has.
const STEPS_MAX: usize = 400;

/// Makes these events, each once and in their order or in any, between all steps of worker and queues.
#[expect(clippy::disallowed_macros, reason = "how much was seen is worth telling")]
fn check(name: &str, events: &[Event]) {
    let start = World::new(events);
    let mut seen = BTreeSet::from([start.key()]);
    let (mut at_rest, mut open) = (0, vec![(start, Vec::<Step>::new())]);
    while let Some((world, path)) = open.pop() {
        assert!(path.len() < STEPS_MAX, "{name}: it does not come to rest");
        if world.is_at_rest() {
            at_rest += 1;
            if let Some(what) = world.fault() {
                let story: Vec<String> = path.iter().map(|step| format!("{step:?}")).collect();
                panic!("{name}: {what}\n  after: {}", story.join(", "));
            }
        }
        for step in world.steps() {
            let mut next = world.clone();
            next.make(step);
            if seen.insert(next.key()) {
                open.push((next, path.iter().copied().chain([step]).collect()));
            }
        }
    }
    println!("{name}: {} different states, {at_rest} of them at rest", seen.len());
}

#[test]
fn room_that_an_ended_alloc_leaves_is_found_in_every_order() {
    check("an allocation ends", &[Event::End]);
    check("an allocation ends, the job changes", &[Event::End, Event::Register]);
    check("an allocation ends, another takes the room and ends", &[Event::End, Event::Take, Event::End]);
}

#[test]
fn nodes_that_join_or_return_are_found_in_every_order() {
    check("a node becomes eligible", &[Event::Eligible]);
    check("a node of a new class joins", &[Event::Join]);
    check("a node comes and goes", &[Event::Eligible, Event::Ineligible, Event::Join]);
    check("a node comes, another allocation takes its room and ends", &[Event::Eligible, Event::Take, Event::End]);
}

#[test]
fn node_that_changes_so_that_it_suits_is_found_in_every_order() {
    check("a node gets another class", &[Event::Reclass]);
    check("a driver heals", &[Event::Heal]);
    check("a driver heals, an allocation ends and the room is taken", &[Event::Heal, Event::Take, Event::End]);
}

#[test]
fn new_leader_finds_room_that_came_before_its_term_in_every_order() {
    check("an allocation ends, the leader changes", &[Event::End, Event::Lead]);
    check("a driver heals, the leader changes", &[Event::Heal, Event::Lead]);
    check("the leader changes, a node joins", &[Event::Lead, Event::Join]);
}
