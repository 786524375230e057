//! Set-up and start of a task: directories, artifacts, the token of Vault, templates, configuration, then the driver.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_model::{Allocation, Str, Task};
use tokio::sync::{mpsc, watch};

use super::hooks::blocking;
use super::processes::Processes;
use super::setup::{Ready, Shown};
use super::{Order, Shared, Shell, send, setup, socket, storage};
use crate::allocdir::AllocDir;
use crate::core::{Input, Reaction, StartFailure, event};
use crate::csi::Supervision;
use crate::driver::{Driver, DriverMessage, Listener, TaskConfig};
use crate::network::Made;
use crate::template::{self, Dirs, Hooks, ReadsVault, Rendering};
use crate::vault::{self, Accounts, Files, Holding};

/// Variables that environment templates set.
type Vars = BTreeMap<String, String>;

/// Workers that live as long as their tasks, by task: dropping one ends it.
pub(super) struct Workers<W>(Mutex<OfTasks<W>>);

struct OfTasks<W> {
    running: BTreeMap<Str, W>,
    /// Tasks that are being stopped for good. A set-up that comes to its worker later must not wait for it.
    aborted: BTreeSet<Str>,
}

impl<W> Default for Workers<W> {
    fn default() -> Self {
        Self(Mutex::new(OfTasks { running: BTreeMap::new(), aborted: BTreeSet::new() }))
    }
}

impl<W> Workers<W> {
    /// Takes the worker of a task out.
    pub fn remove(&self, task: &Str) -> Option<W> {
        self.0.lock().running.remove(task)
    }

    /// Takes the worker of a task that is being stopped out, or ends it as soon as it starts. A set-up that waits for it
    /// goes on without it.
    pub fn abort(&self, task: &Str) -> Option<W> {
        let mut workers = self.0.lock();
        workers.aborted.insert(task.clone());
        workers.running.remove(task)
    }

    fn of<T>(&self, task: &Str, look: impl FnOnce(&W) -> T) -> Option<T> {
        self.0.lock().running.get(task).map(look)
    }

    fn insert(&self, task: &Str, worker: W) {
        let mut workers = self.0.lock();
        if !workers.aborted.contains(task) {
            workers.running.insert(task.clone(), worker);
        }
    }
}

/// Workers of templates.
pub(super) type Templates = Workers<Rendering>;
/// Workers of tokens of Vault.
pub(super) type VaultTokens = Workers<Holding>;

/// Surroundings of a task's set-up.
struct Place {
    shared: Arc<Shared>,
    alloc: Arc<Allocation>,
    dir: AllocDir,
    back: mpsc::WeakUnboundedSender<Order>,
    processes: Arc<Processes>,
    templates: Arc<Templates>,
    vault_tokens: Arc<VaultTokens>,
    network: Made,
    volumes: BTreeMap<Str, PathBuf>,
    driver: Option<Arc<dyn Driver>>,
    task: Str,
}

impl Shell {
    pub(super) fn set_up_task(&self, task: Str) {
        let place = Place {
            shared: Arc::clone(&self.shared),
            alloc: Arc::clone(self.machine.alloc()),
            dir: self.dir.clone(),
            back: self.back.clone(),
            processes: Arc::clone(&self.processes),
            templates: Arc::clone(&self.templates),
            vault_tokens: Arc::clone(&self.vault_tokens),
            network: self.resources.network(),
            volumes: self.resources.csi_mounts(),
            driver: self.driver(&task),
            task: task.clone(),
        };
        let (back, prepared) = (self.back.clone(), Arc::clone(&self.prepared));
        let run = self.machine.task_run(&task).unwrap_or(0) + 1;
        self.spawn(async move {
            let outcome = place.set_up(run).await.map(|config| {
                config.map(|config| prepared.lock().insert(task.clone(), config));
            });
            send(&back, Input::TaskSetUp { task, outcome });
        });
    }

