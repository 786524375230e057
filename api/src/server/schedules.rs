//! Dry runs of the scheduler, and its workers.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use songline_model::{AllocMetric, Allocation, Evaluation, Job, PlanAnnotations, Str, Supposition, Time, WhatIf};
use songline_projections::State;
use uuid::Uuid;

use super::{Agent, ProposeError};

/// The scheduler of this server.
pub trait Schedules: Agent {
    /// Dry run of the scheduler for a job: the job is registered in a fork of the newest state and scheduled there.
    /// Writes nothing.
    fn plan_job(&self, job: Arc<Job>) -> impl Future<Output = Result<PlannedJob, ProposeError>> + Send;

    /// Makes hypothetical changes to a fork of the view, and schedules it until it has settled. Writes nothing, and
    /// holds no lock. A question that is refused is [`WhatIfFailure::Refused`].
    fn what_if(
        &self,
        view: Arc<State>,
        changes: Vec<Supposition>,
    ) -> impl Future<Output = Result<WhatIf, WhatIfFailure>> + Send;

    /// Scheduler workers of this server.
    fn scheduler_pool(&self) -> SchedulerPool;

    /// Sets the number of workers and the evaluation types that they take. Surplus workers finish their current
    /// evaluation.
    fn set_scheduler_pool(&self, count: usize, enabled: Vec<&'static str>);
}

/// Result of a dry run of the scheduler.
#[derive(Debug, Clone, Default)]
pub struct PlannedJob {
    /// Allocations that the scheduler would place, stop and update, by task group.
    pub annotations: Option<PlanAnnotations>,
    /// Allocations of other jobs that it would preempt.
    pub preempted: Vec<Arc<Allocation>>,
    /// Metrics of the allocations that it could not place, by task group.
    pub failed_tg_allocs: BTreeMap<Str, AllocMetric>,
    /// Evaluations that it would create.
    pub created_evals: Vec<Evaluation>,
}

/// Evaluation types that scheduler workers can be enabled for, by their names on the wire.
pub const SCHEDULERS: [&str; 5] = ["service", "batch", "system", "sysbatch", CORE_SCHEDULER];

/// Evaluation type of the servers' own chores.
pub const CORE_SCHEDULER: &str = "_core";

/// The scheduler workers of a server.
#[derive(Debug, Clone)]
pub struct SchedulerPool {
    /// Existing workers; more than `count` while surplus workers finish their evaluation.
    pub workers: Vec<SchedulerWorker>,
    /// Wanted number of workers.
    pub count: usize,
    /// Evaluation types that the workers take.
    pub enabled: Vec<&'static str>,
}

/// One scheduler worker.
#[derive(Debug, Clone)]
pub struct SchedulerWorker {
    /// Random id, valid until the server restarts.
    pub id: Uuid,
    /// Start of the worker.
    pub started: Time,
    /// Whether the worker ends after its current evaluation.
    pub stopping: bool,
    /// Current activity, in Nomad's words.
    pub doing: &'static str,
}

/// Reason why a what-if question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfFailure {
    /// The question cannot be answered; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The server answers as many questions as it may already.
    #[error("what-if: other questions are being answered; ask again later")]
    Busy,
    /// The server has failed.
    #[error("{0}")]
    Unavailable(String),
}
