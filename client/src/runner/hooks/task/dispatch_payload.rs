//! The payload of a dispatched job, as a file of the task. Only the first run gets it: a later one finds the file as
//! the task left it.

use std::path::PathBuf;

use super::{Stopped, TaskContext, TaskHook};
use crate::driver::Boxed;
use crate::runner::hooks::blocking;
use crate::runner::hooks::resources::TaskResources;

pub(super) struct DispatchPayload;

impl TaskHook for DispatchPayload {
    fn name(&self) -> &'static str {
        "dispatch_payload"
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, _: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            let payload = context.alloc.job.as_ref().and_then(|job| job.payload.clone());
            let (Some(wanted), Some(payload), 1) = (&context.task.dispatch_payload, payload, context.run) else {
                return Ok(());
            };
            let path = PathBuf::from(context.environment(None)?.replace(&wanted.file));
            let (dir, task) = (context.dir.clone(), context.task.name.clone());
            Ok(blocking(move || dir.write_local(&task, &path, &payload.0)).await?)
        })
    }
}
