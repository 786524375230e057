//! The shell of one allocation on a simulated node: feeds its state machine (`AllocRunner`) and carries its effects
//! out with simulated processes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_client::core::{AllocRunner, Effect, Input};
use songline_client::loops::{self, Begin};
use songline_model::{AllocId, Allocation, Blob, Str};
use songline_rpc::AllocReport;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::host::{Site, Stored, StoredRunner};
use super::processes::RunKey;
use super::script::Script;

/// Interval at which the end of an earlier allocation is polled.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Duration of creating directories.
const SET_UP: Duration = Duration::from_millis(30);

/// An order to a runner.
enum Order {
    /// An input for the state machine.
    Input(Input),
    /// The servers reconnected to this node.
    Reconnect(Arc<Allocation>),
}

/// Public state of a runner.
struct View {
    /// The servers' copy.
    alloc: Arc<Allocation>,
    /// Client status as reported to the servers.
    report: AllocReport,
    /// Whether its records are gone.
    destroyed: bool,
}

/// The handle of a runner.
pub struct Runner {
    orders: mpsc::UnboundedSender<Order>,
    view: Arc<Mutex<View>>,
}

impl loops::Runner for Runner {
    fn tell(&self, input: Input) {
        let _ = self.orders.send(Order::Input(input));
    }

    fn reconnect(&self, update: Arc<Allocation>) {
        let _ = self.orders.send(Order::Reconnect(update));
    }

    fn alloc(&self) -> Arc<Allocation> {
        Arc::clone(&self.view.lock().alloc)
    }

    fn report(&self) -> AllocReport {
        self.view.lock().report.clone()
    }

    fn is_destroyed(&self) -> bool {
        self.view.lock().destroyed
    }
}

impl Runner {
    /// Spawns a runner for a state machine.
    pub fn spawn(site: &Arc<Site>, machine: AllocRunner, begin: Begin<Runner, StoredRunner>) -> Arc<Self> {
        let (orders, queue) = mpsc::unbounded_channel();
        let view = View { alloc: Arc::clone(machine.alloc()), report: machine.update(), destroyed: false };
        let view = Arc::new(Mutex::new(view));
        let shell = Shell {
            site: Arc::clone(site),
            orders: orders.clone(),
            view: Arc::clone(&view),
            machine,
            setup: None,
            restored: matches!(begin, Begin::Restored(_)),
        };
        site.life.spawn(shell.run(begin, queue));
        Arc::new(Self { orders, view })
    }

    fn has_ended(&self) -> bool {
        let view = self.view.lock();
        view.report.client_status.is_terminal() || view.destroyed
    }
}

struct Shell {
    site: Arc<Site>,
    orders: mpsc::UnboundedSender<Order>,
    view: Arc<Mutex<View>>,
    machine: AllocRunner,
    setup: Option<AbortHandle>,
    restored: bool,
}

