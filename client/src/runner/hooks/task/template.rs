//! The task's templates: rendered before a start. Their worker renders them again until the task has ended for good; a
//! later run of the task keeps the files and the worker, unless its restart policy renders templates anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::kept::Worker;
use super::{Stopped, TaskContext, TaskHook};
use crate::driver::Boxed;
use crate::runner::hooks::blocking;
use crate::runner::hooks::resources::TaskResources;
use crate::template::{self, Dirs, Hooks, ReadsVault, Rendering};

/// Variables that environment templates set.
type Vars = BTreeMap<String, String>;

#[derive(Default)]
pub(super) struct Template(Worker<Rendering>);

impl TaskHook for Template {
    fn name(&self) -> &'static str {
        "template"
    }

    /// Waits until all templates are rendered. When one fails, the task is being stopped.
    fn prestart<'a>(&'a self, context: &'a TaskContext, made: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            let TaskContext { alloc, task, .. } = context;
            if task.templates.iter().flatten().next().is_none() {
                return Ok(());
            }
            let of_group = || alloc.group()?.restart_policy.as_ref();
            if task.restart_policy.as_ref().or_else(of_group).is_some_and(|policy| policy.render_templates) {
                drop(self.0.take());
            }
            let vars = match self.0.of(Rendering::vars) {
                Some(vars) => vars,
                None => self.start(context, made).await?,
            };
            made.set_template_vars(template::rendered(vars).await.ok_or(Stopped::NotWanted)?);
            Ok(())
        })
    }

    fn abort(&self) {
        drop(self.0.abort());
    }

    fn stop(&self) -> Boxed<'_, Result<(), String>> {
        Box::pin(async move {
            drop(self.0.take());
            Ok(())
        })
    }
}

impl Template {
    async fn start(
        &self,
        context: &TaskContext,
        made: &TaskResources,
    ) -> Result<watch::Receiver<Option<Vars>>, String> {
        let TaskContext { shared, alloc, dir, task, .. } = context;
        let dirs = Dirs { alloc: dir.root().to_owned(), task: task.name.clone() };
        let (planned, beneath, settings) = (task.clone(), dirs.clone(), shared.config.template.clone());
        let of_node = context.environment_of_node();
        let plans = blocking(move || template::plan(&planned, &beneath, &of_node, &settings)).await?;
        let hooks = Hooks { tell: Box::new(context.teller()), process: Box::new(context.find_process()) };
        let account = made.vault().and_then(|accounts| accounts.borrow().clone());
        let reads_vault = shared.vault.as_ref().zip(made.vault()).map(|(access, accounts)| ReadsVault {
            vault: Arc::clone(&access.vault),
            accounts: accounts.clone(),
            in_environment: task.vault.as_ref().is_some_and(|block| block.env),
        });
        let about = template::TaskTemplates {
            name: task.name.clone(),
            plans,
            dirs,
            env: context.environment(account.as_ref())?,
            namespace: alloc.namespace.to_string(),
            region: shared.config.region.to_string(),
            token: alloc.identity_token(&task.name).unwrap_or_default(),
            consul: shared.consul.as_ref().map(|consul| consul.agent().clone()),
            vault: reads_vault,
            restored: context.process().is_some(),
        };
        let reads = shared.config.server_reads.clone();
        let (rendering, worker) =
            template::start(about, shared.config.template.clone(), reads, shared.clock.clone(), hooks);
        let vars = rendering.vars();
        self.0.put(rendering);
        context.spawn(worker);
        Ok(vars)
    }
}
