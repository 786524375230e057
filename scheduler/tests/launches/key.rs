//! When two worlds are the same for all that can come.

use crate::world::World;

pub(crate) fn of(world: &World) -> String {
    let open: Vec<i64> = world.open.iter().map(|launch| launch.at.secs()).collect();
    let job = world.job().map(|job| (job.submit_time, job.stop, job.periodic.clone()));
    let running = world.state.evals().filter(|eval| !eval.status.is_terminal()).count();
    let World { machine, now, launched, since, missed, broken, .. } = world;
    format!("{machine:?} {now:?} {open:?} {job:?} {running} {launched:?} {since:?} {missed:?} {broken:?}")
}
