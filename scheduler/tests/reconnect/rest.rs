//! Bringing a world to rest, and what must hold there.

use std::collections::BTreeSet;

use songline_model::{AllocClientStatus, AllocDesiredStatus, Allocation, NodeStatus};

use crate::world::{A, C, Step, World};

/// More rounds than any world here needs.
const ROUNDS_MAX: usize = 60;

/// Rules that hold after every step, even if a later step would mend a violation: give two allocations one name, unless one stands in for the
/// other; or take a node for ready that was away and has not told of its allocations. (One that was down is ready at
/// once: what ran there is given up.)
pub(crate) fn fault_at_once(before: &World, after: &World) -> Option<String> {
    let status = |world: &World| world.state.node(A).map(|node| node.status).unwrap_or_default();
    let was_disconnected = matches!(status(before), NodeStatus::Initializing | NodeStatus::Disconnected);
    let mut live = after.state.allocs_of_node(A).filter(|alloc| !alloc.terminal());
    let stale = was_disconnected
        && status(after) == NodeStatus::Ready
        && live.any(|alloc| alloc.client_status == AllocClientStatus::Unknown);
    if let Some(name) = shared_name(after) {
        return Some(format!("two allocations are called {name}\n{}", told(after)));
    }
    stale.then(|| format!("the node is ready before it told of its allocations\n{}", told(after)))
}

/// A name that two allocations have of which none stands in for the other.
fn shared_name(world: &World) -> Option<String> {
    let wanted: Vec<_> = world.state.allocs().filter(|alloc| !alloc.terminal()).collect();
    let stood_in = |alloc: &Allocation| {
        let chain = std::iter::successors(alloc.next_allocation, |id| world.state.alloc(*id)?.next_allocation);
        chain.filter_map(|id| world.state.alloc(id)).any(|next| !next.server_terminal())
    };
    let mut names = BTreeSet::new();
    let second = wanted.into_iter().find(|alloc| !stood_in(alloc) && !names.insert(&alloc.name));
    second.map(|alloc| alloc.name.to_string())
}

/// Lets clients do their work, heartbeats arrive and evaluations run until nothing changes; then tells what is wrong,
/// if anything is.
pub(crate) fn fault(mut world: World) -> Option<String> {
    let nodes: Vec<_> = world.state.nodes().map(|node| node.id).collect();
    // A client whose heartbeats did not get through says everything again.
    let mut back = true;
    for _ in 0..ROUNDS_MAX {
        let before = world.state.raft_index();
        world.make(Step::Heartbeat);
        if std::mem::take(&mut back) {
            world.report(A);
            world.come_back(C);
        }
        world.settle_clients(&nodes);
        world.work();
        world.unblock();
        if world.state.raft_index() == before {
            let Some(next) = world.pending().filter_map(|eval| eval.wait_until).min() else { return wrong(&world) };
            world.now = world.now.max(next);
        }
    }
    Some(format!("it does not come to rest\n{}", told(&world)))
}

fn wrong(world: &World) -> Option<String> {
    let allocs: Vec<_> = world.state.allocs().collect();
    let live: Vec<_> = allocs.iter().filter(|alloc| !alloc.terminal()).collect();
    let running = live.iter().filter(|alloc| alloc.client_status == AllocClientStatus::Running).count();
    let names: BTreeSet<_> = live.iter().map(|alloc| &alloc.name).collect();
    let version = world.state.job("default", "j").map(|job| job.version);
    let what = if live.len() != world.count || running != world.count {
        format!("{} of {} allocations run, {} are wanted to", running, world.count, live.len())
    } else if allocs.iter().any(|alloc| alloc.client_status == AllocClientStatus::Unknown) {
        "an allocation is stuck in unknown".to_owned()
    } else if names.len() != live.len() {
        "two allocations have one name".to_owned()
    } else if world.state.node(A).is_none_or(|node| node.status != NodeStatus::Ready) {
        "the node is not ready".to_owned()
    } else if world.state.node(C).is_some_and(|node| node.status != NodeStatus::Ready) {
        "the other node is not ready".to_owned()
    } else if live.iter().any(|alloc| alloc.job.as_ref().map(|job| job.version) != version) {
        "an allocation has an old version of the job".to_owned()
    } else if live.iter().any(|alloc| alloc.needs_to_reconnect()) {
        "an allocation still counts as away".to_owned()
    } else if world.state.blocked_evals_of_job("default", "j").next().is_some() {
        "something waits for room".to_owned()
    } else {
        return None;
    };
    Some(format!("{what}\n{}", told(world)))
}

/// All rows, for the report of a failure.
fn told(world: &World) -> String {
    let mut lines = vec![format!("  node a: {}", world.state.node(A).map(|node| node.status).unwrap_or_default())];
    for alloc in world.state.allocs() {
        let node = &alloc.node_name;
        let states: Vec<_> = alloc.alloc_states.iter().flatten().map(|state| state.value.as_str()).collect();
        let wanted = match alloc.desired_status {
            AllocDesiredStatus::Run => "",
            AllocDesiredStatus::Stop | AllocDesiredStatus::Evict => &alloc.desired_description,
        };
        let version = alloc.job.as_ref().map_or(0, |job| job.version);
        lines.push(format!("  {} v{version} on {node}: {} {states:?} {wanted}", alloc.name, alloc.client_status));
    }
    lines.extend(
        world
            .state
            .evals()
            .map(|eval| format!("  eval {}: {} {}", eval.triggered_by, eval.status, eval.status_description)),
    );
    lines.join("\n")
}
