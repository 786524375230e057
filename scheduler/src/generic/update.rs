//! In-place update of one allocation: it goes on under a new version of its group without a restart.

use std::sync::Arc;

use songline_model::{Allocation, EvalId, TaskGroup};

use super::stack::Stack;

/// The row of an allocation whose tasks did not change under the new version of its group. `None`: the allocation has
/// to be replaced, because its node no longer suits the group.
pub(crate) fn in_place(
    alloc: &Allocation,
    group: &TaskGroup,
    stack: &mut Stack<'_>,
    eval: EvalId,
) -> Option<Allocation> {
    let resources = stack.fits_in_place(alloc, group)?;
    let mut changed = alloc.clone();
    if let Some(old) = &alloc.allocated_resources {
        let mut new = (*resources).clone();
        new.shared.networks = old.shared.networks.clone();
        new.shared.ports = old.shared.ports.clone();
        for (name, task) in new.tasks.iter_mut().flatten() {
            if let Some(had) = old.tasks.as_ref().and_then(|tasks| tasks.get(name)) {
                task.networks = had.networks.clone();
                task.devices = had.devices.clone();
                if had.cpu.reserved_cores.is_some() {
                    task.cpu = had.cpu.clone();
                }
            }
        }
        changed.allocated_resources = Some(if new == **old { old.clone() } else { Arc::new(new) });
    }
    changed.eval_id = Some(eval);
    changed.job = None;
    Some(changed)
}
