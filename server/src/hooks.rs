//! Faults that tests inject into a server: panics in scheduling and in checking plans, and lost writes of the leader.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use songline_api::ProposeError;
use songline_model::{Plan, Str};
use songline_rpc::RpcError;
use songline_scheduler::leader::outbox::Subject;
use tokio::sync::oneshot;

#[derive(Default)]
pub(crate) struct Hooks {
    /// Jobs whose scheduling panics.
    pub scheduling_panics: Mutex<BTreeSet<Str>>,
    /// Jobs whose plans panic when they are checked.
    pub applying_panics: Mutex<BTreeSet<Str>>,
    /// Writes of plans that are lost, each when its sender is dropped.
    pub lost_plans: Mutex<Vec<oneshot::Receiver<()>>>,
    /// Number of the leader's next write attempts that are lost.
    pub lost_effects: AtomicU32,
    /// Subjects of the lost attempts, in order.
    pub lost: Mutex<Vec<Subject>>,
}

impl Hooks {
    pub fn on_scheduling(&self, job: &str) {
        let panics = self.scheduling_panics.lock().contains(job);
        assert!(!panics, "job {job} is poison");
    }

    pub fn on_applying(&self, plan: &Plan) {
        let panics = plan.job.as_ref().is_some_and(|job| self.applying_panics.lock().contains(job.id.as_str()));
        assert!(!panics, "a plan is poison");
    }

    pub async fn on_writing_plan(&self) -> Result<(), RpcError> {
        let Some(gate) = self.lost_plans.lock().pop() else { return Ok(()) };
        let _opened = gate.await;
        Err(RpcError::remote("a test has lost it"))
    }

    pub fn on_effect(&self, subject: Subject) -> Result<(), ProposeError> {
        let left = self.lost_effects.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_err() {
            return Ok(());
        }
        self.lost.lock().push(subject);
        Err(ProposeError::OutcomeUnknown("a test has lost it".into()))
    }
}
