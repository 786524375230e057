//! Synchronizes this node's allocations with the servers: poll, fetch, add, update, remove, and restore from an
//! earlier agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use songline_model::{AllocClientStatus, AllocDeploymentStatus, AllocId, Allocation, TaskRunState, TaskState, Time};
use songline_rpc::{AllocReport, BlockingQuery, Servers};

use super::{Begin, DEV_RETRY, Host, Loops, Runner};
use crate::core::{
    AllocRunner, AllocRunnerConfig, Input, MISSING_RETRY, begins_anew, changes, is_reconnect, is_unknown, retry_after,
    wanted,
};

/// Delay before the next round.
struct Pause(Duration);

/// An allocation that an earlier agent left.
pub struct Left<R> {
    /// The servers' copy.
    pub alloc: Arc<Allocation>,
    /// The newest report that the servers acknowledged.
    pub acknowledged: Option<AllocReport>,
    /// State of the runner. `None`: the allocation never began here.
    pub restored: Option<R>,
}

impl<S: Servers, H: Host> Loops<S, H> {
    /// Follows the servers' allocations for this node, for ever.
    pub(super) async fn watch(self: Arc<Self>) {
        self.until_registered().await;
        let mut min_index = 0;
        loop {
            match self.poll(min_index).await {
                Ok(index) => min_index = index,
                Err(Pause(wait)) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// One round: polls the wanted allocations, fetches the changed ones, and applies the changes. Returns the index
    /// of the answer.
    async fn poll(self: &Arc<Self>, min_index: u64) -> Result<u64, Pause> {
        let asked = tokio::time::Instant::now();
        let query = BlockingQuery { min_index, ..BlockingQuery::default() };
        let answer = self.call(|| self.servers.node_get_client_allocs(&self.auth, query)).await.map_err(|error| {
            tracing::warn!(%error, "asking for the node's allocations");
            if is_unknown(&error) {
                self.register_again.notify_one();
            }
            Pause(self.retry_wait(retry_after(&error)))
        })?;
        let here: BTreeMap<AllocId, u64> =
            self.all().into_iter().map(|(id, runner)| (id, runner.alloc().alloc_modify_index)).collect();
        let invalid = self.invalid.lock().clone();
        let Some(wanted) = wanted(&here, &invalid, min_index, answer.index, &answer.allocs) else {
            // The answer is stale or a timeout. A server that keeps answering early must not make this node poll in a
            // tight loop.
            let early = asked.elapsed() < DEV_RETRY;
            return Err(Pause(if early { DEV_RETRY } else { Duration::ZERO }));
        };
        self.host.take_migrate_tokens(answer.migrate_tokens);
        let mut pulled = BTreeMap::new();
        if !wanted.pull.is_empty() {
            let fetched = self.call(|| self.servers.alloc_get_allocs(&self.auth, wanted.pull.clone())).await.map_err(
                |error| {
                    tracing::warn!(%error, "fetching allocations");
                    Pause(self.retry_wait(retry_after(&error)))
                },
            )?;
            pulled = fetched.into_iter().map(|alloc| (alloc.id, alloc)).collect();
            if wanted.lacks_any(&pulled, &answer.allocs) {
                return Err(Pause(self.retry_wait(MISSING_RETRY)));
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
        self.leaving.lock().retain(|_, runner| !runner.is_destroyed());
        for id in todo.removed {
            self.remove_alloc(&id);
        }
        self.invalid.lock().retain(|id| pulled.contains_key(id) || unchanged.contains(id));
        for id in todo.updated {
            let runner = self.runners.lock().get(&id).cloned();
            if let (Some(alloc), Some(runner)) = (pulled.remove(&id), runner) {
                self.update_alloc(&runner, alloc);
            }
        }
        let added: Vec<Arc<Allocation>> = todo.added.iter().filter_map(|id| pulled.remove(id)).collect();
        self.host.make_room(&added);
        added.into_iter().for_each(|alloc| self.add_alloc(alloc));
        self.sync.lock().on_contact();
        self.sync_wake.notify_one();
        for runner in self.all().into_values() {
            runner.tell(Input::ServersContacted);
        }
        self.host.on_synced();
    }

    fn remove_alloc(&self, id: &AllocId) {
        self.sync.lock().forget(id);
        let runner = self.runners.lock().remove(id);
        if let Some(runner) = runner {
            runner.tell(Input::Destroy);
            self.leaving.lock().insert(*id, runner);
        }
    }

    fn update_alloc(&self, runner: &Arc<H::Runner>, alloc: Arc<Allocation>) {
        let known = runner.alloc();
        if begins_anew(&known, &alloc) {
            tracing::info!(alloc = %alloc.id, "the servers want an allocation again that was stopped");
            self.remove_alloc(&alloc.id);
            return self.add_alloc(alloc);
        }
        if known.deployment_id == alloc.deployment_id {
            self.sync.lock().compare(self.now(), &alloc, runner.report());
        }
        if runner.is_destroyed() {
            return;
        }
        if is_reconnect(known.alloc_modify_index, &alloc) {
            return runner.reconnect(alloc);
        }
        runner.tell(Input::Update(alloc));
    }

    fn add_alloc(&self, alloc: Arc<Allocation>) {
        let earlier = self.leaving.lock().remove(&alloc.id).filter(|earlier| !earlier.is_destroyed());
        let begin = match earlier {
            Some(earlier) => Begin::After(earlier),
            None => {
                self.host.put_alloc(&alloc);
                Begin::Anew
            }
        };
        match self.machine(&alloc) {
            Ok(machine) => self.begin(alloc.id, machine, begin),
            Err(error) => {
                tracing::error!(alloc = %alloc.id, error, "adding an allocation");
                self.refuse(&alloc, &error);
            }
        }
    }

    fn begin(&self, id: AllocId, machine: AllocRunner, begin: Begin<H::Runner, H::Restored>) {
        let runner = self.host.start(machine, begin);
        self.runners.lock().insert(id, runner);
    }

    /// Reports an allocation as failed that cannot be set up.
    fn refuse(&self, alloc: &Allocation, error: &str) {
        self.invalid.lock().insert(alloc.id);
        if !alloc.client_terminal() {
            self.sync.lock().put(self.now(), not_added(alloc, error, self.now()));
            self.sync_wake.notify_one();
        }
    }

    /// The state machine of an allocation; an error if its tasks could not run here.
    fn machine(&self, alloc: &Arc<Allocation>) -> Result<AllocRunner, String> {
        if let Some(error) = self.host.refusal(alloc) {
            return Err(error);
        }
        let config =
            AllocRunnerConfig { kill_timeout_max: self.host.kill_timeout_max(), seed: self.clock.world().number() };
        AllocRunner::new(Arc::clone(alloc), config, self.now())
    }

    /// Restores the allocations that an earlier agent left.
    pub fn restore(&self, left: impl IntoIterator<Item = Left<H::Restored>>) {
        let mut machines = Vec::new();
        for Left { alloc, acknowledged, restored } in left {
            let Some(restored) = restored else {
                // The servers send it again. An allocation that ended long ago must not begin anew. The rows are
                // removed before those of the servers' copy are written: a later removal would delete the record of
                // its first run as well.
                self.host.forget(&alloc.id);
                continue;
            };
            if let Some(acknowledged) = acknowledged {
                self.sync.lock().restore_acknowledged(acknowledged);
            }
            match self.machine(&alloc) {
                Ok(machine) => machines.push((alloc.id, machine, restored)),
                Err(error) => {
                    tracing::error!(alloc = %alloc.id, error, "restoring an allocation");
                    self.refuse(&alloc, &error);
                }
            }
        }
        for (id, machine, restored) in machines {
            self.begin(id, machine, Begin::Restored(restored));
        }
    }
}

/// Failure report for an allocation that could not be set up. Tasks that were never begun have no state, but a time of
/// their end, from which the servers count the delay of a replacement.
fn not_added(alloc: &Allocation, error: &str, now: Time) -> AllocReport {
    let mut task_states = alloc.task_states.as_deref().cloned().unwrap_or_default();
    for task in alloc.group().into_iter().flat_map(|group| group.tasks.iter().flatten()) {
        if !task_states.contains_key(&task.name) {
            let never_begun = TaskState { state: TaskRunState::None, ..TaskState::default() };
            task_states.insert(task.name.clone(), never_begun);
        }
    }
    for state in task_states.values_mut() {
        if state.state != TaskRunState::None {
            state.state = TaskRunState::Dead;
            state.failed = true;
        }
        state.finished_at.get_or_insert(now);
    }
    let mut health = alloc.deployment_status.as_deref().cloned().unwrap_or_default();
    health.healthy.get_or_insert(false);
    AllocReport {
        id: alloc.id,
        client_status: AllocClientStatus::Failed,
        client_description: format!("Unable to add allocation due to error: {error}").into(),
        task_states: Some(Arc::new(task_states)),
        deployment_status: alloc.deployment_id.map(|_| AllocDeploymentStatus { timestamp: Some(now), ..health }),
        ..AllocReport::default()
    }
}

#[cfg(test)]
mod tests {
    use songline_model::{Job, Task, TaskGroup};

    use super::*;

    #[test]
    fn tasks_of_a_refused_alloc_have_no_state_unless_an_earlier_agent_began_them() {
        let task = |name: &str| Task { name: name.into(), ..Task::default() };
        let tasks = Some(vec![task("begun"), task("new")]);
        let group = TaskGroup { name: "group".into(), tasks, ..TaskGroup::default() };
        let begun = TaskState { state: TaskRunState::Running, ..TaskState::default() };
        let alloc = Allocation {
            task_group: "group".into(),
            job: Some(Arc::new(Job { task_groups: Some(vec![group]), ..Job::default() })),
            task_states: Some(Arc::new([("begun".into(), begun)].into_iter().collect())),
            ..Allocation::default()
        };
        let now = Time::from_secs(7);
        let report = not_added(&alloc, "no room", now);
        let told: Vec<String> = report
            .tasks()
            .map(|(name, state)| {
                assert_eq!(state.finished_at, Some(now));
                format!("{name} {:?} {}", state.state.as_str(), state.failed)
            })
            .collect();
        assert_eq!(report.client_description, "Unable to add allocation due to error: no room");
        assert_eq!(told, [r#"begun "dead" true"#, r#"new "" false"#]);
    }
}
