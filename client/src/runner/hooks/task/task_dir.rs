//! The task's directories.

use super::{Stopped, TaskContext, TaskHook, context};
use crate::core::event;
use crate::driver::Boxed;
use crate::runner::hooks::blocking;
use crate::runner::hooks::resources::TaskResources;

pub(super) struct TaskDir;

impl TaskHook for TaskDir {
    fn name(&self) -> &'static str {
        "task_dir"
    }

    /// Repairs what an earlier run left; the event is for the first set-up only.
    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            let (dir, task, user) = (context.dir.clone(), context.task.name.clone(), context.user_name()?.to_owned());
            if !dir.has_task(&task) {
                context.event(event::message(event::TASK_SETUP, context.shared.clock.now(), "Building Task Directory"));
            }
            let build = move || {
                let owner = context::owner(&user);
                dir.build()?;
                dir.build_task(&task, owner)?;
                Ok::<_, std::io::Error>(owner)
            };
            made.set_owner(blocking(build).await?);
            Ok(())
        })
    }
}
