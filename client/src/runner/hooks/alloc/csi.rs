//! The CSI volumes of the group: claimed and mounted before the tasks, released after them.

use std::sync::Arc;
use std::time::Duration;

use songline_model::AllocId;

use super::{AllocContext, AllocHook};
use crate::csi::{AllocVolumes, HeldVolumes};
use crate::driver::Boxed;
use crate::runner::Shared;
use crate::runner::hooks::resources::AllocResources;

/// Longest wait for the CSI volumes of an allocation that has ended.
const RELEASE_WAIT: Duration = Duration::from_secs(10);

pub(super) struct Csi(AllocVolumes);

impl Csi {
    /// `held`: volumes that an earlier agent mounted. Tasks have them from the beginning.
    pub fn new(shared: &Shared, alloc: AllocId, held: HeldVolumes, resources: &AllocResources) -> Self {
        let (volumes, claims) = (Arc::clone(&shared.volumes), Arc::clone(&shared.claims));
        let volumes = AllocVolumes::new(alloc, held, volumes, claims, shared.state.clone());
        resources.set_csi_volumes(volumes.clone());
        Self(volumes)
    }
}

impl AllocHook for Csi {
    fn name(&self) -> &'static str {
        "csi_hook"
    }

    fn prerun<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move { self.0.publish(&context.alloc, driver_mounts(context)).await })
    }

    /// Does not wait for a plugin that hangs: the attempts continue.
    fn postrun<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        let volumes = self.0.clone();
        let cancel = context.shared.cancel.clone();
        let release = async move {
            tokio::select! { () = cancel.cancelled() => {}, () = volumes.release() => {} }
        };
        Box::pin(async move {
            // An error would be a timeout, or a panic that was reported.
            let _ = tokio::time::timeout(RELEASE_WAIT, context.shared.tracker.spawn(release)).await;
            Ok(())
        })
    }
}

/// Whether the driver of any task can mount volumes.
fn driver_mounts(context: &AllocContext) -> bool {
    let tasks = context.alloc.group().into_iter().flat_map(|group| group.tasks.iter().flatten());
    tasks.filter_map(|task| context.shared.drivers.get(&task.driver)).any(|driver| driver.has_own_root())
}
