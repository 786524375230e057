//! The shell of one allocation: an async task that feeds the state machine ([`AllocRunner`]) and carries its effects
//! out with drivers, directories and the database. It decides nothing.

mod announce;
mod configure;
mod environment;
mod hooks;
mod processes;
mod report;
mod start;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::{
    AllocClientStatus, AllocId, AllocNetworkStatus, Allocation, Dur, Errors, Node, NodeEvent, Str, TaskRunState, Time,
};
use songline_rpc::AllocReport;
use songline_rpc::message::CheckResult;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::hooks::ExtraHooks;
use self::hooks::alloc::{AllocContext, AllocHooks};
use self::hooks::resources::AllocResources;
use self::hooks::task::TaskHooks;
pub(crate) use self::hooks::task::validate;
use self::processes::Processes;
pub(crate) use self::report::Waits;
use crate::agent::Counts;
use crate::allocdir::AllocDir;
use crate::checks;
use crate::clock::Clock;
use crate::config::ClientConfig;
use crate::consul;
use crate::core::{AllocRunner, Effect, Input, SignalCause, StartFailure, TaskRecord, Unsignalled, event, signalled};
use crate::csi;
use crate::driver::{Driver, Process, RunId, TaskConfig};
use crate::network::Networks;
use crate::previous::Earlier;
use crate::services::{Announcer, Registrar};
use crate::state::{NotWritten, StateDb};
use crate::stats::{Detail, TaskUsage};
use crate::vault;

/// Number of attempts to stop a task before the task counts as gone.
const KILL_TRIES: u32 = 5;
const KILL_RETRY: Duration = Duration::from_secs(5);
const KILL_RETRY_MAX: Duration = Duration::from_secs(120);

/// Pause between the starts of checks that are due together. A service with a short queue of connections would drop
/// some of them, and the network's retry comes after the timeout of most checks.
const CHECK_SPACING: Duration = Duration::from_millis(5);

/// State shared by all runners of an agent.
pub(crate) struct Shared {
    pub config: ClientConfig,
    pub clock: Clock,
    pub drivers: BTreeMap<Str, Arc<dyn Driver>>,
    pub state: StateDb,
    pub node: Arc<Mutex<Arc<Node>>>,
    pub cancel: CancellationToken,
    pub tracker: TaskTracker,
    /// Receives the runners' messages.
    pub news: mpsc::UnboundedSender<News>,
    /// Earlier allocations of this node and others.
    pub earlier: Arc<dyn Earlier>,
    /// Registers services at the servers.
    pub registrar: Arc<dyn Registrar>,
    /// Services of this node at its Consul agent. `None`: the node has none.
    pub consul: Option<Arc<consul::Registrations>>,
    /// Vault. `None`: the node has none.
    pub vault: Option<vault::Access>,
    /// CSI volumes on this node.
    pub volumes: Arc<csi::Volumes>,
    /// Takes and releases claims on CSI volumes.
    pub claims: Arc<dyn csi::Claims>,
    /// Runs checks of services.
    pub checks: checks::Runs,
    /// Networks of allocations.
    pub networks: Networks,
    /// Permits for exec sessions.
    pub sessions: Arc<Semaphore>,
    /// Ends and restarts of tasks.
    pub counts: Counts,
    /// Allocations that do not start yet because of an earlier one.
    pub waits: Waits,
}

/// A runner's message to the agent.
pub(crate) enum News {
    /// The runner of this allocation has an update for the servers: [`View::update`].
    Update(AllocId),
    /// The rows of a CSI plugin.
    Plugin(Box<csi::Fingerprint>),
    /// An event of the node.
    NodeEvent(Box<NodeEvent>),
    /// The allocation has ended, or its directory is gone: garbage collection may have something to collect, or there
    /// is room.
    Ended,
}

/// An order to a runner from outside.
enum Order {
    Input(Input),
    Reconnect(Arc<Allocation>),
    Restart { task: Str, all: bool, reason: Str, reply: oneshot::Sender<Result<(), String>> },
    Signal { task: Str, signal: Str, reply: oneshot::Sender<Result<(), String>> },
}

