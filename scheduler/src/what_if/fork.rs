//! The fork of a state with a leader's queues, its one worker, and nodes that obey at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_commands::{
    Actor, ClientAlloc, Command, DeregisterJob, Envelope, RegisterJob, RegisterNode, SetDeploymentAllocHealth,
    SetDesiredTransitions, SetSchedulerConfig, UpdateAllocsFromClient, UpdateEvals, UpdateNodeDrain, UpdateNodeStatus,
};
use songline_model::{
    AllocClientStatus, AllocId, Allocation, DeploymentId, DesiredTransition, DrainStrategy, Eligibility, EvalStatus,
    EvalTrigger, Evaluation, Job, JobKey, JobType, Node, NodeId, NodeStatus, Plan, PlanResult, Str, Supposition, Time,
};
use songline_projections::{Change, State, apply, node_evals};

use super::{EVALS_MAX, WhatIfError};
use crate::applier;
use crate::attempts::{Scheduler, Step};
use crate::broker::Delivery;
use crate::leader::evals::EvalQueues;
use crate::seed::Seed;

const TYPES: [JobType; 4] = [JobType::Service, JobType::Batch, JobType::System, JobType::SysBatch];
/// Versions of a job that the fork keeps; it lives too briefly for more.
const VERSIONS_MAX: u64 = 6;

pub(super) struct Fork {
    pub state: State,
    /// Allocations that were written since the fork was made.
    pub touched: BTreeSet<AllocId>,
    queues: EvalQueues,
    seed: Seed,
    now: Time,
    evals_run: usize,
}

impl Fork {
    /// A fork of the view, with its blocked evaluations.
    pub fn of(view: &State, seed: u64, now: Time) -> Self {
        let mut queues = EvalQueues::new();
        queues.broker.set_enabled(true);
        queues.blocked.set_enabled(true);
        for eval in view.blocked_evals() {
            queues.blocked.block(eval, None);
        }
        // Duplicates of blocked evaluations are the real leader's to cancel.
        queues.blocked.take_duplicates();
        Self { state: view.clone(), touched: BTreeSet::new(), queues, seed: Seed::new(seed), now, evals_run: 0 }
    }

    /// Makes one change, with the evaluations that follow from it.
    pub fn make(&mut self, change: &Supposition) -> Result<(), WhatIfError> {
        match change {
            Supposition::Register(job) => self.register(job),
            Supposition::Deregister(key) => self.deregister(key),
            Supposition::Drain(id) => self.drain(*id),
            Supposition::Lose(id) => {
                self.node(*id)?;
                let status = NodeStatus::Down;
                self.commit(UpdateNodeStatus { node_id: *id, status, ..UpdateNodeStatus::default() })?;
                self.evaluate_node(*id)
            }
            Supposition::Add { like, count } => {
                let like = self.node(*like)?;
                (1..=*count).try_for_each(|number| self.add(&like, number))
            }
            Supposition::Configure(config) => {
                self.commit(SetSchedulerConfig { config: config.clone(), cas: None })?;
                // What found no room may find some by the new settings.
                for eval in self.state.blocked_evals().collect::<Vec<_>>() {
                    self.queues.blocked.forget(eval.id);
                    self.queues.broker.enqueue(eval, self.now);
                }
                Ok(())
            }
        }
    }

    /// Runs evaluations, and lets the nodes obey, until nothing is left to do.
    pub fn settle(&mut self) -> Result<(), WhatIfError> {
        loop {
            while let Some(delivery) = self.queues.broker.dequeue(&TYPES, self.now) {
                self.evals_run += 1;
                if self.evals_run > EVALS_MAX {
                    return Err(WhatIfError::Unsettled);
                }
                self.run(delivery)?;
                let canceled = self.queues.on_time(self.now, self.now).canceled;
                self.write(canceled)?;
            }
            if !self.report()? && !self.become_healthy()? {
                return Ok(());
            }
        }
    }

    fn commit(&mut self, command: impl Into<Command>) -> Result<u64, WhatIfError> {
        let index = self.state.raft_index() + 1;
        let applied = apply(&mut self.state, index, &Envelope::new(self.now, Actor::Leader("what-if".into()), command));
        applied.result?;
        self.queues.on_changes(&self.state, applied.index, &applied.changes, self.now);
        for change in &applied.changes {
            if let Change::Alloc { after: Some(alloc), .. } = change {
                self.touched.insert(alloc.id);
            }
        }
        Ok(applied.index)
    }

