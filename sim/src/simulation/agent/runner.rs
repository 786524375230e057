//! The shell of one allocation on a simulated node: feeds its state machine (`AllocRunner`) and carries its effects
//! out with simulated processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_client::core::{AllocRunner, Effect, Input};
use songline_model::{AllocId, Allocation, Blob, Str};
use songline_rpc::AllocReport;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::processes::RunKey;
use super::script::Script;
use super::{Agent, Left};

/// Interval at which the end of an earlier allocation is polled.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Duration of creating directories.
const SET_UP: Duration = Duration::from_millis(30);

/// An order to a runner.
pub enum Order {
    /// An input for the state machine.
    Input(Input),
    /// The servers reconnected to this node.
    Reconnect(Arc<Allocation>),
}

/// Public state of a runner.
#[derive(Clone)]
pub struct View {
    /// The servers' copy.
    pub alloc: Arc<Allocation>,
    /// Client status as reported to the servers.
    pub update: AllocReport,
    /// Whether its directory and records are gone.
    pub destroyed: bool,
}

/// The agent's handle of a runner.
pub struct Runner {
    orders: mpsc::UnboundedSender<Order>,
    view: Arc<Mutex<View>>,
}

impl Runner {
    /// Sends an input to the state machine.
    pub fn tell(&self, input: Input) {
        let _ = self.orders.send(Order::Input(input));
    }

    /// Records that the servers reconnected to this node.
    pub fn reconnect(&self, update: Arc<Allocation>) {
        let _ = self.orders.send(Order::Reconnect(update));
    }

    /// Current state.
    pub fn view(&self) -> View {
        self.view.lock().clone()
    }

    /// Spawns a runner for a state machine: a new one, or one restored from an earlier agent's state.
    pub fn spawn(agent: &Arc<Agent>, machine: AllocRunner, left: Option<Left>) -> Arc<Self> {
        let (orders, queue) = mpsc::unbounded_channel();
        let view = View { alloc: Arc::clone(machine.alloc()), update: machine.update(), destroyed: false };
        let view = Arc::new(Mutex::new(view));
        let shell = Shell {
            agent: Arc::clone(agent),
            orders: orders.clone(),
            view: Arc::clone(&view),
            machine,
            setup: None,
            restored: left.is_some(),
        };
        agent.life.spawn(shell.run(left, queue));
        Arc::new(Self { orders, view })
    }
}

struct Shell {
    agent: Arc<Agent>,
    orders: mpsc::UnboundedSender<Order>,
    view: Arc<Mutex<View>>,
    machine: AllocRunner,
    setup: Option<AbortHandle>,
    restored: bool,
}

impl Shell {
    async fn run(mut self, left: Option<Left>, mut queue: mpsc::UnboundedReceiver<Order>) {
        let now = self.agent.now();
        let effects = match left {
            None => self.machine.start(now),
            Some(left) => self.machine.restore(left.tasks, left.health, BTreeMap::new(), now),
        };
        self.perform(effects);
        loop {
            let order = tokio::select! {
                biased;
                order = queue.recv() => order,
                () = self.agent.machine.until(self.machine.next_deadline()) => Some(Order::Input(Input::Tick)),
            };
            let Some(order) = order else { return };
            let now = self.agent.now();
            let effects = match order {
                Order::Input(input) => self.machine.on(input, now),
                Order::Reconnect(update) => {
                    let effects = self.machine.reconnect(&update, now);
                    self.keep(|left, machine| left.alloc = Arc::clone(machine.alloc()));
                    effects
                }
            };
            self.perform(effects);
            self.view.lock().alloc = Arc::clone(self.machine.alloc());
            if self.view.lock().destroyed {
                return;
            }
        }
    }

    fn id(&self) -> AllocId {
        self.machine.alloc().id
    }

