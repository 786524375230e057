//! The attempts of one evaluation, as a machine without a clock: it repeats the job's scheduler until a plan is
//! accepted. The leader runs the machine and applies its plans. `generic` and `system` make a single attempt.

mod blocked_eval;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    AllocId, AllocMetric, DeploymentId, Dur, EvalId, EvalStatus, EvalTrigger, Evaluation, Job, JobType, NodeId, Plan,
    PlanResult, Str, Time,
};
use songline_projections::State;

pub(crate) use blocked_eval::{WaitsFor, create as blocked_eval};

use crate::seed::Seed;
use crate::{generic, system};

/// Consecutive attempts without progress after which an evaluation of a service or system job fails.
const SERVICE_ATTEMPTS_MAX: u32 = 5;
/// Consecutive attempts without progress after which an evaluation of a batch or sysbatch job fails.
const BATCH_ATTEMPTS_MAX: u32 = 2;
/// Branch of an attempt's seed for the id of the blocked evaluation.
const SEED_OF_BLOCKED: u64 = 3;

/// Decision of one attempt.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    /// Changes to propose.
    pub plan: Plan,
    /// Groups without a node for an allocation, with the reasons.
    pub failed: BTreeMap<Str, AllocMetric>,
    /// Number of allocations to place per group, minus those that the plan applier has accepted.
    pub queued: BTreeMap<Str, i64>,
    /// The group of each new allocation of the plan.
    pub placed: BTreeMap<AllocId, Str>,
    /// Follow-up evaluations. They have to be written before the plan is applied.
    pub followups: Vec<Evaluation>,
    /// Blocked evaluations of a job that runs on every node, each for one node without room.
    pub blocked: Vec<Evaluation>,
    /// The evaluation that updates the next allocations of a job that runs on every node.
    pub rolling: Option<Evaluation>,
    /// Classes of nodes, each with whether it could run a group; `None`: constraints escape the node class.
    pub class_eligibility: Option<BTreeMap<Str, bool>>,
    /// The same, also when constraints escape the node class: an evaluation that is blocked again lists them.
    pub classes: BTreeMap<Str, bool>,
    /// The quota that kept a group from being placed; empty: none did.
    pub quota_limit_reached: Str,
    /// The deployment that the evaluation belongs to.
    pub deployment_id: Option<DeploymentId>,
}

/// One attempt: compares the job of `eval` with the allocations in `view`. The same arguments give the same decision.
pub fn schedule(view: &State, eval: &Evaluation, seed: u64, now: Time) -> Decision {
    let job = view.job(&eval.namespace, &eval.job_id);
    run(view, job, eval, &Seed::of_attempt(seed, eval.id, view.applied_index(), 0), now)
}

fn run(view: &State, job: Option<&Arc<Job>>, eval: &Evaluation, seed: &Seed, now: Time) -> Decision {
    match is_per_node(job, eval) {
        true => system::run(view, job, eval, seed, now),
        false => generic::run(view, job, eval, seed, now),
    }
}

/// Whether the scheduler of system and sysbatch jobs takes the evaluation. The type of a live job decides and not that
/// of the evaluation: a deregistration makes an evaluation of type `service`, and the job may be registered again
/// before it runs.
fn is_per_node(job: Option<&Arc<Job>>, eval: &Evaluation) -> bool {
    job.filter(|job| !job.stop).map_or(&eval.kind, |job| &job.kind).is_per_node()
}

/// The attempts of one evaluation. Call [`Scheduler::step`] until it returns [`Step::Done`].
#[derive(Debug, Clone)]
pub struct Scheduler {
    eval: Evaluation,
    seed: u64,
    /// Number of attempts made; each shuffles the nodes anew.
    attempts: u64,
    /// Number of consecutive attempts without progress.
    stuck: u32,
    /// Applied index of the first view.
    snapshot_index: Option<u64>,
    last: Option<Decision>,
    blocked: Option<Evaluation>,
    /// Nodes that a blocked evaluation of this evaluation waits for.
    waits_for: BTreeSet<NodeId>,
    /// The evaluation that continues a rolling update.
    next: Option<EvalId>,
    /// Whether the job of the last attempt runs on every node.
    per_node: bool,
    /// Job to schedule in a dry run, in place of the view's.
    instead: Option<Arc<Job>>,
}