impl Shell {
    async fn run(mut self, begin: Begin<Runner, StoredRunner>, mut queue: mpsc::UnboundedReceiver<Order>) {
        let now = self.site.clock.now();
        let mut held = VecDeque::new();
        let effects = match begin {
            Begin::Anew => self.machine.start(now),
            Begin::After(earlier) => {
                loop {
                    // The order matters: what comes until the earlier one is destroyed is taken.
                    let destroyed = loops::Runner::is_destroyed(&*earlier);
                    while let Ok(order) = queue.try_recv() {
                        held.extend(self.take_copy(order));
                    }
                    if destroyed {
                        break;
                    }
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                let stored = Stored::new(self.machine.alloc());
                self.site.machine.stored.lock().insert(self.id(), stored);
                self.machine.start(self.site.clock.now())
            }
            Begin::Restored(StoredRunner { tasks, health }) => {
                self.machine.restore(tasks, health, BTreeMap::new(), now)
            }
        };
        self.perform(effects);
        loop {
            let order = match held.pop_front() {
                Some(order) => Some(order),
                None => tokio::select! {
                    biased;
                    order = queue.recv() => order,
                    () = self.site.clock.until(self.machine.next_deadline()) => Some(Order::Input(Input::Tick)),
                },
            };
            let Some(order) = order else { return };
            let now = self.site.clock.now();
            let effects = match order {
                Order::Input(input) => {
                    let is_update = matches!(input, Input::Update(_));
                    let effects = self.machine.on(input, now);
                    if is_update {
                        self.keep(|stored, machine| stored.alloc = Arc::clone(machine.alloc()));
                    }
                    effects
                }
                Order::Reconnect(update) => {
                    let effects = self.machine.reconnect(&update, now);
                    self.keep(|stored, machine| stored.alloc = Arc::clone(machine.alloc()));
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

    /// Takes the copy of an order before the start. Returns an order that has none, or whose copy cannot be taken.
    fn take_copy(&mut self, order: Order) -> Option<Order> {
        let copy = match &order {
            Order::Input(Input::Update(copy)) | Order::Reconnect(copy) => Arc::clone(copy),
            Order::Input(_) => return Some(order),
        };
        if self.machine.replace_copy(copy, self.site.clock.now()).is_err() {
            return Some(order);
        }
        let mut view = self.view.lock();
        view.alloc = Arc::clone(self.machine.alloc());
        view.report = self.machine.update();
        None
    }

    fn id(&self) -> AllocId {
        self.machine.alloc().id
    }

    /// Changes the durable state that a restart would find.
    fn keep(&self, change: impl FnOnce(&mut Stored, &AllocRunner)) {
        self.site.keep(&self.id(), |stored| change(stored, &self.machine));
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist { tasks, .. } => self.keep(|stored, machine| {
                    stored
                        .runner
                        .tasks
                        .extend(tasks.into_iter().filter_map(|task| Some((task.clone(), machine.record(&task)?))));
                }),
                Effect::PersistHealth => self.keep(|stored, machine| {
                    stored.runner.health = machine.deployment_status().cloned();
                }),
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
                Effect::DestroyTask { task, run } => self.site.machine.processes.destroy(&(self.id(), task, run)),
                Effect::Report => {
                    let report = self.machine.update();
                    {
                        let mut view = self.view.lock();
                        view.alloc = Arc::clone(self.machine.alloc());
                        view.report = report;
                    }
                    let _ = self.site.news.send(self.id());
                }
                Effect::TearDown => {}
                Effect::Destroy => {
                    self.site.machine.stored.lock().remove(&self.id());
                    self.view.lock().destroyed = true;
                }
            }
        }
    }

    /// Spawns work that is aborted with the agent, and sends its result to the state machine.
    fn answer(&self, work: impl Future<Output = Input> + Send + 'static) {
        let orders = self.orders.clone();
        self.site.life.spawn(async move {
            let _ = orders.send(Order::Input(work.await));
        });
    }

    fn set_up(&mut self) {
        // After an agent's restart the earlier allocations were already waited for.
        let awaited = if self.restored { Vec::new() } else { self.machine.awaits() };
        let (site, orders) = (Arc::clone(&self.site), self.orders.clone());
        let life = Arc::clone(&site.life);
        let work = async move {
            for id in awaited {
                let ended = |site: &Site| site.runners.lock().get(&id).is_none_or(|runner| runner.has_ended());
                while !ended(&site) {
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
        let (site, orders) = (Arc::clone(&self.site), self.orders.clone());
        self.site.life.spawn(async move {
            let processes = &site.machine.processes;
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
        let (site, orders) = (Arc::clone(&self.site), self.orders.clone());
        self.site.life.spawn(async move {
            let processes = &site.machine.processes;
            let outcome = match site.machine.scripted {
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
        if !self.site.machine.processes.knows(&key) {
            let failed = Input::KillFailed { task, run, error: "task not found for given id".into() };
            let _ = self.orders.send(Order::Input(failed));
            return;
        }
        let site = Arc::clone(&self.site);
        self.site.life.spawn(async move { site.machine.processes.stop(&key).await });
    }
}
