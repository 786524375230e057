//! Tasks that are CSI plugins.

use std::sync::Arc;

use songline_model::Str;

use super::{News, Shell, send};
use crate::core::{ExitResult, Input};
use crate::csi::{Place, Supervision, Told};
use crate::driver::Process;

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
        let registry = Arc::clone(&self.shared.plugins);
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
