//! CSI in an allocation: tasks that are plugins, and volumes.

use std::sync::Arc;

use songline_model::{AllocId, Str};

use super::{Begin, News, Shared, Shell, send};
use crate::core::{ExitResult, Input};
use crate::csi::{AllocVolumes, HeldVolumes, Place, Supervision, Told};
use crate::driver::Process;

/// The CSI volumes of an allocation, with those that an earlier agent mounted.
pub(super) fn volumes(shared: &Shared, alloc: AllocId, begin: &Begin) -> AllocVolumes {
    let held = match begin {
        Begin::Start => HeldVolumes::new(),
        Begin::Restore(restored) => restored.volumes.clone(),
    };
    AllocVolumes::new(alloc, held, Arc::clone(&shared.volumes), Arc::clone(&shared.claims), shared.state.clone())
}

impl Shell {
    /// Supervision of a task, if it is a plugin.
    pub(super) fn plugin(&self, name: &Str) -> Option<Supervision> {
        let alloc = self.machine.alloc();
        let config = alloc.group()?.task(name)?.csi_plugin_config.as_ref()?;
        let place = Place::of(&self.shared.config.state_dir(), &alloc.id, config);
        let (back, news, task) = (self.back.clone(), self.shared.news.clone(), name.clone());
        let tell = move |told| match told {
            Told::Event(event) => {
                send(&back, Input::TaskEvent { task: task.clone(), event: Box::new(event) });
            }
            Told::Failed(event) => {
                send(&back, Input::TaskFailed { task: task.clone(), event: Box::new(event) });
            }
            // Fails only when the agent is gone.
            Told::Rows(rows) => drop(news.send(News::Plugin(rows))),
        };
        let registry = Arc::clone(&self.shared.volumes.registry);
        Some(Supervision::new(&alloc.id, place, registry, self.shared.clock.clone(), tell))
    }
}

/// Waits for the end of a task, and supervises it meanwhile if it is a plugin.
pub(super) async fn attend(process: &dyn Process, plugin: Option<Supervision>) -> ExitResult {
    let Some(plugin) = plugin else { return process.wait().await };
    let exit = tokio::select! {
        exit = process.wait() => exit,
        () = plugin.run() => process.wait().await,
    };
    plugin.ended();
    exit
}
