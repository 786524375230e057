//! The environment as the task sees it, once its token of Vault and the variables of its templates are known. Later
//! hooks interpolate with it.

use super::{Stopped, TaskContext, TaskHook};
use crate::driver::Boxed;
use crate::runner::hooks::resources::TaskResources;
use crate::vault;

pub(super) struct Environment;

impl TaskHook for Environment {
    fn name(&self) -> &'static str {
        "environment"
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            // The token may have been replaced while the templates were rendered.
            let account = match made.vault().cloned() {
                Some(accounts) => Some(vault::account(accounts).await.ok_or(Stopped::NotWanted)?),
                None => None,
            };
            let mut env = context.environment(account.as_ref())?;
            env.vars.extend(made.template_vars().clone());
            made.set_env(env);
            Ok(())
        })
    }
}
