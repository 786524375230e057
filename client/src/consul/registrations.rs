//! Registrations of this node's allocations at its Consul agent. One async task, [`Registrations::run`], makes the
//! agent's services and checks what they should be, again and again: what was lost comes back, what others
//! registered stays, and services of this node that no allocation has are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use songline_model::{AllocId, NodeId, Str};
use tokio::sync::{Notify, oneshot};

use super::agent::{Agent, CallError, KnownCheck, KnownService};
use super::definition::{CHECK_PREFIX, ServiceDefinition};
use crate::core::{CheckOutcome, CheckVerdict, Workload};

/// Prefix of the ids of services that a node agent registers for allocations.
const SERVICE_PREFIX: &str = "_nomad-task-";
/// Key of the services' meta data that names the node which registered them.
const NODE_KEY: &str = "songline-node-id";
/// Interval of comparisons while there are checks, whose statuses are read with them.
const POLL: Duration = Duration::from_secs(1);
/// Interval of comparisons without checks.
const REPAIR: Duration = Duration::from_secs(30);
/// Longest delay after comparisons that failed.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Time after the start before registrations of an earlier agent are removed: its allocations may come back.
const PROBATION: Duration = Duration::from_secs(60);

type Services = BTreeMap<Str, KnownService>;
type Checks = BTreeMap<Str, KnownCheck>;

/// Registrations at a Consul agent, wanted and known.
pub(crate) struct Registrations {
    agent: Agent,
    node: String,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    wanted: BTreeMap<(AllocId, Workload), Arc<Vec<ServiceDefinition>>>,
    /// Ids of withdrawn services that Consul may still have.
    withdrawn: BTreeSet<Str>,
    /// Callers that wait for withdrawals.
    waiting: Vec<oneshot::Sender<()>>,
    /// The agent's checks as it last told them.
    checks: Arc<Checks>,
}

impl Registrations {
    /// Registrations of a node. Nothing happens before [`Self::run`].
    pub fn new(agent: Agent, node: NodeId) -> Self {
        Self { agent, node: node.to_string(), state: Mutex::default(), wake: Notify::new() }
    }

    /// The agent that has the registrations.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Mark of this node in the meta data of its services.
    pub fn mark(&self) -> (&str, &str) {
        (NODE_KEY, &self.node)
    }

    /// Makes `services` the registrations of a workload. Those that it had before and no longer has are removed after
    /// the new ones are there.
    pub fn announce(&self, alloc: AllocId, of: Workload, services: Vec<ServiceDefinition>) {
        {
            let mut state = self.state.lock();
            let now: BTreeSet<Str> = services.iter().map(|service| service.id.clone()).collect();
            let before = if services.is_empty() {
                state.wanted.remove(&(alloc, of))
            } else {
                state.wanted.insert((alloc, of), Arc::new(services))
            };
            let before = before.iter().flat_map(|before| before.iter().map(|service| service.id.clone()));
            state.withdrawn.extend(before);
            state.withdrawn.retain(|id| !now.contains(id));
        }
        self.wake.notify_one();
    }

    /// Removes all registrations of a workload. `also` are services that an earlier agent may have registered. The
    /// receiver resolves when Consul no longer has them.
    pub fn withdraw(&self, alloc: AllocId, of: &Workload, also: Vec<ServiceDefinition>) -> oneshot::Receiver<()> {
        let (done, wait) = oneshot::channel();
        {
            let mut state = self.state.lock();
            let before = state.wanted.remove(&(alloc, of.clone()));
            let before = before.iter().flat_map(|before| before.iter().map(|service| service.id.clone()));
            state.withdrawn.extend(before);
            state.withdrawn.extend(also.into_iter().map(|service| service.id));
            state.waiting.push(done);
        }
        self.wake.notify_one();
        wait
    }

    /// Whether the workload has registrations.
    pub fn has(&self, alloc: AllocId, of: &Workload) -> bool {
        self.state.lock().wanted.contains_key(&(alloc, of.clone()))
    }

    /// Newest status of a check. While the agent is away it is the last known one.
    pub fn outcome(&self, check: &str) -> CheckOutcome {
        let checks = Arc::clone(&self.state.lock().checks);
        let known = checks.get(check);
        let verdict = match known.map(|known| known.status.as_str()) {
            Some("passing") => CheckVerdict::Passed,
            Some("warning") => CheckVerdict::Warned,
            Some(_) => CheckVerdict::Failed,
            None => CheckVerdict::Missing,
        };
        CheckOutcome { verdict, code: None, output: known.map(|known| known.output.clone()).unwrap_or_default() }
    }

