//! When two worlds are the same for all that can come: their rows without indexes, ids and absolute times. What both
//! sides are done with is left out, except for whom it hands on to.

use std::collections::BTreeMap;
use std::fmt::Write;

use songline_model::{AllocId, Allocation, EvalId};

use crate::world::{A, C, World};

pub(crate) fn of(world: &World) -> String {
    let mut key = String::new();
    write_key(world, &mut key).expect("a String takes everything");
    key
}

fn write_key(world: &World, key: &mut String) -> std::fmt::Result {
    let node = world.state.node(A).expect("a is registered");
    let told = node.last_alloc_update_index > node.last_missed_heartbeat_index;
    write!(
        key,
        "{} {} {} {told} {};",
        node.status,
        node.drain_strategy.is_some(),
        node.last_missed_heartbeat_index == 0,
        world.changes % 2
    )?;
    let other = world.state.node(C).map(|node| (node.status, node.last_missed_heartbeat_index == 0));
    write!(key, "{other:?};")?;
    let evals: Vec<_> = world.pending().collect();
    let numbers: BTreeMap<EvalId, usize> = evals.iter().enumerate().map(|(number, eval)| (eval.id, number)).collect();
    for eval in &evals {
        let wait = eval.wait_until.map(|at| at.since(world.now).nanos().max(0));
        write!(key, "{} {wait:?};", eval.triggered_by)?;
    }
    write!(key, "{};", world.state.blocked_evals_of_job("default", "j").count())?;
    let over = |alloc: &Allocation| alloc.server_terminal() && alloc.client_terminal();
    let kept: Vec<_> = world.state.allocs().filter(|alloc| !over(alloc)).collect();
    let places: BTreeMap<AllocId, usize> = kept.iter().enumerate().map(|(place, alloc)| (alloc.id, place)).collect();
    let job = world.state.job("default", "j").expect("the job is registered");
    for alloc in &kept {
        let version = alloc.job.as_ref().map_or(0, |own| job.version - own.version);
        let states: Vec<_> = alloc.alloc_states.iter().flatten().map(|state| state.value.as_str()).collect();
        let last = states.last();
        let left = alloc.last_unknown().map(|since| since.since(world.now));
        let followup = alloc.followup_eval_id.map(|id| numbers.get(&id));
        let score = alloc
            .metrics
            .as_ref()
            .and_then(|metrics| Some(metrics.score_meta_data.as_ref()?.first()?.norm_score.to_bits()));
        write!(
            key,
            "{} {} {} {} {} {} {last:?} {left:?} {followup:?} {score:?} {:?} {:?};",
            alloc.name,
            alloc.node_name,
            version,
            alloc.desired_status,
            alloc.client_status,
            alloc.desired_transition.should_migrate(),
            next_kept(world, alloc, &places),
            world.clients.values().find_map(|client| client.get(&alloc.id)),
        )?;
    }
    // What a client still has to say of rows that are over.
    for (id, status) in world.clients.values().flatten() {
        if let Some(alloc) = world.state.alloc(*id).filter(|alloc| over(alloc) && alloc.client_status != *status) {
            write!(key, "{} {} {status};", alloc.name, alloc.client_status)?;
        }
    }
    Ok(())
}

/// The replacements that still matter: not terminal, or named by another alloc.
fn next_kept(world: &World, alloc: &Allocation, places: &BTreeMap<AllocId, usize>) -> Option<usize> {
    let mut next = alloc.next_allocation;
    while let Some(id) = next {
        if let Some(place) = places.get(&id) {
            return Some(*place);
        }
        next = world.state.alloc(id).and_then(|alloc| alloc.next_allocation);
    }
    None
}
