//! The hooks of a task: their list, and the rules of their phases.

mod api;
mod artifacts;
mod context;
mod csi_plugin;
mod dispatch_payload;
mod environment;
mod identity;
mod kept;
mod task_dir;
mod template;
pub(crate) mod validate;
mod vault;
mod volumes;

use std::future::ready;
use std::sync::Arc;

use songline_model::{Str, TaskEvent, Time};
use tokio::sync::mpsc;

use super::resources::TaskResources;
use crate::clock::Clock;
use crate::core::{Input, StartFailure, event};
use crate::driver::Boxed;
use crate::runner::{Order, send};
pub(in crate::runner) use context::TaskContext;

/// The hooks, in order. Mounts and the user's name are interpolated with the token of Vault and the variables of
/// templates, so their hooks come after those.
fn list() -> Vec<Arc<dyn TaskHook>> {
    vec![
        Arc::new(validate::Validate),
        Arc::new(task_dir::TaskDir),
        Arc::new(identity::Identity),
        Arc::new(dispatch_payload::DispatchPayload),
        Arc::new(artifacts::Artifacts),
        Arc::new(vault::Vault::default()),
        Arc::new(template::Template::default()),
        Arc::new(environment::Environment),
        Arc::new(volumes::Volumes),
        Arc::new(csi_plugin::CsiPlugin::default()),
        Arc::new(validate::InterpolatedUser),
        Arc::new(api::Api::default()),
    ]
}

/// One thing that a task needs. The object lives as long as the task, so it can keep things from one run to the next. A
/// phase that does not concern the hook does nothing.
pub(in crate::runner) trait TaskHook: Send + Sync {
    /// Name in events and errors.
    fn name(&self) -> &'static str;

    /// Comes before each start, and once for a process that an earlier agent left.
    fn prestart<'a>(&'a self, _task: &'a TaskContext, _made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(ready(Ok(())))
    }

    /// The task is being killed while it is set up: `prestart` must not wait any longer, now or when it comes later.
    /// The task is not set up again.
    fn abort(&self) {}

    /// The process of a run has been started, or an earlier agent's was found; then `prestart` comes later.
    fn poststart<'a>(&'a self, _task: &'a TaskContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }

    /// The process of this run has ended. Comes after its `poststart`.
    fn exited(&self, _run: u64) -> Boxed<'_, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }

    /// The task has ended for good. May come without any other phase before it.
    fn stop(&self) -> Boxed<'_, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }
}

/// The reason why a set-up ends early.
#[derive(Debug)]
pub(in crate::runner) enum Stopped {
    /// The hook failed.
    Failed {
        error: String,
        /// Whether the task's restart policy may try again.
        recoverable: bool,
        /// The hook's own event. `None`: `Task hook failed`.
        event: Option<Box<TaskEvent>>,
    },
    /// The task is being stopped, so nothing waits for the set-up any more.
    NotWanted,
}

/// A failure that a repetition would not change.
impl From<String> for Stopped {
    fn from(error: String) -> Self {
        Self::Failed { error, recoverable: false, event: None }
    }
}

/// The event of a hook that failed.
pub(in crate::runner) fn hook_failed(now: Time, hook: &str, error: &str) -> TaskEvent {
    event::message(event::HOOK_FAILED, now, &format!("{hook}: {error}"))
}

/// The hooks of one task.
pub(in crate::runner) struct TaskHooks {
    list: Vec<Arc<dyn TaskHook>>,
    task: Str,
    clock: Clock,
    back: mpsc::WeakUnboundedSender<Order>,
}

impl TaskHooks {
    pub fn new(task: Str, clock: Clock, back: mpsc::WeakUnboundedSender<Order>) -> Self {
        Self { list: list(), task, clock, back }
    }

    /// Adds hooks after the others.
    pub fn with(mut self, more: &[Arc<dyn TaskHook>]) -> Self {
        self.list.extend_from_slice(more);
        self
    }

    /// Sets the task up. The first hook that fails ends the set-up, with an event. Returns nothing if nobody waits for
    /// the set-up any more: then the task is being stopped.
    pub async fn prestart(&self, task: &TaskContext) -> Result<Option<TaskResources>, StartFailure> {
        let mut made = TaskResources::default();
        for hook in &self.list {
            let (error, recoverable, event) = match hook.prestart(task, &mut made).await {
                Ok(()) => continue,
                Err(Stopped::NotWanted) => return Ok(None),
                Err(Stopped::Failed { error, recoverable, event }) => (error, recoverable, event),
            };
            self.tell(event.unwrap_or_else(|| Box::new(hook_failed(self.clock.now(), hook.name(), &error))));
            let error = format!("prestart hook {:?} failed: {error}", hook.name()).into();
            return Err(StartFailure { error, recoverable });
        }
        Ok(Some(made))
    }

    /// Ends the waiting of a set-up: the task is being killed.
    pub fn abort(&self) {
        self.list.iter().for_each(|hook| hook.abort());
    }

    /// Runs all hooks; errors are events.
    pub async fn poststart(&self, task: &TaskContext) {
        for hook in &self.list {
            self.told(hook.as_ref(), hook.poststart(task).await);
        }
    }

    /// Runs all hooks, the last one first; errors are events.
    pub async fn exited(&self, run: u64) {
        for hook in self.list.iter().rev() {
            self.told(hook.as_ref(), hook.exited(run).await);
        }
    }

    /// Runs all hooks, the last one first, because a hook may use what one before it keeps; errors are events.
    pub async fn stop(&self) {
        for hook in self.list.iter().rev() {
            self.told(hook.as_ref(), hook.stop().await);
        }
    }

    fn told(&self, hook: &dyn TaskHook, outcome: Result<(), String>) {
        if let Err(error) = outcome {
            self.tell(Box::new(hook_failed(self.clock.now(), hook.name(), &error)));
        }
    }

    fn tell(&self, event: Box<TaskEvent>) {
        send(&self.back, Input::TaskEvent { task: self.task.clone(), event });
    }
}
