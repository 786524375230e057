//! Bringing a world to rest, and what must hold there.

use songline_lang::schedule::Schedule;
use songline_model::{Dur, Job};

use crate::world::{Step, World};

/// Most launches that are carried out at one time; more than any world here has open.
const LAUNCHES_MAX: usize = 40;

/// The schedule of a job.
pub(crate) fn schedule(job: &Job) -> Schedule {
    Schedule::of(job.periodic.as_ref().expect("the job is periodic"))
}

/// A rule that the step itself broke: launches come in the order of their times, each once, and not early.
pub(crate) fn fault_at_once(_before: &World, after: &World) -> Option<String> {
    after.broken.clone()
}

/// Lets the leader carry out all that is due, for three more minutes; then tells which launch is missing.
pub(crate) fn fault(mut world: World) -> Option<String> {
    for _ in 0..3 {
        world.now = world.now.plus(Dur::from_secs(60));
        world.look();
        for _ in 0..LAUNCHES_MAX {
            if !world.make(Step::Write) {
                break;
            }
            world.end_children();
            world.look();
        }
    }
    if world.broken.is_some() {
        return world.broken;
    }
    if world.children() != world.launched.len() {
        return Some(format!("{} children of {} launches", world.children(), world.launched.len()));
    }
    missing(&world)
}

/// A time since the leader began that has no launch. A job that prohibits overlap may have skipped it.
fn missing(world: &World) -> Option<String> {
    let job = world.job().filter(|job| job.is_periodic_active())?;
    if world.prohibits_overlap {
        return None;
    }
    let schedule = schedule(job);
    let due = std::iter::successors(schedule.next(world.since), |time| schedule.next(*time));
    let mut due = world.missed.into_iter().chain(due.take_while(|time| *time <= world.now));
    let missing = due.find(|time| !world.launched.contains(time))?;
    Some(format!("{} is not launched; {:?} are", missing.secs(), world.launched))
}
