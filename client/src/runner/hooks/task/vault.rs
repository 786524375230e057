//! The token of a task with a `vault` block. Its worker renews and replaces it until the task has ended for good; a
//! later run of the task has the same token.

use std::sync::Arc;

use songline_model as model;

use super::kept::Worker;
use super::{Stopped, TaskContext, TaskHook};
use crate::core::Reaction;
use crate::driver::Boxed;
use crate::runner::hooks::resources::TaskResources;
use crate::vault::{self, Accounts, Files, Holding};

#[derive(Default)]
pub(super) struct Vault(Worker<Holding>);

impl TaskHook for Vault {
    fn name(&self) -> &'static str {
        "vault"
    }

    /// Waits until the task has a token. When the task gets none any more, it is being stopped.
    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            let Some(block) = &context.task.vault else { return Ok(()) };
            let accounts = match self.0.of(Holding::accounts) {
                Some(accounts) => accounts,
                None => self.start(context, block, made)?,
            };
            made.set_vault(accounts.clone());
            vault::account(accounts).await.map(drop).ok_or(Stopped::NotWanted)
        })
    }

    fn abort(&self) {
        self.0.abort().into_iter().for_each(Holding::finish);
    }

    fn stop(&self) -> Boxed<'_, Result<(), String>> {
        Box::pin(async move {
            self.0.take().into_iter().for_each(Holding::finish);
            Ok(())
        })
    }
}

impl Vault {
    fn start(&self, context: &TaskContext, block: &model::Vault, made: &TaskResources) -> Result<Accounts, String> {
        let TaskContext { shared, alloc, dir, task, .. } = context;
        let access = shared.vault.as_ref().ok_or("this node has no Vault")?;
        let reaction = match block.change_mode.as_str() {
            "noop" => None,
            "signal" => Some(Reaction::Signal(block.change_signal.clone())),
            _ => Some(Reaction::Restart),
        };
        let task = vault::Task {
            alloc: alloc.id,
            name: task.name.clone(),
            namespace: access.namespace_of(block),
            reaction,
            files: Files {
                dir: dir.clone(),
                task: task.name.clone(),
                owner: made.owner(),
                for_task: !block.disable_file,
            },
        };
        let hooks = vault::Hooks { tell: Box::new(context.teller()), tokens: Arc::clone(&access.tokens) };
        let (holding, worker) = vault::hold(task, Arc::clone(&access.vault), shared.clock.clone(), hooks);
        let accounts = holding.accounts();
        self.0.put(holding);
        context.spawn(worker);
        Ok(accounts)
    }
}