/// Public state of a runner.
#[derive(Clone)]
pub(crate) struct View {
    /// The servers' copy.
    pub alloc: Arc<Allocation>,
    /// Client status as reported to the servers.
    pub update: AllocReport,
    /// Newest results of its checks.
    pub checks: Arc<BTreeMap<Str, CheckResult>>,
    /// Time at which all its tasks had ended for good.
    pub done_at: Option<Time>,
    /// Whether its directory and records are gone.
    pub destroyed: bool,
}

/// The agent's handle of a runner.
pub(crate) struct Runner {
    orders: mpsc::UnboundedSender<Order>,
    view: watch::Receiver<View>,
    processes: Arc<Processes>,
    pub dir: AllocDir,
}

/// Beginning of a runner.
pub(crate) enum Begin {
    /// The allocation is new to this node.
    Start,
    /// As `Start`, once an earlier runner of the same allocation has removed everything of it.
    After(Arc<Runner>),
    /// The allocation was left by an earlier agent.
    Restore(Box<Restored>),
}

/// State of an allocation that an earlier agent left.
#[derive(Default)]
pub(crate) struct Restored {
    pub tasks: BTreeMap<Str, TaskRecord>,
    pub health: Option<songline_model::AllocDeploymentStatus>,
    pub checks: BTreeMap<Str, CheckResult>,
    pub network: Option<AllocNetworkStatus>,
    pub volumes: csi::HeldVolumes,
}

impl Runner {
    /// Spawns a runner for a state machine.
    pub fn spawn(shared: Arc<Shared>, machine: AllocRunner, begin: Begin) -> Arc<Self> {
        Self::spawn_with(shared, machine, begin, ExtraHooks::default())
    }

    fn spawn_with(shared: Arc<Shared>, machine: AllocRunner, begin: Begin, extra: ExtraHooks) -> Arc<Self> {
        let (orders, queue) = mpsc::unbounded_channel();
        let alloc = Arc::clone(machine.alloc());
        let dir = AllocDir::new(&shared.config.alloc_dir(), &alloc.id);
        let update = machine.update();
        let (show, view) =
            watch::channel(View { alloc, update, checks: Arc::default(), done_at: None, destroyed: false });
        let processes = Arc::new(Processes::default());
        let (awaited, held) = match &begin {
            Begin::Start | Begin::After(_) => (machine.awaits(), csi::HeldVolumes::new()),
            // The earlier agent has waited.
            Begin::Restore(restored) => (Vec::new(), restored.volumes.clone()),
        };
        let resources = Arc::<AllocResources>::default();
        let hooks = AllocHooks::new(&shared, machine.alloc().id, awaited, held, &resources).with(extra.alloc);
        let of_task = |task: &Str| {
            let hooks = TaskHooks::new(task.clone(), shared.clock.clone(), orders.downgrade());
            Arc::new(hooks.with(&extra.task))
        };
        let task_hooks = machine.task_states().keys().map(|task| (task.clone(), of_task(task))).collect();
        let shell = Shell {
            back: orders.downgrade(),
            dir: dir.clone(),
            processes: Arc::clone(&processes),
            ending: TaskTracker::new(),
            prepared: Arc::default(),
            hooks: Arc::new(hooks),
            resources,
            task_hooks,
            setup: None,
            announcer: None,
            scripts: consul::Scripts::default(),
            withdrawing: Vec::new(),
            show,
            machine,
            shared,
        };
        let tracker = shell.shared.tracker.clone();
        // The async task holds a sender from the start: when the runner is dropped before its first step, orders that
        // were sent until then are still carried out.
        tracker.spawn(shell.run(begin, queue, orders.clone()));
        Arc::new(Self { orders, view, processes, dir })
    }

    /// Sends an input to the state machine.
    pub fn tell(&self, input: Input) {
        let _ = self.orders.send(Order::Input(input));
    }

    /// Records that the servers reconnected to this node.
    pub fn reconnect(&self, update: Arc<Allocation>) {
        let _ = self.orders.send(Order::Reconnect(update));
    }

