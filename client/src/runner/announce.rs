//! Services and checks of an allocation, as its state machine orders: announced and withdrawn in order, run and shown.

use std::sync::Arc;
use std::time::Duration;

use songline_model::ServiceRegistration;

use super::{Shell, send, setup};
use crate::consul::{FindProcess, ServiceDefinition};
use crate::core::{CheckPlan, CheckRequest, Input, Workload, event};
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
        let both = setup::registrations(shared, located, dir, of).and_then(|at_servers| {
            let at_consul = setup::definitions(shared, located, dir, of)?;
            Ok(Registered { at_servers, at_consul })
        });
        both.inspect_err(|error| tracing::warn!(alloc = %self.id(), error, "announcing services"))
    }

    pub(super) fn announce(&mut self, of: Workload, begins: bool) {
        let found = self.registrations(&of);
        if let (Workload::Task(task), Err(error), true) = (&of, &found, begins) {
            let text = format!("task_services: 1 error occurred:\n\t* {error}\n\n");
            let event = event::message(event::HOOK_FAILED, self.shared.clock.now(), &text);
            send(&self.back, Input::TaskEvent { task: task.clone(), event: Box::new(event) });
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
