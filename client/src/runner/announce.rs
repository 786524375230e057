//! Services and checks of an allocation, as its state machine orders: announced and withdrawn in order, run and shown.

use std::sync::Arc;
use std::time::Duration;

use super::{Shell, send, setup};
use crate::core::{CheckPlan, Input, Workload, event};
use crate::services::{self, Announcer};

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

    fn registrations(&self, of: &Workload) -> Result<Vec<songline_model::ServiceRegistration>, String> {
        let rows = setup::registrations(&self.shared, self.machine.alloc(), self.machine.network(), &self.dir, of);
        rows.inspect_err(|error| tracing::warn!(alloc = %self.id(), error, "announcing services"))
    }

    pub(super) fn announce(&mut self, of: Workload, begins: bool) {
        let rows = self.registrations(&of);
        if let (Workload::Task(task), Err(error), true) = (&of, &rows, begins) {
            let text = format!("task_services: 1 error occurred:\n\t* {error}\n\n");
            let event = event::message(event::HOOK_FAILED, self.shared.clock.now(), &text);
            send(&self.back, Input::TaskEvent { task: task.clone(), event: Box::new(event) });
        }
        self.announcer().announce(of, rows.unwrap_or_default());
    }

    pub(super) fn run_check(&self, run: u64, plan: Arc<CheckPlan>, delay: Duration) {
        let (checks, back) = (self.shared.checks.clone(), self.back.clone());
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
        let rows = self.registrations(&of).unwrap_or_default();
        let done = self.announcer().withdraw(of, rows);
        self.withdrawing.push(done);
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
