//! The file with the task's identity token. The variable with the token is in the task's environment.

use super::{Stopped, TaskContext, TaskHook};
use crate::driver::Boxed;
use crate::runner::hooks::blocking;
use crate::runner::hooks::resources::TaskResources;

/// File in a task's secrets directory with its identity token.
const TOKEN_FILE: &str = "nomad_token";

pub(super) struct Identity;

impl TaskHook for Identity {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            let TaskContext { alloc, task, .. } = context;
            if !task.identity.as_ref().is_some_and(|wanted| wanted.file) {
                return Ok(());
            }
            let Some(token) = alloc.identity_token(&task.name) else { return Ok(()) };
            let (dir, task, owner) = (context.dir.clone(), task.name.clone(), made.owner());
            let write = move || dir.write_identity(&task, TOKEN_FILE, token.reveal().as_bytes(), owner);
            Ok(blocking(write).await?)
        })
    }
}
