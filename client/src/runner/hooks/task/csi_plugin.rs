//! A task that is a CSI plugin: its directories, the address at which it has to serve, and the supervision of each run.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::kept::OfRun;
use super::{Stopped, TaskContext, TaskHook};
use crate::core::Input;
use crate::csi::{Place, Supervision, Told};
use crate::driver::Boxed;
use crate::runner::News;
use crate::runner::hooks::blocking;
use crate::runner::hooks::resources::TaskResources;

#[derive(Default)]
pub(super) struct CsiPlugin(OfRun<Supervised>);

/// The worker that supervises a run.
struct Supervised {
    ended: CancellationToken,
    worker: AbortOnDropHandle<()>,
}

impl TaskHook for CsiPlugin {
    fn name(&self) -> &'static str {
        "csi_plugin_supervisor"
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            let Some(place) = place(context) else { return Ok(()) };
            let making = place.clone();
            blocking(move || making.make()).await?;
            let driver = context.driver()?;
            let own_root = driver.has_own_root();
            made.add_variable("CSI_ENDPOINT", place.endpoint(own_root));
            if own_root {
                made.add_mounts(place.mounts(driver.makes_devices()));
            }
            // A process that an earlier agent left serves at its socket.
            if context.process().is_none() {
                supervision(context, place).starting();
            }
            Ok(())
        })
    }

    fn poststart<'a>(&'a self, context: &'a TaskContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let Some(place) = place(context) else { return Ok(()) };
            let supervision = supervision(context, place);
            let ended = CancellationToken::new();
            let until = ended.clone();
            let work = async move {
                tokio::select! {
                    () = until.cancelled() => {}
                    () = supervision.run() => until.cancelled().await,
                }
                supervision.ended();
            };
            let worker = AbortOnDropHandle::new(context.spawn(work));
            self.0.put(context.run, Supervised { ended, worker });
            Ok(())
        })
    }

    /// Returns when the last rows of the run are told.
    fn exited(&self, run: u64) -> Boxed<'_, Result<(), String>> {
        Box::pin(async move {
            if let Some(Supervised { ended, worker }) = self.0.take(run) {
                ended.cancel();
                // An error would be a panic that was reported.
                let _ = worker.await;
            }
            Ok(())
        })
    }
}

/// The plugin's directories; `None` if the task is no plugin.
fn place(context: &TaskContext) -> Option<Place> {
    let config = context.task.csi_plugin_config.as_ref()?;
    Some(Place::of(&context.shared.config.state_dir(), &context.alloc.id, config))
}

fn supervision(context: &TaskContext, place: Place) -> Supervision {
    let (back, news, task) = (context.teller(), context.shared.news.clone(), context.task.name.clone());
    let tell = move |told| match told {
        Told::Event(event) => back(Input::TaskEvent { task: task.clone(), event: Box::new(event) }),
        Told::Failed(event) => back(Input::TaskFailed { task: task.clone(), event: Box::new(event) }),
        // Fails only when the agent is gone.
        Told::Rows(rows) => drop(news.send(News::Plugin(rows))),
    };
    let registry = Arc::clone(&context.shared.volumes.registry);
    Supervision::new(&context.alloc.id, place, registry, context.shared.clock.clone(), tell)
}
