//! An allocation as others see it: its report for the servers, its records, and when it wants to be called again.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, AllocNetworkStatus, Allocation, Str, TaskState, Time,
};
use songline_rpc::AllocReport;
use songline_rpc::message::CheckResult;

use super::kill::Killing;
use super::{AllocRunner, Phase};
use crate::core::health::HealthWatcher;
use crate::core::status::client_status;
use crate::core::task::{TaskRecord, TaskRunner, states};

impl AllocRunner {
    /// The servers' copy, with the indexes of the last reconnect.
    pub fn alloc(&self) -> &Arc<Allocation> {
        &self.alloc
    }

    /// Client status of the allocation as it is reported to the servers.
    pub fn update(&self) -> AllocReport {
        let (client_status, description) = self.status();
        let mut network = self.network.clone().unwrap_or_default();
        if network.dns.is_none() {
            network.dns = self.alloc.group().and_then(|group| group.networks.as_ref()?.first()?.dns.clone());
        }
        AllocReport {
            id: self.alloc.id,
            client_status,
            client_description: description.into(),
            task_states: Some(Arc::new(states(&self.tasks).into_iter().collect())),
            deployment_status: self.deployment_status.clone(),
            network_status: Some(network),
            ..AllocReport::default()
        }
    }

    /// Interface and address of the allocation's own, once it has one.
    pub fn network(&self) -> Option<&AllocNetworkStatus> {
        self.network.as_ref()
    }

    /// Client status computed from the tasks' states.
    pub fn status(&self) -> (AllocClientStatus, &'static str) {
        client_status(self.tasks.values().map(|task| &task.state))
    }

    /// Durable record of a task.
    pub fn record(&self, task: &str) -> Option<TaskRecord> {
        self.tasks.get(task).map(|task| TaskRecord { state: task.state.clone(), local: task.local.clone() })
    }

    /// Health of the allocation in its deployment.
    pub fn deployment_status(&self) -> Option<&AllocDeploymentStatus> {
        self.deployment_status.as_ref()
    }

    /// Newest results of the checks; none before the allocation's tasks may start, and after they are stopped.
    pub fn check_results(&self) -> BTreeMap<Str, CheckResult> {
        self.checks.results()
    }

    /// Whether all tasks have ended for good.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Number of the newest run of a task; 0 when it was never started.
    pub fn task_run(&self, task: &str) -> Option<u64> {
        self.tasks.get(task).map(|task| task.local.run)
    }

    /// Time at which [`Input::Tick`](super::Input::Tick) is due if no other input comes before.
    pub fn next_deadline(&self) -> Option<Time> {
        let tasks = self.tasks.values().filter_map(TaskRunner::next_deadline);
        let delay = match self.killing {
            Killing::GroupDelay { until } => Some(until),
            Killing::No | Killing::Leader | Killing::Others | Killing::Sidecars => None,
        };
        let restart = self.restarting.as_ref().map(|restart| restart.until);
        let health = self.health.as_ref().map(HealthWatcher::next_deadline);
        tasks.chain(health).chain(delay).chain(restart).chain(self.checks.next_deadline()).min()
    }

    /// Allocations that have to end before this one may start here.
    pub fn awaits(&self) -> Vec<AllocId> {
        let preempted = self.alloc.preempted_allocations.iter().flatten().copied();
        self.alloc.previous_allocation.into_iter().chain(preempted).collect()
    }

    /// States of the allocation's tasks.
    pub fn task_states(&self) -> BTreeMap<Str, TaskState> {
        states(&self.tasks)
    }
}