    /// Changes the durable state that a restart would find.
    fn keep(&self, change: impl FnOnce(&mut Left, &AllocRunner)) {
        if let Some(left) = self.agent.machine.left.lock().get_mut(&self.id()) {
            change(left, &self.machine);
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist { tasks, .. } => self.keep(|left, machine| {
                    left.tasks
                        .extend(tasks.into_iter().filter_map(|task| Some((task.clone(), machine.record(&task)?))));
                }),
                Effect::PersistHealth => self.keep(|left, machine| left.health = machine.deployment_status().cloned()),
                Effect::SetUp => self.set_up(),
                Effect::AbortSetUp => drop(self.setup.take().map(|setup| setup.abort())),
                Effect::RecoverTask { task, run, handle } => self.recover(task, run, handle.is_some()),
                Effect::SetUpTask { task } => self.answer(async move {
                    tokio::time::sleep(SET_UP).await;
                    Input::TaskSetUp { task, outcome: Ok(()) }
                }),
                Effect::StartTask { task, run } => self.start_task(task, run),
                Effect::KillTask { task, run, .. } => self.kill_task(task, run),
                // Simulated tasks have no templates to wait for.
                Effect::AbortTaskSetUp { .. }
                | Effect::SignalTask { .. }
                | Effect::TaskDone { .. }
                | Effect::Announce { .. }
                | Effect::Withdraw { .. }
                // Simulated jobs have no checks.
                | Effect::PlanChecks
                | Effect::RunCheck { .. }
                | Effect::ShowChecks { .. } => {}
                Effect::DestroyTask { task, run } => self.agent.machine.processes.destroy(&(self.id(), task, run)),
                Effect::Report => {
                    let update = self.machine.update();
                    {
                        let mut view = self.view.lock();
                        view.alloc = Arc::clone(self.machine.alloc());
                        view.update = update.clone();
                    }
                    let _ = self.agent.news.send(update);
                }
                Effect::TearDown => {}
                Effect::Destroy => {
                    self.agent.machine.left.lock().remove(&self.id());
                    self.view.lock().destroyed = true;
                }
            }
        }
    }

    /// Spawns work that is aborted with the agent, and sends its result to the state machine.
    fn answer(&self, work: impl Future<Output = Input> + Send + 'static) {
        let orders = self.orders.clone();
        self.agent.life.spawn(async move {
            let _ = orders.send(Order::Input(work.await));
        });
    }

    fn set_up(&mut self) {
        // After an agent's restart the earlier allocations were already waited for.
        let awaited = if self.restored { Vec::new() } else { self.machine.awaits() };
        let (agent, orders) = (Arc::clone(&self.agent), self.orders.clone());
        let life = Arc::clone(&agent.life);
        let work = async move {
            for id in awaited {
                let ends = |agent: &Agent| {
                    let runner = agent.runners.lock().get(&id).cloned();
                    runner.is_none_or(|runner| {
                        runner.view().update.client_status.is_terminal() || runner.view().destroyed
                    })
                };
                while !ends(&agent) {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
            tokio::time::sleep(SET_UP).await;
            let _ = orders.send(Order::Input(Input::SetUp(Ok(()))));
        };
        let handle = tokio::spawn(async move {
            tokio::select! {
                biased;
                () = life.over() => {}
                () = work => {}
            }
        });
        self.setup = Some(handle.abort_handle());
    }

    fn key(&self, task: &Str, run: u64) -> RunKey {
        (self.id(), task.clone(), run)
    }

    fn recover(&self, task: Str, run: u64, had_handle: bool) {
        let key = self.key(&task, run);
        let (agent, orders) = (Arc::clone(&self.agent), self.orders.clone());
        self.agent.life.spawn(async move {
            let processes = &agent.machine.processes;
            let found = match (processes.knows(&key), had_handle) {
                (true, _) => Ok(Some(Blob::default())),
                (false, true) => Err("the process is gone".into()),
                (false, false) => Ok(None),
            };
            let there = matches!(found, Ok(Some(_)));
            let _ = orders.send(Order::Input(Input::Recovered { task: task.clone(), found }));
            if there {
                let exit = processes.wait(&key).await;
                let _ = orders.send(Order::Input(Input::Exited { task, run, exit }));
            }
        });
    }

    fn start_task(&self, task: Str, run: u64) {
        let key = self.key(&task, run);
        let script = Script::of(self.machine.alloc(), &task);
        let (agent, orders) = (Arc::clone(&self.agent), self.orders.clone());
        self.agent.life.spawn(async move {
            let processes = &agent.machine.processes;
            let outcome = match agent.machine.scripted {
                false => processes.start(key.clone(), script).await,
                true => processes.start_scripted(key.clone(), script).await,
            };
            let outcome = outcome.map(|()| Blob::default());
            let started = outcome.is_ok();
            let _ = orders.send(Order::Input(Input::Started { task: task.clone(), run, outcome }));
            if started {
                let exit = processes.wait(&key).await;
                let _ = orders.send(Order::Input(Input::Exited { task, run, exit }));
            }
        });
    }

    fn kill_task(&self, task: Str, run: u64) {
        let key = self.key(&task, run);
        if !self.agent.machine.processes.knows(&key) {
            let failed = Input::KillFailed { task, run, error: "task not found for given id".into() };
            let _ = self.orders.send(Order::Input(failed));
            return;
        }
        let agent = Arc::clone(&self.agent);
        self.agent.life.spawn(async move { agent.machine.processes.stop(&key).await });
    }
}