/// Next action for the caller of [`Scheduler::step`].
#[derive(Debug)]
pub enum Step {
    /// Write these evaluations, then submit this plan. Then call again with the plan's result and a view at or after
    /// the result's `refresh_index`.
    Submit {
        /// New evaluations, to be written in one entry before the plan.
        create: Vec<Evaluation>,
        /// Plan for the plan queue.
        plan: Box<Plan>,
    },
    /// The evaluation is over.
    Done {
        /// New evaluations, to be written before the end of this evaluation.
        create: Vec<Evaluation>,
        /// Result for the evaluation itself.
        done: Box<Done>,
    },
}

/// Result of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    /// Write the evaluation with this row.
    Update(Evaluation),
    /// The evaluation was blocked and still is: give it back to the blocked evaluations, with its new class
    /// eligibility. Its row need only be written when its `QueuedAllocations` differ from the job's summary.
    Reblock(Evaluation),
}

impl Done {
    /// The evaluations to write at the end, with the new ones of `create` first, and the evaluation to block again once
    /// they are written.
    pub fn rows(self, view: &State, mut create: Vec<Evaluation>) -> (Vec<Evaluation>, Option<Arc<Evaluation>>) {
        match self {
            Self::Update(eval) => {
                create.push(eval);
                (create, None)
            }
            Self::Reblock(eval) => {
                if queued_differs(view, &eval) {
                    create.push(eval.clone());
                }
                (create, Some(Arc::new(eval)))
            }
        }
    }
}

/// Whether the job's summary has other numbers of queued allocations than the evaluation found.
fn queued_differs(view: &State, eval: &Evaluation) -> bool {
    let Some(summary) = view.job_summary(&eval.namespace, &eval.job_id) else { return false };
    let known = |group: &str| summary.summary.as_ref().and_then(|groups| groups.get(group)).map(|counts| counts.queued);
    eval.queued_allocations.iter().flat_map(|queued| queued.iter()).any(|(group, count)| known(group) != Some(*count))
}

impl Scheduler {
    /// Starts the attempts of an evaluation.
    pub fn new(eval: Evaluation, seed: u64) -> Self {
        Self {
            eval,
            seed,
            attempts: 0,
            stuck: 0,
            snapshot_index: None,
            last: None,
            blocked: None,
            waits_for: BTreeSet::new(),
            next: None,
            per_node: false,
            instead: None,
        }
    }

    /// Schedules this job instead of the view's: a dry run.
    #[must_use]
    pub fn with_job(mut self, job: Arc<Job>) -> Self {
        self.instead = Some(job);
        self
    }

    /// Makes the next attempt, or ends the evaluation. `result` is the result of the plan that the previous step
    /// submitted.
    pub fn step(&mut self, view: &State, now: Time, result: Option<&PlanResult>) -> Step {
        let job = self.instead.clone().or_else(|| view.job(&self.eval.namespace, &self.eval.job_id).cloned());
        self.per_node = is_per_node(job.as_ref(), &self.eval);
        if !accepts(&self.eval, self.per_node) {
            let why = format!("scheduler cannot handle '{}' evaluation reason", self.eval.triggered_by);
            return self.end(EvalStatus::Failed, why.into(), now, Vec::new());
        }
        self.snapshot_index.get_or_insert(view.applied_index());
        if let (Some(last), Some(result)) = (&mut self.last, result) {
            let accepted = last.accept(result);
            if accepted && result.refresh_index == 0 {
                return self.complete(now, Vec::new());
            }
            self.stuck = if made_progress(result) { 0 } else { self.stuck + 1 };
            let most = self.attempts_max();
            if self.stuck >= most {
                return self.give_up(view, most, now);
            }
        }
        self.attempt(view, job.as_ref(), now)
    }