    pub(super) fn start_task(&self, task: Str, run: u64) {
        let (back, processes) = (self.back.clone(), Arc::clone(&self.processes));
        let config = self.prepared.lock().get(&task).cloned();
        let id = self.run_id(&task, run);
        let (Some(config), Some(driver)) = (config, self.driver(&task)) else {
            let outcome = Err(StartFailure { error: "the task was not set up".into(), recoverable: true });
            return send(&back, Input::Started { task, run, outcome });
        };
        let (shared, dir, owner) = (Arc::clone(&self.shared), self.dir.clone(), self.owner(&task));
        let plugin = self.plugin(&task);
        self.spawn(async move {
            let _socket = socket(&shared, &dir, &task, owner);
            plugin.iter().for_each(Supervision::starting);
            let listener = listener(&shared, &task, &back);
            match driver.start(TaskConfig { id, listener, ..config }).await {
                Ok(process) => {
                    processes.put(&task, Arc::clone(&process));
                    send(&back, Input::Started { task: task.clone(), run, outcome: Ok(process.handle()) });
                    let exit = storage::attend(&*process, plugin).await;
                    send(&back, Input::Exited { task, run, exit });
                }
                Err(failure) => send(&back, Input::Started { task, run, outcome: Err(failure) }),
            }
        });
    }
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

impl Place {
    /// Sets the task up. Returns no configuration if its token or its templates failed or are no longer waited for: then
    /// the task is being stopped.
    async fn set_up(&self, run: u64) -> Result<Option<TaskConfig>, StartFailure> {
        let Self { shared, alloc, dir, back, task, .. } = self;
        let driver = self.driver.as_deref();
        setup::prepare(shared, alloc, dir, task, run, driver, back).await.map_err(for_good)?;
        setup::fetch_artifacts(shared, alloc, dir, task, back).await?;
        let accounts = self.vault_token().await.map_err(for_good)?;
        if let Some(accounts) = &accounts
            && vault::account(accounts.clone()).await.is_none()
        {
            return Ok(None);
        }
        let Some(vars) = self.render(accounts.clone()).await.map_err(for_good)? else { return Ok(None) };
        // The token may have been replaced while the templates were rendered.
        let vault = match accounts {
            Some(accounts) => match vault::account(accounts).await {
                Some(account) => Some(account),
                None => return Ok(None),
            },
            None => None,
        };
        let ready = Ready { vault, vars, volumes: self.volumes.clone() };
        let config = setup::configure(shared, alloc, dir, (task, run), driver, ready, back).await.map_err(for_good)?;
        let Made { network, dns, resolv_conf, status: _ } = self.network.clone();
        Ok(Some(TaskConfig { network, dns, resolv_conf, ..config }))
    }

    /// The token of a task with a `vault` block. A later run of the task keeps it.
    async fn vault_token(&self) -> Result<Option<Accounts>, String> {
        let Self { shared, alloc, dir, .. } = self;
        let task = alloc.group().and_then(|group| group.task(&self.task));
        let Some((task, block)) = task.and_then(|task| Some((task, task.vault.as_ref()?))) else { return Ok(None) };
        if let Some(accounts) = self.vault_tokens.of(&self.task, Holding::accounts) {
            return Ok(Some(accounts));
        }
        let Some(access) = &shared.vault else {
            let text = "vault: this node has no Vault";
            let event = event::message(event::HOOK_FAILED, shared.clock.now(), text);
            self.tell(Input::TaskEvent { task: self.task.clone(), event: Box::new(event) });
            return Err("prestart hook \"vault\" failed: this node has no Vault".to_owned());
        };
        let driver = self.driver.clone().ok_or("the task's driver is not there any more")?;
        let of = task.clone();
        let owner = blocking(move || Ok::<_, String>(setup::owner(&of, &*driver))).await?;
        let reaction = match block.change_mode.as_str() {
            "noop" => None,
            "signal" => Some(Reaction::Signal(block.change_signal.clone())),
            _ => Some(Reaction::Restart),
        };
        let files = Files { dir: dir.clone(), task: self.task.clone(), owner, for_task: !block.disable_file };
        let namespace = access.namespace_of(block);
        let task = vault::Task { alloc: alloc.id, name: self.task.clone(), namespace, reaction, files };
        let back = self.back.clone();
        let tokens = Arc::clone(&access.tokens);
        let hooks = vault::Hooks { tell: Box::new(move |input| send(&back, input)), tokens };
        let (holding, worker) = vault::hold(task, Arc::clone(&access.vault), shared.clock.clone(), hooks);
        let accounts = holding.accounts();
        self.vault_tokens.insert(&self.task, holding);
        self.spawn(worker);
        Ok(Some(accounts))
    }