    /// Restarts a task, all running ones, or all.
    pub async fn restart(&self, task: &str, all: bool, reason: &str) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        let _ = self.orders.send(Order::Restart { task: task.into(), all, reason: reason.into(), reply });
        answer.await.unwrap_or_else(|_| Err("the node is shutting down".to_owned()))
    }

    /// Sends a signal to a task or to all.
    pub async fn signal(&self, task: &str, signal: &str) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        let _ = self.orders.send(Order::Signal { task: task.into(), signal: signal.into(), reply });
        answer.await.unwrap_or_else(|_| Err("the node is shutting down".to_owned()))
    }

    /// Current state.
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Waits until the state satisfies a condition, or the runner is gone.
    pub async fn wait_for(&self, is_so: impl FnMut(&View) -> bool) {
        // An error means that the runner is gone, so no further state will come.
        let _ = self.view.clone().wait_for(is_so).await;
    }

    /// Process of a task that was started and not destroyed yet.
    pub fn process(&self, task: &str) -> Option<Arc<dyn Process>> {
        self.processes.get(task)
    }

    /// Current usage of a task, or its last usage when it has ended; `None` when it was never started.
    pub async fn usage(&self, task: &str, detail: Detail) -> Option<TaskUsage> {
        self.processes.usage(task, detail).await
    }
}

struct Shell {
    shared: Arc<Shared>,
    machine: AllocRunner,
    /// Weak, because spawned work holds copies and may outlive the runner. `Shell::run` keeps the queue open while
    /// orders are carried out.
    back: mpsc::WeakUnboundedSender<Order>,
    dir: AllocDir,
    processes: Arc<Processes>,
    /// Removals of runs.
    ending: TaskTracker,
    /// Prepared driver configuration of each task, for its start.
    prepared: Arc<Mutex<BTreeMap<Str, TaskConfig>>>,
    hooks: Arc<AllocHooks>,
    resources: Arc<AllocResources>,
    /// Hooks of the tasks that have not ended for good.
    task_hooks: BTreeMap<Str, Arc<TaskHooks>>,
    setup: Option<AbortHandle>,
    /// Created when there is something to announce or to withdraw: most allocations have no services.
    announcer: Option<Announcer>,
    /// Scripts of checks at Consul.
    scripts: consul::Scripts,
    /// Withdrawals that may still be pending.
    withdrawing: Vec<oneshot::Receiver<()>>,
    show: watch::Sender<View>,
}