    fn write(&mut self, evals: Vec<Evaluation>) -> Result<(), WhatIfError> {
        if evals.is_empty() { Ok(()) } else { self.commit(UpdateEvals { evals }).map(drop) }
    }

    fn node(&self, id: NodeId) -> Result<Arc<Node>, WhatIfError> {
        self.state.node(id).cloned().ok_or(WhatIfError::NodeNotFound(id))
    }

    fn evaluate_node(&mut self, id: NodeId) -> Result<(), WhatIfError> {
        let node = self.node(id)?;
        let (index, now, seed) = (self.state.applied_index(), self.now, &mut self.seed);
        let evals = node_evals(&self.state, &node, index, now, || seed.eval_id());
        self.write(evals)
    }

    fn eval(&mut self, job: &Job, trigger: EvalTrigger) -> Evaluation {
        Evaluation {
            id: self.seed.eval_id(),
            namespace: job.namespace.clone(),
            priority: job.priority,
            kind: job.kind.clone(),
            triggered_by: trigger,
            job_id: job.id.clone(),
            job_modify_index: job.job_modify_index,
            status: EvalStatus::Pending,
            create_time: self.now,
            modify_time: self.now,
            ..Evaluation::default()
        }
    }

    fn register(&mut self, job: &Arc<Job>) -> Result<(), WhatIfError> {
        let starts_by_itself = !job.is_periodic() && !job.is_parameterized();
        let eval = starts_by_itself.then(|| self.eval(job, EvalTrigger::JobRegister));
        let existing = self.state.job(&job.namespace, &job.id);
        if existing.is_some_and(|existing| !existing.spec_changed(job)) {
            return self.write(eval.into_iter().collect());
        }
        let command = RegisterJob { job: Arc::clone(job), eval, versions_max: VERSIONS_MAX, ..RegisterJob::default() };
        self.commit(command).map(drop)
    }

    fn deregister(&mut self, key: &JobKey) -> Result<(), WhatIfError> {
        let job = self.state.job_by_key(key).cloned().ok_or_else(|| WhatIfError::JobNotFound(key.clone()))?;
        let eval = Some(self.eval(&job, EvalTrigger::JobDeregister));
        let command = DeregisterJob { job: key.clone(), eval, versions_max: VERSIONS_MAX, ..DeregisterJob::default() };
        self.commit(command).map(drop)
    }

    fn drain(&mut self, id: NodeId) -> Result<(), WhatIfError> {
        self.node(id)?;
        let drain_strategy = Some(DrainStrategy::default());
        self.commit(UpdateNodeDrain { node_id: id, drain_strategy, ..UpdateNodeDrain::default() })?;
        let migrate = DesiredTransition { migrate: Some(true), ..DesiredTransition::default() };
        let leaving = self.state.allocs_of_node(id).filter(|alloc| !alloc.terminal());
        let allocs: BTreeMap<_, _> = leaving.map(|alloc| (alloc.id, migrate.clone())).collect();
        if !allocs.is_empty() {
            self.commit(SetDesiredTransitions { allocs, evals: Vec::new() })?;
        }
        self.evaluate_node(id)
    }

    /// Adds a node like another one. It has the same class, and names of its own.
    fn add(&mut self, like: &Node, number: u32) -> Result<(), WhatIfError> {
        let id = NodeId::from_bytes(*self.seed.alloc_id().as_bytes());
        let node = Node {
            id,
            name: Str::from(format!("{}+{number}", like.name)),
            status: NodeStatus::Ready,
            scheduling_eligibility: Eligibility::Eligible,
            drain_strategy: None,
            last_drain: None,
            events: None,
            last_missed_heartbeat_index: 0,
            last_alloc_update_index: 0,
            ..like.clone()
        };
        self.commit(RegisterNode { node, create_node_pool: false })?;
        self.evaluate_node(id)
    }