    /// The decision of the last attempt, without its plan and follow-up evaluations.
    pub fn decision(&self) -> Option<&Decision> {
        self.last.as_ref()
    }

    fn attempt(&mut self, view: &State, job: Option<&Arc<Job>>, now: Time) -> Step {
        let seed = Seed::of_attempt(self.seed, self.eval.id, view.applied_index(), self.attempts);
        self.attempts += 1;
        let mut decision = run(view, job, &self.eval, &seed, now);
        let mut create = std::mem::take(&mut decision.followups);
        // An earlier attempt may have written the evaluation of a node already.
        let mut blocked = std::mem::take(&mut decision.blocked);
        blocked.retain(|blocked| blocked.node_id.is_some_and(|node| self.waits_for.insert(node)));
        create.extend(blocked);
        // Capacity may come before any follow-up is due, so a failed placement blocks even when there are follow-ups.
        let waits = !decision.failed.is_empty() && self.eval.status != EvalStatus::Blocked && self.blocked.is_none();
        if waits && !self.per_node {
            let mut seed = seed.branch(SEED_OF_BLOCKED);
            let blocked = self.blocked_eval(&decision, &mut seed, now, EvalTrigger::QueuedAllocs);
            create.push(blocked.clone());
            self.blocked = Some(blocked);
        } else if let Some(blocked) = self.blocked.as_mut().filter(|_| !decision.failed.is_empty()) {
            // Another group may fail in this attempt, for which the first one has not looked at all classes.
            let classes = decision.class_eligibility.clone().map(Arc::new);
            if blocked.class_eligibility != classes {
                blocked.escaped_computed_class = classes.is_none();
                blocked.class_eligibility = classes;
                blocked.failed_tg_allocs = Some(Arc::new(decision.failed.clone()));
                create.push(blocked.clone());
            }
        }
        let mut plan = std::mem::take(&mut decision.plan);
        plan.snapshot_index = self.snapshot_index.unwrap_or_default();
        if let Some(rolling) = decision.rolling.take().filter(|_| self.next.is_none() && !plan.is_no_op()) {
            self.next = Some(rolling.id);
            create.push(rolling);
        }
        for eval in create.iter_mut().filter(|eval| eval.create_index == 0) {
            eval.snapshot_index = plan.snapshot_index;
        }
        self.last = Some(decision);
        if plan.is_no_op() && !self.eval.annotate_plan {
            return self.complete(now, create);
        }
        Step::Submit { create, plan: Box::new(plan) }
    }

    fn blocked_eval(&self, decision: &Decision, seed: &mut Seed, now: Time, trigger: EvalTrigger) -> Evaluation {
        let waits_for = WaitsFor {
            failed: &decision.failed,
            classes: decision.class_eligibility.as_ref(),
            quota: decision.quota_limit_reached.clone(),
        };
        blocked_eval(&self.eval, waits_for, seed, now, trigger)
    }

    fn attempts_max(&self) -> u32 {
        match self.eval.kind {
            JobType::Batch | JobType::SysBatch => BATCH_ATTEMPTS_MAX,
            JobType::Service | JobType::System | JobType::Other(_) => SERVICE_ATTEMPTS_MAX,
        }
    }

    fn complete(&mut self, now: Time, create: Vec<Evaluation>) -> Step {
        let decision = self.last.clone().unwrap_or_default();
        // A job that runs on every node has new blocked evaluations of the nodes without room instead.
        if self.eval.status == EvalStatus::Blocked && !decision.failed.is_empty() && !self.per_node {
            let mut eval = self.eval.clone();
            eval.escaped_computed_class = decision.class_eligibility.is_none();
            eval.quota_limit_reached = decision.quota_limit_reached;
            eval.class_eligibility = Some(Arc::new(decision.classes));
            eval.failed_tg_allocs = Some(Arc::new(decision.failed));
            eval.queued_allocations = Some(Arc::new(decision.queued));
            eval.snapshot_index = self.snapshot_index.unwrap_or_default();
            touch(&mut eval, now);
            return Step::Done { create, done: Box::new(Done::Reblock(eval)) };
        }
        self.end(EvalStatus::Complete, Str::default(), now, create)
    }

