//! The socket on which a task reaches the API. A failure to open it is no error of the task.

use tokio_util::sync::DropGuard;

use super::kept::OfRun;
use super::{Stopped, TaskContext, TaskHook, context};
use crate::beneath::Owner;
use crate::driver::Boxed;
use crate::runner::hooks::blocking;
use crate::runner::hooks::resources::TaskResources;
use crate::task_api;

/// The socket of a run, open until its process has ended; without a guard it could not be opened.
#[derive(Default)]
pub(super) struct Api(OfRun<Option<DropGuard>>);

impl TaskHook for Api {
    fn name(&self) -> &'static str {
        "api"
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            // A process that an earlier agent left has had its socket since it was found.
            if context.process().is_none() {
                self.open(context, made.owner());
            }
            Ok(())
        })
    }

    fn poststart<'a>(&'a self, context: &'a TaskContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            if context.shared.config.task_api.is_some() && !self.0.has(context.run) {
                let user = context.user_name()?.to_owned();
                self.open(context, blocking(move || Ok::<_, String>(context::owner(&user))).await?);
            }
            Ok(())
        })
    }

    fn exited(&self, run: u64) -> Boxed<'_, Result<(), String>> {
        Box::pin(async move {
            drop(self.0.take(run));
            Ok(())
        })
    }

    /// Closes a socket that was opened for a start that did not come.
    fn stop(&self) -> Boxed<'_, Result<(), String>> {
        Box::pin(async move {
            self.0.clear();
            Ok(())
        })
    }
}

impl Api {
    fn open(&self, context: &TaskContext, owner: Option<Owner>) {
        let TaskContext { shared, dir, task, run, .. } = context;
        let Some(api) = &shared.config.task_api else { return };
        self.0.clear();
        let opened = task_api::serve(api.as_ref(), dir, &task.name, owner).inspect_err(|error| {
            let dir = dir.root().display();
            tracing::warn!(%dir, task = %task.name, %error, "opening a task's socket of the API");
        });
        self.0.put(*run, opened.ok());
    }
}