    /// Does a worker's work on one evaluation.
    fn run(&mut self, delivery: Delivery) -> Result<(), WhatIfError> {
        let Delivery { eval, token, .. } = delivery;
        if self.state.eval(eval.id).is_none_or(|row| !row.status.is_terminal()) {
            let mut scheduler = Scheduler::new(Evaluation::clone(&eval), self.seed.number());
            let mut result: Option<PlanResult> = None;
            loop {
                match scheduler.step(&self.state, self.now, result.as_ref()) {
                    Step::Submit { create, plan } => {
                        self.write(create)?;
                        result = Some(self.accept(&plan)?);
                    }
                    Step::Done { create, done } => {
                        let (rows, waits) = done.rows(&self.state, create);
                        self.write(rows)?;
                        if let Some(waits) = waits {
                            self.queues.reblock(waits, token, self.now);
                        }
                        break;
                    }
                }
            }
        }
        // The one worker holds the one delivery, so the broker does not refuse the answer.
        let _ = self.queues.broker.ack(eval.id, token, self.now);
        Ok(())
    }

    fn accept(&mut self, plan: &Plan) -> Result<PlanResult, WhatIfError> {
        let (result, _) = applier::evaluate(&self.state, plan);
        if applier::is_no_op(&result) {
            return Ok(result);
        }
        let placed = applier::placed(plan, &result, self.now, |_| ());
        let seed = &mut self.seed;
        let command = applier::command(&self.state, plan, &result, placed, self.now, || seed.eval_id());
        let index = self.commit(command)?;
        Ok(applier::written(result, index))
    }

    /// Has the nodes report what they did with the allocations that were written. False: there is nothing to report.
    fn report(&mut self) -> Result<bool, WhatIfError> {
        let said = |id: &AllocId| {
            let alloc = self.state.alloc(*id)?;
            let node = self.state.node(alloc.node_id?)?;
            let status = obeyed(alloc).filter(|_| node.status == NodeStatus::Ready)?;
            Some(ClientAlloc {
                id: alloc.id,
                node_id: node.id,
                client_status: status,
                task_states: alloc.task_states.clone(),
                network_status: alloc.network_status.as_deref().cloned(),
                modify_time: self.now,
                ..ClientAlloc::default()
            })
        };
        let allocs: Vec<ClientAlloc> = self.touched.iter().filter_map(said).collect();
        if allocs.is_empty() {
            return Ok(false);
        }
        self.commit(UpdateAllocsFromClient { allocs, evals: Vec::new() })?;
        Ok(true)
    }

    /// Makes the new allocations of active deployments healthy, with an evaluation of each job. False: there are none.
    fn become_healthy(&mut self) -> Result<bool, WhatIfError> {
        let mut healthy: BTreeMap<DeploymentId, Vec<AllocId>> = BTreeMap::new();
        for alloc in self.touched.iter().filter_map(|id| self.state.alloc(*id)) {
            let is_open = alloc.deployment_status.as_ref().is_none_or(|status| status.healthy.is_none());
            if let Some(deployment) = alloc.deployment_id.filter(|_| is_open && !alloc.terminal()) {
                healthy.entry(deployment).or_default().push(alloc.id);
            }
        }
        healthy.retain(|id, _| self.state.deployment(*id).is_some_and(|deployment| deployment.is_active()));
        let any = !healthy.is_empty();
        for (deployment_id, healthy) in healthy {
            let job = self.state.deployment(deployment_id).and_then(|row| self.state.job(&row.namespace, &row.job_id));
            let job = job.cloned();
            let eval = job.map(|job| Evaluation {
                deployment_id: Some(deployment_id),
                ..self.eval(&job, EvalTrigger::DeploymentWatcher)
            });
            let command = SetDeploymentAllocHealth {
                deployment_id,
                healthy,
                timestamp: self.now,
                eval,
                versions_max: VERSIONS_MAX,
                ..SetDeploymentAllocHealth::default()
            };
            self.commit(command)?;
        }
        Ok(any)
    }
}

/// The client status that an allocation gets when its node has done what the servers want. `None`: it has it.
fn obeyed(alloc: &Allocation) -> Option<AllocClientStatus> {
    if alloc.client_terminal() {
        return None;
    }
    if alloc.server_terminal() {
        return Some(AllocClientStatus::Complete);
    }
    (alloc.client_status == AllocClientStatus::Pending).then_some(AllocClientStatus::Running)
}