    fn give_up(&mut self, view: &State, attempts: u32, now: Time) -> Step {
        let description: Str = format!("maximum attempts reached ({attempts})").into();
        if self.per_node {
            return self.end(EvalStatus::Failed, description, now, Vec::new());
        }
        let decision = self.last.clone().unwrap_or_default();
        let mut seed = Seed::of_attempt(self.seed, self.eval.id, view.applied_index(), self.attempts);
        let mut blocked = self.blocked_eval(&decision, &mut seed, now, EvalTrigger::MaxPlans);
        blocked.snapshot_index = self.snapshot_index.unwrap_or_default();
        self.blocked = Some(blocked.clone());
        self.end(EvalStatus::Failed, description, now, vec![blocked])
    }

    fn end(&mut self, status: EvalStatus, description: Str, now: Time, create: Vec<Evaluation>) -> Step {
        let mut eval = self.eval.clone();
        eval.status = status;
        eval.status_description = description;
        eval.snapshot_index = self.snapshot_index.unwrap_or_default();
        if let Some(blocked) = &self.blocked {
            eval.blocked_eval = Some(blocked.id);
        }
        if let Some(next) = self.next {
            eval.next_eval = Some(next);
        }
        if let Some(decision) = self.last.take() {
            eval.deployment_id = decision.deployment_id;
            eval.failed_tg_allocs = (!decision.failed.is_empty()).then(|| Arc::new(decision.failed));
            eval.queued_allocations = Some(Arc::new(decision.queued));
        }
        touch(&mut eval, now);
        Step::Done { create, done: Box::new(Done::Update(eval)) }
    }
}

impl Decision {
    /// Notes the quota of the namespace if it kept a group from being placed.
    pub(crate) fn note_quota(&mut self, quota: Str) {
        let over = |metric: &AllocMetric| metric.quota_exhausted.as_ref().is_some_and(|over| !over.is_empty());
        if self.failed.values().any(over) {
            self.quota_limit_reached = quota;
        }
    }

    /// Subtracts the accepted allocations from `queued`. True when all new allocations were accepted.
    fn accept(&mut self, result: &PlanResult) -> bool {
        let mut accepted = 0;
        for alloc in result.node_allocation.values().flatten() {
            let Some(group) = self.placed.get(&alloc.id) else { continue };
            accepted += 1;
            if let Some(queued) = self.queued.get_mut(group) {
                *queued -= 1;
            }
        }
        accepted == self.placed.len()
    }
}

fn made_progress(result: &PlanResult) -> bool {
    !result.node_update.is_empty()
        || !result.node_allocation.is_empty()
        || result.deployment.is_some()
        || !result.deployment_updates.is_empty()
}

fn accepts(eval: &Evaluation, per_node: bool) -> bool {
    match eval.triggered_by {
        EvalTrigger::None | EvalTrigger::Scheduled => false,
        EvalTrigger::JobRegister
        | EvalTrigger::JobDeregister
        | EvalTrigger::NodeDrain
        | EvalTrigger::NodeUpdate
        | EvalTrigger::AllocStop
        | EvalTrigger::RollingUpdate
        | EvalTrigger::DeploymentWatcher
        | EvalTrigger::FailedFollowUp
        | EvalTrigger::QueuedAllocs
        | EvalTrigger::Preemption
        | EvalTrigger::JobScaling
        | EvalTrigger::Reconnect => true,
        EvalTrigger::PeriodicJob => eval.kind != JobType::System,
        EvalTrigger::MaxPlans | EvalTrigger::RetryFailedAlloc | EvalTrigger::MaxDisconnectTimeout => !per_node,
    }
}

fn touch(eval: &mut Evaluation, now: Time) {
    // Later than the creation even when both have one time.
    eval.modify_time = now.max(eval.create_time.plus(Dur(1)));
}
