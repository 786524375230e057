//! Volumes that the task mounts: directories of this node, and CSI volumes that the allocation has mounted there.

use std::future::ready;

use super::{Stopped, TaskContext, TaskHook};
use crate::driver::Boxed;
use crate::runner::hooks::resources::TaskResources;
use crate::volumes::{self, Known};

pub(super) struct Volumes;

impl TaskHook for Volumes {
    fn name(&self) -> &'static str {
        "volumes"
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(ready(add(context, made).map_err(Stopped::from)))
    }
}

fn add(context: &TaskContext, made: &mut TaskResources) -> Result<(), String> {
    let TaskContext { shared, alloc, task, resources, .. } = context;
    let known = Known { host: &shared.config.host_volumes, csi: &resources.csi_mounts() };
    made.add_mounts(volumes::mounts(known, alloc, task, context.driver()?.has_own_root(), made.env())?);
    Ok(())
}
