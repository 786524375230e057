//! Surroundings of the loops of a simulated node: runners with simulated processes, and the durable state in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use songline_client::Clock;
use songline_client::core::{AllocRunner, TaskRecord};
use songline_client::loops::{Begin, Host, Left, Runners};
use songline_model::{AllocDeploymentStatus, AllocId, Allocation, Dur, Str};
use songline_rpc::AllocReport;
use tokio::sync::mpsc;

use super::super::ending::Ending;
use super::NodeMachine;
use super::runner::Runner;

/// Upper bound of kill timeouts.
const KILL_TIMEOUT_MAX: Dur = Dur::from_secs(30);

/// An agent's durable state of an allocation.
#[derive(Clone)]
pub struct Stored {
    pub alloc: Arc<Allocation>,
    pub runner: StoredRunner,
    acknowledged: Option<AllocReport>,
}

/// Durable state of a runner.
#[derive(Clone, Default)]
pub struct StoredRunner {
    pub tasks: BTreeMap<Str, TaskRecord>,
    pub health: Option<AllocDeploymentStatus>,
}

impl Stored {
    /// State of an allocation that is new to the machine.
    pub fn new(alloc: &Arc<Allocation>) -> Self {
        Self { alloc: Arc::clone(alloc), runner: StoredRunner::default(), acknowledged: None }
    }

    /// The state as the next agent restores it.
    pub fn left(self) -> Left<StoredRunner> {
        let Self { alloc, runner, acknowledged } = self;
        let began = !runner.tasks.is_empty();
        Left { alloc, acknowledged, restored: began.then_some(runner) }
    }
}

/// One life of an agent on a machine.
pub struct Site {
    pub machine: Arc<NodeMachine>,
    pub life: Arc<Ending>,
    /// The agent's clock, set when it started.
    pub clock: Clock,
    pub runners: Runners<Runner>,
    /// Receives the allocations whose runners have something to report.
    pub news: mpsc::UnboundedSender<AllocId>,
}

impl Site {
    fn name(&self) -> &str {
        self.machine.name()
    }

    /// Changes the durable state of an allocation that has any.
    pub fn keep(&self, id: &AllocId, change: impl FnOnce(&mut Stored)) {
        if let Some(stored) = self.machine.stored.lock().get_mut(id) {
            change(stored);
        }
    }
}

/// The host of a simulated node's loops.
pub struct SimHost(pub Arc<Site>);

impl Host for SimHost {
    type Runner = Runner;
    type Restored = StoredRunner;

    fn refusal(&self, _alloc: &Allocation) -> Option<String> {
        None
    }

    fn kill_timeout_max(&self) -> Dur {
        KILL_TIMEOUT_MAX
    }

    fn start(&self, machine: AllocRunner, begin: Begin<Runner, StoredRunner>) -> Arc<Runner> {
        Runner::spawn(&self.0, machine, begin)
    }

    fn put_registered(&self) {
        self.0.machine.registered.store(true, Ordering::Relaxed);
    }

    fn put_alloc(&self, alloc: &Arc<Allocation>) {
        let mut stored = self.0.machine.stored.lock();
        stored.entry(alloc.id).or_insert_with(|| Stored::new(alloc)).alloc = Arc::clone(alloc);
    }

    fn put_acknowledged(&self, report: &AllocReport) {
        self.0.keep(&report.id, |stored| stored.acknowledged = Some(report.clone()));
    }

    fn forget(&self, id: &AllocId) {
        self.0.machine.stored.lock().remove(id);
    }

    fn on_registered(&self) {
        self.0.machine.record.note(&format!("{} is registered", self.0.name()));
    }

    fn on_reconnected(&self) {
        self.0.machine.record.note(&format!("{} is back", self.0.name()));
        self.0.machine.record.count(|counts| counts.reconnects += 1);
    }
}