    /// Compares and repairs until the future is dropped.
    pub async fn run(&self) {
        let began = Instant::now();
        let (mut failures, mut swept) = (0u32, false);
        loop {
            let sweep = !swept && began.elapsed() >= PROBATION;
            let idle = {
                let mut state = self.state.lock();
                state.waiting.retain(|waiting| !waiting.is_closed());
                state.wanted.is_empty() && state.withdrawn.is_empty() && state.waiting.is_empty()
            };
            let outcome = if idle && !sweep { Ok(()) } else { self.compare(sweep).await };
            let wait = match outcome {
                Ok(()) => {
                    (failures, swept) = (0, swept || sweep);
                    if self.has_checks() { POLL } else { REPAIR }
                }
                Err(error) => {
                    // A node without Consul is no problem while nothing needs it.
                    if failures == 0 && !idle {
                        tracing::warn!(%error, "registering services");
                    }
                    failures = failures.saturating_add(1);
                    match error {
                        CallError::Unreachable { .. } => (POLL * (1 << failures.min(5))).min(RETRY_MAX),
                        // One refused registration must not delay the statuses of the others' checks.
                        CallError::Refused { .. } => POLL * 2,
                    }
                }
            };
            tokio::select! { () = self.wake.notified() => {}, () = tokio::time::sleep(wait) => {} }
        }
    }

    fn has_checks(&self) -> bool {
        self.state.lock().wanted.values().any(|services| services.iter().any(|service| !service.checks.is_empty()))
    }

    /// One comparison. Goes on after a refusal; the first one is the result. With `sweep`, services of this node that
    /// no allocation has are removed.
    async fn compare(&self, sweep: bool) -> Result<(), CallError> {
        let (wanted, withdrawn, waiting) = {
            let mut state = self.state.lock();
            let wanted: Vec<_> = state.wanted.values().cloned().collect();
            (wanted, state.withdrawn.clone(), std::mem::take(&mut state.waiting))
        };
        let outcome = self.repair(&wanted, &withdrawn, sweep).await;
        let mut state = self.state.lock();
        match &outcome {
            // What was announced meanwhile is no longer among the withdrawn ones.
            Ok(()) => {
                state.withdrawn.retain(|id| !withdrawn.contains(id));
                for waiting in waiting {
                    // The caller may have stopped waiting.
                    let _ = waiting.send(());
                }
            }
            Err(_) => state.waiting.extend(waiting),
        }
        outcome
    }

    async fn repair(
        &self,
        wanted: &[Arc<Vec<ServiceDefinition>>],
        withdrawn: &BTreeSet<Str>,
        sweep: bool,
    ) -> Result<(), CallError> {
        let services = self.agent.services().await?;
        let checks = Arc::new(self.agent.checks().await?);
        self.state.lock().checks = Arc::clone(&checks);
        let mut outcome = Ok(());
        let mut note = |result: Result<(), CallError>| {
            if outcome.is_ok() {
                outcome = result;
            }
        };
        let wanted: BTreeMap<&Str, &ServiceDefinition> =
            wanted.iter().flat_map(|services| services.iter().map(|service| (&service.id, service))).collect();
        for service in wanted.values() {
            note(self.repair_service(service, &services, &checks).await);
        }
        let is_surplus = |id: &Str, known: &KnownService| {
            let left = sweep && id.starts_with(SERVICE_PREFIX) && self.is_own(known);
            (left || withdrawn.contains(id)) && !wanted.contains_key(id)
        };
        for (id, _) in services.iter().filter(|(id, known)| is_surplus(id, known)) {
            note(self.agent.deregister_service(id).await);
        }
        outcome
    }

    fn is_own(&self, known: &KnownService) -> bool {
        known.meta.as_ref().and_then(|meta| meta.get(NODE_KEY)).is_some_and(|node| *node == self.node.as_str())
    }

    async fn repair_service(
        &self,
        service: &ServiceDefinition,
        services: &Services,
        checks: &Checks,
    ) -> Result<(), CallError> {
        if !services.get(&service.id).is_some_and(|known| is_as_wanted(service, known)) {
            self.agent.register_service(service).await?;
        } else {
            for check in service.checks.iter().filter(|check| !checks.contains_key(&check.id)) {
                self.agent.register_check(check).await?;
            }
        }
        let is_old = |id: &Str, known: &KnownCheck| {
            known.service_id == service.id
                && id.starts_with(CHECK_PREFIX)
                && !service.checks.iter().any(|check| check.id == *id)
        };
        for (id, _) in checks.iter().filter(|(id, known)| is_old(id, known)) {
            self.agent.deregister_check(id).await?;
        }
        Ok(())
    }
}

/// Whether a registration is as wanted. Tags that others may change, and addresses that Consul adds, do not count.
fn is_as_wanted(service: &ServiceDefinition, known: &KnownService) -> bool {
    let tags = known.tags.as_deref().unwrap_or_default();
    let meta_is = known.meta.as_ref().map_or(service.meta.is_empty(), |meta| *meta == service.meta);
    let tagged = |key: &Str| known.tagged_addresses.as_ref().and_then(|all| all.get(key));
    known.service == service.name
        && known.address == service.address
        && known.port == service.port
        && known.enable_tag_override == service.enable_tag_override
        && (service.enable_tag_override || tags == service.tags)
        && meta_is
        && service.tagged_addresses.iter().all(|(key, address)| tagged(key) == Some(address))
}
