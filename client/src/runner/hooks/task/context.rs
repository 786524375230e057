//! A task as its hooks see it.

use std::sync::Arc;

use songline_model::{Allocation, Task, TaskEvent};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::allocdir::AllocDir;
use crate::beneath::Owner;
use crate::core::Input;
use crate::driver::{Driver, Process};
use crate::env::TaskEnv;
use crate::executor::user;
use crate::runner::environment::{Shown, environment};
use crate::runner::hooks::resources::AllocResources;
use crate::runner::processes::Processes;
use crate::runner::{Order, Shared, send};
use crate::vault::Account;

/// A task in one phase.
pub(in crate::runner) struct TaskContext {
    pub shared: Arc<Shared>,
    /// The servers' copy.
    pub alloc: Arc<Allocation>,
    pub dir: AllocDir,
    pub task: Task,
    /// Number of the run that is set up, or was started or found.
    pub run: u64,
    /// Resources that the hooks of the allocation made.
    pub resources: Arc<AllocResources>,
    pub(in crate::runner) driver: Option<Arc<dyn Driver>>,
    pub(in crate::runner) processes: Arc<Processes>,
    pub(in crate::runner) back: mpsc::WeakUnboundedSender<Order>,
}

impl TaskContext {
    /// The task's driver. The first hook is the only one that has to see the error.
    pub fn driver(&self) -> Result<&dyn Driver, String> {
        self.driver.as_deref().ok_or_else(|| format!("driver {:?} is not available", self.task.driver.as_str()))
    }

    /// The task's process. During a set-up: the process that an earlier agent left.
    pub fn process(&self) -> Option<Arc<dyn Process>> {
        self.processes.get(&self.task.name)
    }

    /// A function that finds the process of the task later.
    pub fn find_process(&self) -> impl Fn() -> Option<Arc<dyn Process>> + Send + Sync + 'static {
        let (processes, name) = (Arc::clone(&self.processes), self.task.name.clone());
        move || processes.get(&name)
    }

    /// The environment as the task sees it, with its token of Vault if it wants that there.
    pub fn environment(&self, vault: Option<&Account>) -> Result<TaskEnv, String> {
        let Self { shared, alloc, dir, task, .. } = self;
        let own_root = self.driver()?.has_own_root();
        let identity = alloc.identity_token(&task.name);
        let shown = Shown {
            identity: identity.as_ref().filter(|_| task.identity.as_ref().is_some_and(|wanted| wanted.env)),
            vault: vault.filter(|_| task.vault.as_ref().is_some_and(|block| block.env)),
        };
        Ok(environment(shared, alloc, task, dir, own_root, shown))
    }

    /// The environment with the paths of this node and without tokens: for the places of files.
    pub fn environment_of_node(&self) -> TaskEnv {
        environment(&self.shared, &self.alloc, &self.task, &self.dir, false, Shown::default())
    }

    /// Name of the user that the task runs as, before interpolation; empty is the agent's own user.
    pub fn user_name(&self) -> Result<&str, String> {
        Ok(if self.task.user.is_empty() { self.driver()?.default_user() } else { self.task.user.as_str() })
    }

    /// Adds an event to the task.
    pub fn event(&self, event: TaskEvent) {
        self.tell(Input::TaskEvent { task: self.task.name.clone(), event: Box::new(event) });
    }

    /// Tells the state machine.
    pub fn tell(&self, input: Input) {
        send(&self.back, input);
    }

    /// A function that tells the state machine later.
    pub fn teller(&self) -> impl Fn(Input) + Send + Sync + 'static {
        let back = self.back.clone();
        move |input| send(&back, input)
    }

    /// Spawns work that ends with the agent at the latest.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let cancel = self.shared.cancel.clone();
        self.shared.tracker.spawn(async move {
            tokio::select! { () = cancel.cancelled() => {}, () = work => {} }
        })
    }
}

/// Owner of the secrets of a task that runs as this user: a user of this machine, or `UID[:GID]`, which a container's
/// user may be without being one of this machine. `None` for the agent's own user, and for a name that only an image
/// knows. Blocks while the user is looked up.
pub(super) fn owner(user: &str) -> Option<Owner> {
    if user.is_empty() {
        return None;
    }
    let known = user::lookup(user).ok().map(|user| (user.uid, user.gid));
    // Only root can give files to a user that it does not know; without root the secrets stay the agent's.
    known.or_else(|| user::numbers(user).filter(|_| rustix::process::geteuid().is_root()))
}