    /// Spawns the worker of the task. It ends with the agent at the latest.
    fn spawn(&self, worker: impl Future<Output = ()> + Send + 'static) {
        let cancel = self.shared.cancel.clone();
        self.shared.tracker.spawn(async move {
            tokio::select! { () = cancel.cancelled() => {}, () = worker => {} }
        });
    }

    /// Waits until the task's templates are rendered. A later run of the task keeps the files and their worker, unless
    /// its restart policy renders templates anew.
    async fn render(&self, vault: Option<Accounts>) -> Result<Option<Vars>, String> {
        let Some(group) = self.alloc.group() else { return Ok(Some(Vars::new())) };
        let Some(task) = group.task(&self.task).filter(|task| task.templates.iter().flatten().next().is_some()) else {
            return Ok(Some(Vars::new()));
        };
        let policy = task.restart_policy.as_ref().or(group.restart_policy.as_ref());
        if policy.is_some_and(|policy| policy.render_templates) {
            self.templates.remove(&self.task);
        }
        let vars = match self.templates.of(&self.task, Rendering::vars) {
            Some(vars) => vars,
            None => self.start(task, vault).await?,
        };
        Ok(template::rendered(vars).await)
    }

    /// Starts the worker of the task's templates.
    async fn start(&self, task: &Task, vault: Option<Accounts>) -> Result<watch::Receiver<Option<Vars>>, String> {
        let Self { shared, alloc, dir, .. } = self;
        let driver = self.driver.as_deref().ok_or("the task's driver is not there any more")?;
        let dirs = Dirs { alloc: dir.root().to_owned(), task: self.task.clone() };
        let of_node = setup::environment(shared, alloc, task, dir, false, Shown::default());
        let (planned, beneath, settings) = (task.clone(), dirs.clone(), shared.config.template.clone());
        let plan = move || template::plan(&planned, &beneath, &of_node, &settings);
        let plans = blocking(plan).await.map_err(|error| {
            let event = event::message(event::HOOK_FAILED, shared.clock.now(), &format!("template: {error}"));
            self.tell(Input::TaskEvent { task: self.task.clone(), event: Box::new(event) });
            format!("prestart hook \"template\" failed: {error}")
        })?;
        let (back, processes, name) = (self.back.clone(), Arc::clone(&self.processes), self.task.clone());
        let hooks =
            Hooks { tell: Box::new(move |input| send(&back, input)), process: Box::new(move || processes.get(&name)) };
        let account = vault.as_ref().and_then(|accounts| accounts.borrow().clone());
        let reads_vault = shared.vault.as_ref().zip(vault).map(|(access, accounts)| ReadsVault {
            vault: Arc::clone(&access.vault),
            accounts,
            in_environment: task.vault.as_ref().is_some_and(|block| block.env),
        });
        let about = template::TaskTemplates {
            name: self.task.clone(),
            plans,
            dirs,
            env: setup::task_environment(shared, alloc, task, dir, driver, account.as_ref()),
            namespace: alloc.namespace.to_string(),
            region: shared.config.region.to_string(),
            token: alloc.identity_token(&self.task).unwrap_or_default(),
            consul: shared.consul.as_ref().map(|consul| consul.agent().clone()),
            vault: reads_vault,
            restored: self.processes.get(&self.task).is_some(),
        };
        let reads = shared.config.server_reads.clone();
        let (rendering, worker) =
            template::start(about, shared.config.template.clone(), reads, shared.clock.clone(), hooks);
        let vars = rendering.vars();
        self.templates.insert(&self.task, rendering);
        self.spawn(worker);
        Ok(vars)
    }

    fn tell(&self, input: Input) {
        send(&self.back, input);
    }
}
