//! Services and checks of an allocation, as its state machine orders: announced and withdrawn in order, run and shown.

use std::sync::Arc;
use std::time::Duration;

use songline_model::ServiceRegistration;

use super::hooks::task::hook_failed;
use super::{Shared, Shell, environment, send};
use crate::allocdir::AllocDir;
use crate::checks;
use crate::consul::{self, FindProcess, ServiceDefinition};
use crate::core::{CheckPlan, CheckRequest, Input, NOMAD_PROVIDER, Workload};
use crate::driver::DriverNetwork;
use crate::services::{self, Announcer, Located};

/// Registrations of a workload, of which one provider has all.
#[derive(Default)]
struct Registered {
    at_servers: Vec<ServiceRegistration>,
    at_consul: Vec<ServiceDefinition>,
}

impl Shell {
    fn announcer(&mut self) -> &Announcer {
        self.announcer.get_or_insert_with(|| {
            let (announcer, worker) = Announcer::new(Arc::clone(&self.shared.registrar), self.shared.clock.clone());
            let cancel = self.shared.cancel.clone();
            self.shared.tracker.spawn(async move {
                tokio::select! { () = cancel.cancelled() => {}, () = worker.run() => {} }
            });
            announcer
        })
    }

    fn registrations(&self, of: &Workload) -> Result<Registered, String> {
        let driver = match of {
            Workload::Group => None,
            Workload::Task(task) => self.processes.get(task).and_then(|process| process.network()),
        };
        let (shared, dir) = (&self.shared, &self.dir);
        let (alloc, network) = (self.machine.alloc(), self.machine.network());
        let located = Located { alloc, network, driver: driver.as_ref() };
        let both = registrations(shared, located, dir, of).and_then(|at_servers| {
            let at_consul = definitions(shared, located, dir, of)?;
            Ok(Registered { at_servers, at_consul })
        });
        both.inspect_err(|error| tracing::warn!(alloc = %self.id(), error, "announcing services"))
    }

    pub(super) fn announce(&mut self, of: Workload, begins: bool) {
        let found = self.registrations(&of);
        if let (Workload::Task(task), Err(error), true) = (&of, &found, begins) {
            let error = format!("1 error occurred:\n\t* {error}\n\n");
            let event = Box::new(hook_failed(self.shared.clock.now(), "task_services", &error));
            send(&self.back, Input::TaskEvent { task: task.clone(), event });
        }
        let Registered { at_servers, at_consul } = found.unwrap_or_default();
        self.announce_at_consul(&of, at_consul);
        if !at_servers.is_empty() || self.announcer.is_some() {
            self.announcer().announce(of, at_servers);
        }
    }

    fn announce_at_consul(&mut self, of: &Workload, services: Vec<ServiceDefinition>) {
        let Some(consul) = self.shared.consul.clone() else { return };
        let id = self.id();
        if services.is_empty() && !consul.has(id, of) {
            return;
        }
        let processes = Arc::clone(&self.processes);
        let find: FindProcess = Arc::new(move |task| processes.get(task));
        let mut scripts = std::mem::take(&mut self.scripts);
        scripts.set(of, &services, &consul, &find, |work| self.spawn(work));
        self.scripts = scripts;
        consul.announce(id, of.clone(), services);
    }

    pub(super) fn plan_checks(&self) {
        let of_task = |task: &str| self.processes.get(task)?.network();
        let located = Located { alloc: self.machine.alloc(), network: self.machine.network(), driver: None };
        send(&self.back, Input::ChecksPlanned(check_plans(&self.shared, located, &self.dir, &of_task)));
    }

    pub(super) fn run_check(&self, run: u64, plan: Arc<CheckPlan>, delay: Duration) {
        let (checks, back) = (self.shared.checks.clone(), self.back.clone());
        if let (CheckRequest::AtConsul, Some(consul)) = (&plan.request, &self.shared.consul) {
            let outcome = consul.outcome(&plan.id);
            return send(&back, Input::Checked { check: plan.id.clone(), run, outcome });
        }
        self.spawn(async move {
            tokio::time::sleep(delay).await;
            let outcome = checks.run(&plan).await;
            send(&back, Input::Checked { check: plan.id.clone(), run, outcome });
        });
    }

    pub(super) fn show_checks(&self, persist: bool) {
        let results = self.machine.check_results();
        if persist {
            self.shared.state.put_checks(&self.id(), &results);
        }
        self.show.send_modify(|view| view.checks = Arc::new(results));
    }

    pub(super) fn withdraw(&mut self, of: Workload) {
        let Registered { at_servers, at_consul } = self.registrations(&of).unwrap_or_default();
        self.scripts.end(&of);
        if let Some(consul) = &self.shared.consul
            && (!at_consul.is_empty() || consul.has(self.id(), &of))
        {
            self.withdrawing.push(consul.withdraw(self.id(), &of, at_consul));
        }
        if !at_servers.is_empty() || self.announcer.is_some() {
            let done = self.announcer().withdraw(of, at_servers);
            self.withdrawing.push(done);
        }
    }

    /// Waits a bounded time until withdrawals are done, so that clients are not sent to a task that ends.
    pub(super) async fn until_withdrawn(&mut self) {
        if self.withdrawing.is_empty() {
            return;
        }
        let all = futures_util::future::join_all(self.withdrawing.drain(..));
        tokio::select! {
            _ = tokio::time::timeout(services::WITHDRAW_WAIT, all) => {}
            () = self.shared.cancel.cancelled() => {}
        }
    }
}

/// Registrations of a workload's services at the servers.
pub(super) fn registrations(
    shared: &Shared,
    located: Located<'_>,
    dir: &AllocDir,
    of: &Workload,
) -> Result<Vec<ServiceRegistration>, String> {
    let alloc = located.alloc;
    if of.services_of(alloc, NOMAD_PROVIDER).next().is_none() {
        return Ok(Vec::new());
    }
    let env = environment::of_workload(shared, alloc, dir, of);
    let node = Arc::clone(&shared.node.lock());
    services::registrations(located, &node, &env, of)
}

/// Definitions of a workload's services for the node's Consul agent.
pub(super) fn definitions(
    shared: &Shared,
    located: Located<'_>,
    dir: &AllocDir,
    of: &Workload,
) -> Result<Vec<ServiceDefinition>, String> {
    let alloc = located.alloc;
    if of.services_of(alloc, consul::PROVIDER).next().is_none() {
        return Ok(Vec::new());
    }
    let consul = shared.consul.as_ref().ok_or("this node has no Consul agent")?;
    let env = environment::of_workload(shared, alloc, dir, of);
    consul::definitions(consul::Of { located, env: &env, workload: of, mark: consul.mark() })
}

/// Checks of all services of an allocation.
fn check_plans(
    shared: &Shared,
    located: Located<'_>,
    dir: &AllocDir,
    of_task: &dyn Fn(&str) -> Option<DriverNetwork>,
) -> Vec<CheckPlan> {
    let alloc = located.alloc;
    let mut plans = checks::plans(located, &environment::of_group(shared, alloc, dir), of_task);
    for workload in Workload::all(alloc) {
        let Some(consul) = &shared.consul else { break };
        if workload.services_of(alloc, consul::PROVIDER).next().is_some() {
            let env = environment::of_workload(shared, alloc, dir, &workload);
            let driver = match &workload {
                Workload::Group => None,
                Workload::Task(task) => of_task(task),
            };
            let located = Located { driver: driver.as_ref(), ..located };
            let of = consul::Of { located, env: &env, workload: &workload, mark: consul.mark() };
            plans.extend(consul::check_plans(of));
        }
    }
    plans
}
