//! Synchronizes a simulated node's allocations with the servers: poll, fetch, add, update, remove, and restore from
//! an earlier agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_client::core::{
    AllocRunner, AllocRunnerConfig, Input, MISSING_RETRY, changes, is_reconnect, is_unknown, retry_after, wanted,
};
use songline_model::{AllocId, Allocation, Dur};
use songline_rpc::{BlockingQuery, RpcError, Servers};

use super::runner::Runner;
use super::{Agent, Left};

/// An answer earlier than this delays the next poll, so that repeated early answers do not make the node poll in a
/// tight loop.
const EARLY: Dur = Dur::from_secs(1);
/// Longest wait of a poll: less than that of real nodes, so that broken connections are noticed.
const POLL: Dur = Dur::from_secs(20);

impl Agent {
    /// Follows the servers' allocations for this node, for ever.
    pub(super) async fn watch(self: Arc<Self>) {
        self.registered.over().await;
        let mut min_index = 0;
        loop {
            match self.poll(min_index).await {
                Ok(index) => min_index = index,
                Err(wait) => self.rest(wait).await,
            }
        }
    }

    /// One round: polls the wanted allocations, fetches the changed ones, and applies the changes. Returns the index
    /// of the answer, or the delay before the next round.
    async fn poll(self: &Arc<Self>, min_index: u64) -> Result<u64, Dur> {
        let asked = self.now();
        let query = BlockingQuery { min_index, max_wait: POLL };
        let answer = self.call(|| self.servers.node_get_client_allocs(&self.machine.auth, query)).await;
        let answer = answer.map_err(|error| self.after(&error))?;
        let here: BTreeMap<AllocId, u64> =
            self.runners.lock().iter().map(|(id, runner)| (*id, runner.view().alloc.alloc_modify_index)).collect();
        let invalid = self.invalid.lock().clone();
        let Some(wanted) = wanted(&here, &invalid, min_index, answer.index, &answer.allocs) else {
            return Err(if self.now().since(asked) < EARLY { EARLY } else { Dur::ZERO });
        };
        let mut pulled = BTreeMap::new();
        if !wanted.pull.is_empty() {
            let fetched = self.call(|| self.servers.alloc_get_allocs(&self.machine.auth, wanted.pull.clone()));
            pulled =
                fetched.await.map_err(|error| self.after(&error))?.into_iter().map(|alloc| (alloc.id, alloc)).collect();
            if wanted.lacks_any(&pulled, &answer.allocs) {
                return Err(self.machine.jitter().stretched(MISSING_RETRY));
            }
        }
        self.apply(&here, pulled, &wanted.unchanged);
        Ok(answer.index)
    }

    fn apply(
        self: &Arc<Self>,
        here: &BTreeMap<AllocId, u64>,
        mut pulled: BTreeMap<AllocId, Arc<Allocation>>,
        unchanged: &BTreeSet<AllocId>,
    ) {
        let indexes = pulled.iter().map(|(id, alloc)| (*id, alloc.alloc_modify_index)).collect();
        let todo = changes(here, &indexes, unchanged);
        for id in todo.removed {
            self.sync.lock().forget(&id);
            if let Some(runner) = self.runners.lock().remove(&id) {
                runner.tell(Input::Destroy);
            }
        }
        self.invalid.lock().retain(|id| pulled.contains_key(id) || unchanged.contains(id));
        for id in todo.updated {
            let runner = self.runners.lock().get(&id).cloned();
            if let (Some(alloc), Some(runner)) = (pulled.remove(&id), runner) {
                self.update_alloc(&runner, alloc);
            }
        }
        for id in todo.added {
            if let Some(alloc) = pulled.remove(&id) {
                self.add_alloc(alloc);
            }
        }
        self.sync.lock().on_contact();
        self.sync_wake.notify_one();
        for runner in self.runners.lock().values() {
            runner.tell(Input::ServersContacted);
        }
    }

    fn update_alloc(&self, runner: &Runner, alloc: Arc<Allocation>) {
        let view = runner.view();
        if view.destroyed {
            return;
        }
        if is_reconnect(view.alloc.alloc_modify_index, &alloc) {
            return runner.reconnect(alloc);
        }
        if let Some(left) = self.machine.left.lock().get_mut(&alloc.id) {
            left.alloc = Arc::clone(&alloc);
        }
        runner.tell(Input::Update(alloc));
    }

    fn add_alloc(self: &Arc<Self>, alloc: Arc<Allocation>) {
        let id = alloc.id;
        match AllocRunner::new(Arc::clone(&alloc), self.config(), self.now()) {
            Ok(machine) => {
                let left = Left { alloc, tasks: BTreeMap::new(), health: None, acknowledged: None };
                self.machine.left.lock().insert(id, left);
                let runner = Runner::spawn(self, machine, None);
                self.runners.lock().insert(id, runner);
            }
            Err(error) => {
                self.machine.record.note(&format!("{} cannot take {id} up: {error}", self.machine.name()));
                self.invalid.lock().insert(id);
            }
        }
    }

    fn config(&self) -> AllocRunnerConfig {
        AllocRunnerConfig { kill_timeout_max: Dur::from_secs(30), seed: self.machine.draw() }
    }

    /// Restores the allocations that an earlier agent left.
    pub(super) fn restore(self: &Arc<Self>) {
        let all = self.machine.left.lock().clone();
        for (id, left) in all {
            if left.tasks.is_empty() {
                // The allocation never began; the servers send it again.
                self.machine.left.lock().remove(&id);
                continue;
            }
            if let Some(acknowledged) = left.acknowledged.clone() {
                self.sync.lock().restore_acknowledged(acknowledged);
            }
            match AllocRunner::new(Arc::clone(&left.alloc), self.config(), self.now()) {
                Ok(machine) => {
                    let runner = Runner::spawn(self, machine, Some(left));
                    self.runners.lock().insert(id, runner);
                }
                Err(_) => {
                    self.invalid.lock().insert(id);
                }
            }
        }
    }

    /// Delay before the next round after this error.
    fn after(&self, error: &RpcError) -> Dur {
        if is_unknown(error) {
            self.register_again.notify_one();
        }
        self.machine.jitter().stretched(retry_after(error))
    }
}
