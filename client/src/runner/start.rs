//! Set-up, start and recovery of a task: its hooks, then its driver, and its hooks again.

use std::sync::Arc;

use songline_model::{Blob, Str};
use tokio::sync::mpsc;

use super::configure::configure;
use super::hooks::task::{TaskContext, TaskHooks};
use super::{Order, Shared, Shell, send};
use crate::core::{Input, StartFailure, event};
use crate::driver::{DriverMessage, Listener, Process, TaskConfig};

impl Shell {
    pub(super) fn set_up_task(&self, task: Str) {
        let (back, prepared) = (self.back.clone(), Arc::clone(&self.prepared));
        let run = self.machine.task_run(&task).unwrap_or(0) + 1;
        let (hooks, context) = (self.task_hooks(&task), self.task_context(&task, run));
        self.spawn(async move {
            let outcome = async {
                let (hooks, context) = (hooks.map_err(for_good)?, context.map_err(for_good)?);
                // Without resources the task is being stopped.
                let Some(made) = hooks.prestart(&context).await? else { return Ok(()) };
                let config = configure(&context, &made).map_err(for_good)?;
                prepared.lock().insert(task.clone(), config);
                Ok(())
            };
            let outcome = outcome.await;
            send(&back, Input::TaskSetUp { task, outcome });
        });
    }

    pub(super) fn start_task(&self, task: Str, run: u64) {
        let (back, processes) = (self.back.clone(), Arc::clone(&self.processes));
        let config = self.prepared.lock().get(&task).cloned();
        let id = self.run_id(&task, run);
        let (Some(config), Some(driver), Ok(hooks), Ok(context)) =
            (config, self.driver(&task), self.task_hooks(&task), self.task_context(&task, run))
        else {
            let outcome = Err(StartFailure { error: "the task was not set up".into(), recoverable: true });
            return send(&back, Input::Started { task, run, outcome });
        };
        self.spawn(async move {
            let listener = listener(&context.shared, &task, &back);
            match driver.start(TaskConfig { id, listener, ..config }).await {
                Ok(process) => {
                    processes.put(&task, Arc::clone(&process));
                    send(&back, Input::Started { task, run, outcome: Ok(process.handle()) });
                    attend(&*process, &hooks, &context).await;
                }
                Err(failure) => send(&back, Input::Started { task, run, outcome: Err(failure) }),
            }
        });
    }

    pub(super) fn recover(&self, task: Str, run: u64, handle: Option<Blob>) {
        let (back, processes) = (self.back.clone(), Arc::clone(&self.processes));
        let id = self.run_id(&task, run);
        let (Some(driver), Ok(hooks), Ok(context)) =
            (self.driver(&task), self.task_hooks(&task), self.task_context(&task, run))
        else {
            return send(
                &back,
                Input::Recovered { task, found: Err("the task's driver is not there any more".into()) },
            );
        };
        self.spawn(async move {
            match driver.recover(id, handle).await {
                Ok(Some(process)) => {
                    processes.put(&task, Arc::clone(&process));
                    send(&back, Input::Recovered { task, found: Ok(Some(process.handle())) });
                    attend(&*process, &hooks, &context).await;
                }
                Ok(None) => send(&back, Input::Recovered { task, found: Ok(None) }),
                Err(error) => send(&back, Input::Recovered { task, found: Err(error.into()) }),
            }
        });
    }

    /// A task as its hooks see it now.
    fn task_context(&self, name: &Str, run: u64) -> Result<TaskContext, String> {
        let alloc = Arc::clone(self.machine.alloc());
        let task = alloc.group().and_then(|group| group.task(name)).cloned();
        Ok(TaskContext {
            task: task.ok_or("the allocation has lost its task")?,
            shared: Arc::clone(&self.shared),
            alloc,
            dir: self.dir.clone(),
            run,
            resources: Arc::clone(&self.resources),
            driver: self.driver(name),
            processes: Arc::clone(&self.processes),
            back: self.back.clone(),
        })
    }

    fn task_hooks(&self, task: &Str) -> Result<Arc<TaskHooks>, String> {
        self.task_hooks.get(task).cloned().ok_or_else(|| "the task has ended for good".to_owned())
    }
}

/// Runs the hooks of a process, waits for its end, and reports it.
async fn attend(process: &dyn Process, hooks: &TaskHooks, context: &TaskContext) {
    hooks.poststart(context).await;
    let exit = process.wait().await;
    hooks.exited(context.run).await;
    context.tell(Input::Exited { task: context.task.name.clone(), run: context.run, exit });
}

/// Turns the driver's messages into events of the task.
fn listener(shared: &Shared, task: &Str, back: &mpsc::WeakUnboundedSender<Order>) -> Listener {
    let (clock, task, back) = (shared.clock.clone(), task.clone(), back.clone());
    Listener::new(move |DriverMessage { text, details }| {
        let event = Box::new(event::driver_message(clock.now(), &text, details));
        send(&back, Input::TaskEvent { task: task.clone(), event });
    })
}

/// A failure that a repetition would not change.
fn for_good(error: String) -> StartFailure {
    StartFailure { error: error.into(), recoverable: false }
}
