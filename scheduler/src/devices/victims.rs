//! Preemption for devices: which allocations of a node give way for a request. They all hold devices of one group, and
//! it is the group whose holders matter least.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use songline_model::{AllocatedResources, Node, NodeDeviceResource};

use super::{Held, Request, give, groups};
use crate::preempt::Candidate;

/// An allocation that may give way, and holds devices that the request could use.
struct Holder<'a> {
    /// Its position in the candidates.
    position: usize,
    priority: i64,
    resources: &'a AllocatedResources,
    /// Number of these devices.
    devices: usize,
}

/// Positions of the allocations that give way, in ascending order, for the first of the requests that lacks devices.
/// Of the groups that would have enough devices then, the one with the lowest sum of distinct priorities is taken.
/// Empty: the devices do not suffice even if all of `staying` leave.
pub(crate) fn find<'a>(
    mut requests: impl Iterator<Item = &'a Request>,
    node: &Node,
    mut held: Held,
    staying: &[Candidate],
) -> Vec<usize> {
    let Some(request) = requests.find(|request| give(request, node, &mut held).is_err()) else { return Vec::new() };
    let matching = groups(node).filter(|group| request.matches(group));
    let best = matching.filter_map(|group| of_group(request, group, &held, staying)).min_by_key(|holders| {
        let priorities: BTreeSet<i64> = holders.iter().map(|holder| holder.priority).collect();
        priorities.iter().sum::<i64>()
    });
    let mut positions: Vec<usize> = best.unwrap_or_default().iter().map(|holder| holder.position).collect();
    positions.sort_unstable();
    positions
}

/// The holders of devices of one group that give way; `None`: the group has too few devices for the request.
fn of_group<'a>(
    request: &Request,
    group: &NodeDeviceResource,
    held: &Held,
    staying: &'a [Candidate],
) -> Option<Vec<Holder<'a>>> {
    let holder = |(position, candidate): (usize, &'a Candidate)| {
        let resources = candidate.alloc.allocated_resources.as_deref()?;
        let devices = request.count_in(group, resources);
        (devices > 0).then_some(Holder { position, priority: candidate.priority, resources, devices })
    };
    let mut holders: Vec<Holder<'a>> = staying.iter().enumerate().filter_map(holder).collect();
    holders.sort_by_key(|holder| (holder.priority, Reverse(holder.devices)));
    holders.truncate(number_of_needed(request, group, held, &holders)?);
    // Those with the most devices may suffice without some of a lower priority.
    holders.sort_by_key(|holder| Reverse(holder.devices));
    holders.truncate(number_of_needed(request, group, held, &holders)?);
    Some(holders)
}

/// Number of the first holders that have to leave until the group has enough free devices; `None`: all are too few.
fn number_of_needed(
    request: &Request,
    group: &NodeDeviceResource,
    held: &Held,
    holders: &[Holder<'_>],
) -> Option<usize> {
    let mut held = held.clone();
    let last = holders.iter().position(|holder| {
        held.release(holder.resources);
        request.has_enough(group, &held)
    });
    last.map(|last| last + 1)
}