impl Shell {
    /// Carries orders out until the allocation is destroyed or the agent ends. `_open` keeps the queue open until then.
    async fn run(
        mut self,
        begin: Begin,
        mut queue: mpsc::UnboundedReceiver<Order>,
        _open: mpsc::UnboundedSender<Order>,
    ) {
        let cancel = self.shared.cancel.clone();
        let now = self.shared.clock.now();
        let mut held = VecDeque::new();
        let effects = match begin {
            Begin::Start => self.machine.start(now),
            Begin::After(earlier) => {
                tokio::select! {
                    () = cancel.cancelled() => return,
                    orders = self.until_destroyed(&earlier, &mut queue) => held = orders,
                }
                drop(earlier);
                self.shared.state.put_alloc(self.machine.alloc());
                self.machine.start(self.shared.clock.now())
            }
            Begin::Restore(restored) => {
                let Restored { tasks, health, checks, network, volumes: _ } = *restored;
                self.machine.restore_network(network);
                let effects = self.machine.restore(tasks, health, checks, now);
                // What an earlier agent counted is not counted again.
                let update = self.machine.update();
                self.show.send_modify(|view| view.update = update);
                effects
            }
        };
        self.perform(effects).await;
        loop {
            let order = match held.pop_front() {
                Some(order) => Some(order),
                None => tokio::select! {
                    () = cancel.cancelled() => return,
                    order = queue.recv() => order,
                    () = self.shared.clock.until(self.machine.next_deadline()) => Some(Order::Input(Input::Tick)),
                },
            };
            let Some(order) = order else { return };
            self.obey(order).await;
            self.show_alloc();
            if self.show.borrow().destroyed {
                return;
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        let now = self.shared.clock.now();
        match order {
            Order::Input(input) => {
                let is_update = matches!(input, Input::Update(_));
                let effects = self.machine.on(input, now);
                if is_update {
                    self.shared.state.put_alloc(self.machine.alloc());
                }
                self.perform(effects).await;
            }
            Order::Reconnect(update) => {
                let effects = self.machine.reconnect(&update, now);
                self.shared.state.put_alloc(self.machine.alloc());
                self.perform(effects).await;
            }
            Order::Restart { task, all, reason, reply } => {
                let effects = if task.is_empty() {
                    self.machine.restart_tasks(all, &reason, now)
                } else {
                    self.machine.restart_task(&task, &reason, now)
                };
                let _ = reply.send(match effects {
                    Ok(effects) => {
                        self.perform(effects).await;
                        Ok(())
                    }
                    Err(error) => Err(error),
                });
            }
            Order::Signal { task, signal, reply } => {
                let outcome = match self.machine.signal(&task, &signal, now) {
                    Ok((effects, mut failed)) => {
                        failed.extend(self.perform(effects).await);
                        signalled(&task, failed)
                    }
                    Err(error) => Err(error),
                };
                let _ = reply.send(outcome);
            }
        }
    }

    /// Carries effects out in their order. Returns the tasks that could not be signalled, with the errors.
    async fn perform(&mut self, effects: Vec<Effect>) -> Unsignalled {
        let mut errors = Vec::new();
        let mut for_templates: BTreeMap<Str, (Vec<Str>, Errors)> = BTreeMap::new();
        let (mut unrecorded, mut checks_begun) = (false, 0);
        for effect in effects {
            match effect {
                Effect::Persist { tasks, sync } => {
                    let records = tasks
                        .into_iter()
                        .filter_map(|task| Some((task.clone(), self.machine.record(&task)?)))
                        .collect();
                    match self.shared.state.put_tasks(&self.id(), records, sync).await {
                        Ok(()) => {}
                        Err(NotWritten::Disk) => unrecorded = true,
                        // A later agent continues from the rows that were written, so nothing else may happen.
                        Err(NotWritten::Closed) => return errors,
                    }
                }
                Effect::PersistHealth => self.shared.state.put_health(&self.id(), self.machine.deployment_status()),
                Effect::SetUp => self.set_up(),
                Effect::AbortSetUp => drop(self.setup.take().map(|setup| setup.abort())),
                Effect::RecoverTask { task, run, handle } => self.recover(task, run, handle),
                Effect::SetUpTask { task } => self.set_up_task(task),
                Effect::AbortTaskSetUp { task } => {
                    self.task_hooks.get(&task).into_iter().for_each(|hooks| hooks.abort())
                }
                Effect::StartTask { task, run } if unrecorded => {
                    let outcome = Err(StartFailure { error: NotWritten::Disk.to_string().into(), recoverable: true });
                    send(&self.back, Input::Started { task, run, outcome });
                }
                Effect::StartTask { task, run } => self.start_task(task, run),
                Effect::KillTask { task, run, signal, timeout } => {
                    self.until_withdrawn().await;
                    self.kill_task(task, run, signal, timeout);
                }
                Effect::SignalTask { task, signal, cause, run: _ } => {
                    let process = self.processes.get(&task);
                    // A task that has ended meanwhile reads the new files when it starts again.
                    if cause == SignalCause::Templates && process.is_none() {
                        continue;
                    }
                    let sent = match process {
                        Some(process) => process.signal(&signal).await,
                        None => Err("Task not running".to_owned()),
                    };
                    if cause == SignalCause::Templates {
                        let (signals, failed) = for_templates.entry(task).or_default();
                        signals.push(signal);
                        failed.check(sent);
                    } else if let Err(error) = sent {
                        errors.push((task, error));
                    }
                }
                // The directory of the run is the only record of the run's end, so it stays until the allocation is
                // removed.
                Effect::DestroyTask { task, .. } if unrecorded => self.processes.remove(&task).await,
                Effect::DestroyTask { task, run } => self.destroy_task(task, run).await,
                Effect::TaskDone { task } => {
                    self.prepared.lock().remove(&task);
                    if let Some(hooks) = self.task_hooks.remove(&task) {
                        hooks.stop().await;
                    }
                }
                Effect::Announce { of, begins } => self.announce(of, begins),
                Effect::Withdraw { of } => self.withdraw(of),
                Effect::PlanChecks => self.plan_checks(),
                Effect::RunCheck { run, plan } => {
                    self.run_check(run, plan, CHECK_SPACING * checks_begun);
                    checks_begun += 1;
                }
                Effect::ShowChecks { persist } => self.show_checks(persist),
                Effect::Report => self.report(),
                Effect::TearDown => {
                    self.hooks.postrun(&self.context()).await;
                    let now = self.shared.clock.now();
                    self.show.send_modify(|view| view.done_at = Some(now));
                    let _ = self.shared.news.send(News::Ended);
                }
                Effect::Destroy => self.destroy().await,
            }
        }
        for (task, (signals, failed)) in for_templates.into_iter().filter(|(_, (_, failed))| !failed.is_empty()) {
            let event = event::templates_not_signalled(self.shared.clock.now(), &signals, &failed);
            send(&self.back, Input::TaskFailed { task, event: Box::new(event) });
        }
        errors
    }

    fn id(&self) -> AllocId {
        self.machine.alloc().id
    }

    /// Spawns work that is aborted with the agent: a later agent finds out how far it came.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let cancel = self.shared.cancel.clone();
        let task = self.shared.tracker.spawn(async move {
            tokio::select! { () = cancel.cancelled() => {}, () = work => {} }
        });
        task.abort_handle()
    }

    fn run_id(&self, task: &Str, run: u64) -> RunId {
        RunId { alloc: self.id(), task: task.clone(), run }
    }

    /// The allocation as its hooks see it now.
    fn context(&self) -> AllocContext {
        let (shared, alloc) = (Arc::clone(&self.shared), Arc::clone(self.machine.alloc()));
        AllocContext::new(shared, alloc, self.dir.clone(), Arc::clone(&self.resources), self.back.clone())
    }

    fn set_up(&mut self) {
        let (hooks, context, back) = (Arc::clone(&self.hooks), self.context(), self.back.clone());
        let handle = self.spawn(async move {
            let outcome = hooks.prerun(&context).await;
            send(&back, Input::SetUp(outcome.map_err(Str::from)));
        });
        self.setup = Some(handle);
    }

    fn kill_task(&self, task: Str, run: u64, signal: Str, timeout: Dur) {
        let back = self.back.clone();
        let Some(process) = self.processes.get(&task) else {
            return send(&back, Input::KillFailed { task, run, error: "task not found for given id".into() });
        };
        self.spawn(async move {
            let mut wait = KILL_RETRY;
            let mut last = String::new();
            for attempt in 0..KILL_TRIES {
                if attempt > 0 {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 4).min(KILL_RETRY_MAX);
                }
                match process.stop(&signal, timeout).await {
                    // The task that waits for the process reports its end.
                    Ok(()) => return,
                    Err(error) => last = error,
                }
            }
            send(&back, Input::KillFailed { task, run, error: last.into() });
        });
    }

