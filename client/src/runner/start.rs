//! Set-up and start of a task: directories, artifacts, templates, configuration, then the driver.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_model::{Allocation, Str, Task};
use tokio::sync::{mpsc, watch};

use super::processes::Processes;
use super::setup::Ready;
use super::{Order, Shared, Shell, send, setup, socket, storage};
use crate::allocdir::AllocDir;
use crate::core::{Input, StartFailure, event};
use crate::csi::Supervision;
use crate::driver::{Driver, DriverMessage, Listener, TaskConfig};
use crate::network::Made;
use crate::template::{self, Dirs, Hooks, Rendering};

/// Variables that environment templates set.
type Vars = BTreeMap<String, String>;

/// Workers of templates, by task.
#[derive(Default)]
pub(super) struct Templates(Mutex<Workers>);

#[derive(Default)]
struct Workers {
    running: BTreeMap<Str, Rendering>,
    /// Tasks that are being stopped for good. A set-up that comes to its templates later must not wait for them.
    aborted: BTreeSet<Str>,
}

impl Templates {
    /// Ends the worker of a task.
    pub fn remove(&self, task: &Str) {
        self.0.lock().running.remove(task);
    }

    /// Ends the worker of a task that is being stopped, now or as soon as it starts. A set-up that waits for it goes on
    /// without files.
    pub fn abort(&self, task: &Str) {
        let mut workers = self.0.lock();
        workers.running.remove(task);
        workers.aborted.insert(task.clone());
    }

    fn vars(&self, task: &Str) -> Option<watch::Receiver<Option<Vars>>> {
        self.0.lock().running.get(task).map(Rendering::vars)
    }

    fn insert(&self, task: &Str, rendering: Rendering) {
        let mut workers = self.0.lock();
        if !workers.aborted.contains(task) {
            workers.running.insert(task.clone(), rendering);
        }
    }
}

/// Surroundings of a task's set-up.
struct Place {
    shared: Arc<Shared>,
    alloc: Arc<Allocation>,
    dir: AllocDir,
    back: mpsc::WeakUnboundedSender<Order>,
    processes: Arc<Processes>,
    templates: Arc<Templates>,
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
            network: self.network.lock().clone(),
            volumes: self.volumes.places(),
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
    /// Sets the task up. Returns no configuration if its templates failed or are no longer waited for: then the task
    /// is being stopped.
    async fn set_up(&self, run: u64) -> Result<Option<TaskConfig>, StartFailure> {
        let Self { shared, alloc, dir, back, task, .. } = self;
        let driver = self.driver.as_deref();
        setup::prepare(shared, alloc, dir, task, run, driver, back).await.map_err(for_good)?;
        setup::fetch_artifacts(shared, alloc, dir, task, back).await?;
        let Some(vars) = self.render().await.map_err(for_good)? else { return Ok(None) };
        let ready = Ready { vars, volumes: self.volumes.clone() };
        let config = setup::configure(shared, alloc, dir, (task, run), driver, ready, back).await.map_err(for_good)?;
        let Made { network, dns, resolv_conf, status: _ } = self.network.clone();
        Ok(Some(TaskConfig { network, dns, resolv_conf, ..config }))
    }

    /// Waits until the task's templates are rendered. A later run of the task keeps the files and their worker, unless
    /// its restart policy renders templates anew.
    async fn render(&self) -> Result<Option<Vars>, String> {
        let Some(group) = self.alloc.group() else { return Ok(Some(Vars::new())) };
        let Some(task) = group.task(&self.task).filter(|task| task.templates.iter().flatten().next().is_some()) else {
            return Ok(Some(Vars::new()));
        };
        let policy = task.restart_policy.as_ref().or(group.restart_policy.as_ref());
        if policy.is_some_and(|policy| policy.render_templates) {
            self.templates.remove(&self.task);
        }
        let vars = match self.templates.vars(&self.task) {
            Some(vars) => vars,
            None => self.start(task).await?,
        };
        Ok(template::rendered(vars).await)
    }

    /// Starts the worker of the task's templates.
    async fn start(&self, task: &Task) -> Result<watch::Receiver<Option<Vars>>, String> {
        let Self { shared, alloc, dir, .. } = self;
        let driver = self.driver.as_deref().ok_or("the task's driver is not there any more")?;
        let dirs = Dirs { alloc: dir.root().to_owned(), task: self.task.clone() };
        let of_node = setup::environment(shared, alloc, task, dir, false, None);
        let (planned, beneath, settings) = (task.clone(), dirs.clone(), shared.config.template.clone());
        let plan = move || template::plan(&planned, &beneath, &of_node, &settings);
        let plans = setup::blocking(plan).await.map_err(|error| {
            let event = event::message(event::HOOK_FAILED, shared.clock.now(), &format!("template: {error}"));
            self.tell(Input::TaskEvent { task: self.task.clone(), event: Box::new(event) });
            format!("prestart hook \"template\" failed: {error}")
        })?;
        let (back, processes, name) = (self.back.clone(), Arc::clone(&self.processes), self.task.clone());
        let hooks =
            Hooks { tell: Box::new(move |input| send(&back, input)), process: Box::new(move || processes.get(&name)) };
        let about = template::TaskTemplates {
            name: self.task.clone(),
            plans,
            dirs,
            env: setup::task_environment(shared, alloc, task, dir, driver),
            namespace: alloc.namespace.to_string(),
            region: shared.config.region.to_string(),
            token: alloc.identity_token(&self.task).unwrap_or_default(),
            consul: shared.consul.as_ref().map(|consul| consul.agent().clone()),
            restored: self.processes.get(&self.task).is_some(),
        };
        let reads = shared.config.server_reads.clone();
        let (rendering, worker) =
            template::start(about, shared.config.template.clone(), reads, shared.clock.clone(), hooks);
        let vars = rendering.vars();
        self.templates.insert(&self.task, rendering);
        let cancel = shared.cancel.clone();
        shared.tracker.spawn(async move {
            tokio::select! { () = cancel.cancelled() => {}, () = worker => {} }
        });
        Ok(vars)
    }

    fn tell(&self, input: Input) {
        send(&self.back, input);
    }
}