    async fn destroy_task(&self, task: Str, run: u64) {
        self.processes.remove(&task).await;
        let id = self.run_id(&task, run);
        if let Some(driver) = self.driver(&task) {
            let destroyed = self.ending.track_future(async move { driver.destroy(id).await });
            self.shared.tracker.spawn(destroyed);
        }
    }

    async fn destroy(&mut self) {
        // A later runner of the same allocation counts its runs from 1 again.
        self.ending.close();
        self.ending.wait().await;
        self.hooks.destroy(&self.context()).await;
        self.show.send_modify(|view| view.destroyed = true);
        let _ = self.shared.news.send(News::Ended);
    }

    fn driver(&self, task: &str) -> Option<Arc<dyn Driver>> {
        let driver = &self.machine.alloc().group()?.task(task)?.driver;
        self.shared.drivers.get(driver).cloned()
    }
}

/// Sends the result of spawned work; the runner may be gone.
fn send(back: &mpsc::WeakUnboundedSender<Order>, input: Input) {
    if let Some(back) = back.upgrade() {
        let _ = back.send(Order::Input(input));
    }
}

impl View {
    /// Whether its client status is terminal, or it is destroyed.
    pub fn is_terminal(&self) -> bool {
        self.update.client_status.is_terminal() || self.destroyed
    }

    /// Whether this task has ever run.
    pub fn was_started(&self, task: &str) -> bool {
        self.update.task(task).is_some_and(|state| state.started_at.is_some() || state.state == TaskRunState::Running)
    }

    /// Client status as reported to the servers.
    pub fn status(&self) -> AllocClientStatus {
        self.update.client_status
    }
}

#[cfg(test)]
mod tests;
