//! A cluster of three nodes with one job, and the steps that can be made in it. Node `a` is away at the start; `b` and
//! `c` are well.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use songline_commands::{
    Actor, ClientAlloc, Command, Envelope, RegisterJob, RegisterNode, SetDesiredTransitions, UpdateEvals,
    UpdateNodeDrain, UpdateNodeStatus,
};
use songline_model::{
    AllocClientStatus, AllocId, Allocation, DesiredTransition, DrainStrategy, DriverInfo, Dur, EphemeralDisk, EvalId,
    EvalStatus, EvalTrigger, Evaluation, FlatMap, Job, JobType, Node, NodeId, NodeNetworkAddress, NodeNetworkResource,
    NodeResources, NodeStatus, PlanResult, ReschedulePolicy, Resources, Str, Task, TaskGroup, TaskRunState, TaskState,
    Time,
};
use songline_projections::{State, apply, node_evals, node_registration_needs_evals, node_transition_needs_evals};
use songline_scheduler::leader::{drains, heartbeats, reports};
use songline_scheduler::{Done, Scheduler, Step as Stage, applier};

pub(crate) const A: NodeId = NodeId::from_bytes([0xa; 16]);
const B: NodeId = NodeId::from_bytes([0xb; 16]);
pub(crate) const C: NodeId = NodeId::from_bytes([0xc; 16]);
/// How long a node may be disconnected.
pub(crate) const LIMIT: Dur = Dur::from_secs(300);

/// The steps of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// `Node.UpdateStatus` of `a`, which always asks for `ready`.
    Heartbeat,
    /// `Node.UpdateAlloc` of `a`: how its allocations fare, as far as it knows; then it sees what the servers want.
    Report,
    /// `Node.Register` of `a`.
    Register,
    /// The limit of the node's absence is reached, and its evaluation runs.
    Timeout,
    /// The job is registered again, by turns with a change that needs new allocations and one that does not.
    Update,
    /// The newest running replacement fails.
    Fail,
    /// `a` misses its heartbeat.
    Miss,
    /// `Node.UpdateAlloc` of `a` that was delivered before everything that came since.
    LateReport,
    /// The work on `a` fails there; the servers have not heard of it yet.
    Break,
    /// `c` misses its heartbeat, or is back and says how its allocations fare.
    Other,
    /// `a` has to be emptied at once, or takes work again.
    Drain,
    /// The other evaluations are worked off, and `b` and `c` do what came of it.
    Work,
}

impl Step {
    /// Steps that an exploration includes.
    pub(crate) const RETURN: &[Step] =
        &[Step::Heartbeat, Step::Report, Step::Register, Step::Timeout, Step::Update, Step::Fail, Step::Work];

    /// While it comes and goes and has to be emptied.
    pub(crate) const DRAIN: &[Step] = &[
        Step::Heartbeat,
        Step::Report,
        Step::Timeout,
        Step::Update,
        Step::Work,
        Step::Miss,
        Step::LateReport,
        Step::Drain,
    ];

    /// While it has to be emptied and another node comes and goes.
    pub(crate) const TWO: &[Step] = &[Step::Heartbeat, Step::Report, Step::Work, Step::Miss, Step::Drain, Step::Other];

    /// And while it goes away again and its work fails.
    pub(crate) const ALL: &[Step] = &[
        Step::Heartbeat,
        Step::Report,
        Step::Register,
        Step::Timeout,
        Step::Update,
        Step::Fail,
        Step::Work,
        Step::Miss,
        Step::LateReport,
        Step::Break,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Heartbeat => "a: UpdateStatus(ready)",
            Step::Report => "a: UpdateAlloc",
            Step::Register => "a: Register",
            Step::Timeout => "timeout",
            Step::Update => "job update",
            Step::Fail => "replacement fails",
            Step::Work => "evaluations",
            Step::Miss => "a: missed",
            Step::LateReport => "a: UpdateAlloc, late",
            Step::Break => "fails on a",
            Step::Other => "c: missed or back",
            Step::Drain => "a: drain on or off",
        })
    }
}

/// A client's record of its allocations.
pub(crate) type Client = BTreeMap<AllocId, AllocClientStatus>;

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) now: Time,
    pub(crate) count: usize,
    pub(crate) clients: BTreeMap<NodeId, Client>,
    /// How often the job changed.
    pub(crate) changes: u64,
    delay: Dur,
    ids: u64,
}

impl World {
    /// A job of `count` runs on `a`, which has just missed its heartbeat; its evaluations are still to be worked off.
    /// Replacements come `delay_secs` after that.
    pub(crate) fn disconnected(count: usize, delay_secs: i64) -> World {
        let mut world = World {
            state: State::new(),
            now: Time::from_secs(1_000_000),
            count,
            clients: BTreeMap::new(),
            changes: 0,
            delay: Dur::from_secs(delay_secs),
            ids: 0,
        };
        world.register(A);
        world.job();
        world.work();
        world.settle_clients(&[A]);
        world.register(B);
        world.register(C);
        world.work();
        world.miss(A);
        assert_eq!(world.state.node(A).map(|node| node.status), Some(NodeStatus::Disconnected));
        world
    }

    /// Makes the step; whether it changed anything at all.
    pub(crate) fn make(&mut self, step: Step) -> bool {
        let before = self.state.raft_index();
        match step {
            Step::Heartbeat => self.status(A, NodeStatus::Ready),
            Step::Report => {
                let told = self.report(A);
                return self.pull(A) || told;
            }
            Step::Register => self.register(A),
            Step::Timeout => self.timeout(),
            Step::Update => self.job(),
            Step::Fail => self.fail(),
            Step::Miss => self.miss(A),
            Step::Other => self.other(),
            Step::LateReport => self.say(A),
            Step::Break => return self.break_down(),
            Step::Drain => self.drain(),
            Step::Work => {
                self.work();
                let reachable = |id: &NodeId| self.state.node(*id).is_some_and(|node| node.status == NodeStatus::Ready);
                let reachable: Vec<_> = [B, C].into_iter().filter(reachable).collect();
                self.settle_clients(&reachable);
            }
        }
        self.state.raft_index() != before
    }

    pub(crate) fn commit(&mut self, command: impl Into<Command>) {
        let index = self.state.raft_index() + 1;
        let applied = apply(&mut self.state, index, &Envelope::new(self.now, Actor::Anonymous, command));
        applied.result.expect("nothing here is refused");
    }

    fn fresh(&mut self) -> EvalId {
        self.ids += 1;
        EvalId::from_bytes(u128::from(self.ids).to_be_bytes())
    }

    fn register(&mut self, id: NodeId) {
        let known = self.state.node(id).cloned();
        let node = node(id);
        let mut after = node.clone();
        if let Some(known) = &known {
            after.status = known.status;
        }
        let needs = node_registration_needs_evals(known.as_deref(), &after);
        self.commit(RegisterNode { node, create_node_pool: false });
        if needs {
            self.node_evals(id);
        }
    }

    fn node_evals(&mut self, id: NodeId) {
        let node = self.state.node(id).expect("the node is registered").clone();
        let mut ids = self.ids;
        let evals = node_evals(&self.state, &node, self.state.applied_index(), self.now, || {
            ids += 1;
            EvalId::from_bytes(u128::from(ids).to_be_bytes())
        });
        self.ids = ids;
        if !evals.is_empty() {
            self.commit(UpdateEvals { evals });
        }
    }

    /// Asks for a status as a heartbeat does, or as the leader does when one was missed.
    fn status(&mut self, id: NodeId, wanted: NodeStatus) {
        let before = self.state.node(id).expect("the node is registered").status;
        if before
            == songline_projections::next_node_status(
                &self.state,
                &self.state.node(id).expect("as above").clone(),
                wanted,
            )
        {
            return;
        }
        self.commit(UpdateNodeStatus { node_id: id, status: wanted, ..UpdateNodeStatus::default() });
        let after = self.state.node(id).expect("the node is registered").status;
        if node_transition_needs_evals(before, after) {
            self.node_evals(id);
        }
    }

    fn job(&mut self) {
        let task = Task {
            name: "t".into(),
            driver: "mock_driver".into(),
            env: Some([("E".into(), Str::from((self.changes.div_ceil(2)).to_string()))].into()),
            resources: Some(Resources { cpu: 100, memory_mb: 100, ..Resources::default() }),
            kill_timeout: Dur::from_secs(5 + (self.changes / 2).cast_signed()),
            ..Task::default()
        };
        let group = TaskGroup {
            name: "web".into(),
            count: self.count as i64,
            tasks: Some(vec![task]),
            ephemeral_disk: Some(EphemeralDisk { size_mb: 10, ..EphemeralDisk::default() }),
            reschedule_policy: Some(ReschedulePolicy {
                unlimited: true,
                delay: self.delay,
                max_delay: self.delay,
                delay_function: "constant".into(),
                ..ReschedulePolicy::default()
            }),
            max_client_disconnect: Some(LIMIT),
            ..TaskGroup::default()
        };
        let job = Job {
            id: "j".into(),
            namespace: "default".into(),
            name: "j".into(),
            kind: JobType::Service,
            priority: 50,
            datacenters: Some(vec!["*".into()]),
            node_pool: "default".into(),
            task_groups: Some(vec![group]),
            ..Job::default()
        };
        self.changes += 1;
        self.commit(RegisterJob { job: Arc::new(job), versions_max: 6, ..RegisterJob::default() });
        let eval = Evaluation {
            id: self.fresh(),
            namespace: "default".into(),
            priority: 50,
            kind: JobType::Service,
            triggered_by: EvalTrigger::JobRegister,
            job_id: "j".into(),
            status: EvalStatus::Pending,
            create_time: self.now,
            modify_time: self.now,
            ..Evaluation::default()
        };
        self.commit(UpdateEvals { evals: vec![eval] });
    }

    /// The job's evaluations that wait for a worker, with the time before which none takes them.
    pub(crate) fn pending(&self) -> impl Iterator<Item = Arc<Evaluation>> {
        self.state.evals_of_job("default", "j").filter(|eval| eval.status == EvalStatus::Pending)
    }

    fn timeout(&mut self) {
        let Some(eval) = self.pending().find(|eval| eval.triggered_by == EvalTrigger::MaxDisconnectTimeout) else {
            return;
        };
        self.now = self.now.max(eval.wait_until.unwrap_or(self.now));
        self.evaluate(&eval);
    }

    /// Works off what need not wait, oldest first.
    pub(crate) fn work(&mut self) {
        while let Some(eval) = self.due() {
            self.evaluate(&eval);
        }
    }

    fn due(&self) -> Option<Arc<Evaluation>> {
        self.pending().find(|eval| eval.wait_until.is_none_or(|at| at <= self.now))
    }

    /// Looks again at what found no room.
    pub(crate) fn unblock(&mut self) {
        let blocked: Vec<_> = self.state.blocked_evals_of_job("default", "j").collect();
        blocked.iter().for_each(|eval| self.evaluate(eval));
    }

    fn evaluate(&mut self, eval: &Evaluation) {
        let mut scheduler = Scheduler::new(eval.clone(), 7);
        let mut result: Option<PlanResult> = None;
        loop {
            let (mut rows, plan, done) = match scheduler.step(&self.state, self.now, result.as_ref()) {
                Stage::Submit { create, plan } => (create, Some(plan), None),
                Stage::Done { create, done } => (create, None, Some(done)),
            };
            if let Some(Done::Update(eval) | Done::Reblock(eval)) = done.as_deref() {
                rows.push(eval.clone());
            }
            if !rows.is_empty() {
                self.commit(UpdateEvals { evals: rows });
            }
            let Some(plan) = plan else { return };
            let (mut accepted, _) = applier::evaluate(&self.state, &plan);
            if !applier::is_no_op(&accepted) {
                let placed = applier::placed(&plan, &accepted, self.now, |_| ());
                let command = applier::command(&self.state, &plan, &accepted, placed, self.now, || {
                    unreachable!("nothing is preempted")
                });
                self.commit(command);
                accepted.alloc_index = self.state.applied_index();
            }
            result = Some(accepted);
        }
    }

    /// The node says how its allocations fare where the servers believe something else; whether anything was taken.
    pub(crate) fn report(&mut self, node: NodeId) -> bool {
        if reports::refusal(self.state.node(node).expect("the node is registered")).is_some() {
            return false;
        }
        let before = self.state.node(node).map(|row| row.last_alloc_update_index);
        self.say(node);
        before != self.state.node(node).map(|row| row.last_alloc_update_index)
    }

    fn say(&mut self, node: NodeId) {
        let client = self.clients.get(&node).cloned().unwrap_or_default();
        let said = client.into_iter().map(|(id, status)| self.word(node, id, status)).collect();
        self.enter(said);
    }

    fn enter(&mut self, said: Vec<ClientAlloc>) {
        let mut ids = self.ids;
        let (entry, _) = reports::entry(&self.state, said, self.now, || {
            ids += 1;
            EvalId::from_bytes(u128::from(ids).to_be_bytes())
        });
        self.ids = ids;
        if !entry.allocs.is_empty() {
            self.commit(entry);
        }
    }

    fn word(&self, node_id: NodeId, id: AllocId, client_status: AllocClientStatus) -> ClientAlloc {
        let over = client_status.is_terminal();
        let task = TaskState {
            state: if over { TaskRunState::Dead } else { TaskRunState::Running },
            failed: client_status == AllocClientStatus::Failed,
            finished_at: over.then_some(self.now),
            ..TaskState::default()
        };
        let task_states = Some(Arc::new(FlatMap::from([(Str::from("t"), task)])));
        ClientAlloc { id, node_id, client_status, task_states, ..ClientAlloc::default() }
    }

    /// The node sees what the servers want of it and does it; whether that was anything new.
    pub(crate) fn pull(&mut self, node: NodeId) -> bool {
        let client = self.clients.entry(node).or_default();
        let before = client.clone();
        for alloc in self.state.allocs_of_node(node) {
            match client.get(&alloc.id) {
                Some(status) if status.is_terminal() => {}
                _ if alloc.server_terminal() => {
                    client.insert(alloc.id, AllocClientStatus::Complete);
                }
                Some(_) => {}
                None if alloc.client_terminal() => {}
                None => {
                    client.insert(alloc.id, AllocClientStatus::Running);
                }
            }
        }
        *client != before
    }

    /// These nodes do what is wanted and say so.
    pub(crate) fn settle_clients(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            self.pull(*node);
            let differs = |(id, status): (&AllocId, &AllocClientStatus)| {
                self.state.alloc(*id).is_some_and(|alloc| alloc.client_status != *status)
            };
            if self.clients[node].iter().any(differs) {
                self.report(*node);
            }
        }
    }

    fn miss(&mut self, id: NodeId) {
        let node = self.state.node(id).expect("the node is registered").clone();
        let status = heartbeats::status_after_miss(&self.state, &node, self.now);
        let again = status == NodeStatus::Disconnected && heartbeats::was_not_looked_at(&self.state, &node);
        self.status(id, status);
        if again {
            self.node_evals(id);
        }
    }

    fn other(&mut self) {
        if self.state.node(C).is_some_and(|node| node.status == NodeStatus::Ready) {
            self.miss(C);
        } else {
            self.come_back(C);
        }
    }

    /// Its heartbeat arrives, it says how its allocations fare, and its heartbeat arrives once more.
    pub(crate) fn come_back(&mut self, id: NodeId) {
        self.status(id, NodeStatus::Ready);
        self.report(id);
        self.status(id, NodeStatus::Ready);
    }

    /// Begins a drain that is past its deadline, or calls it off.
    fn drain(&mut self) {
        let node = self.state.node(A).expect("a is registered").clone();
        if node.drain_strategy.is_some() {
            self.commit(UpdateNodeDrain {
                node_id: A,
                mark_eligible: true,
                updated_at: self.now.into(),
                ..UpdateNodeDrain::default()
            });
            return self.node_evals(A);
        }
        let drain_strategy = Some(DrainStrategy { deadline: Dur::from_secs(-1), ..DrainStrategy::default() });
        self.commit(UpdateNodeDrain {
            node_id: A,
            drain_strategy,
            updated_at: self.now.into(),
            ..UpdateNodeDrain::default()
        });
        let migrate = DesiredTransition { migrate: Some(true), ..DesiredTransition::default() };
        let allocs = self
            .state
            .allocs_of_node(A)
            .filter(|alloc| !alloc.terminal())
            .map(|alloc| (alloc.id, migrate.clone()))
            .collect();
        let job = self.state.job("default", "j").expect("the job is registered").clone();
        let evals = vec![drains::evaluation(&job, self.fresh(), self.now)];
        self.commit(SetDesiredTransitions { allocs, evals });
    }

    fn break_down(&mut self) -> bool {
        let running = self.clients.entry(A).or_default().iter_mut().find(|(_, status)| !status.is_terminal());
        running.map(|(_, status)| *status = AllocClientStatus::Failed).is_some()
    }

    fn fail(&mut self) {
        let is_replacement = |alloc: &&Arc<Allocation>| {
            let runs = alloc.client_status == AllocClientStatus::Running && !alloc.server_terminal();
            runs && alloc.previous_allocation.is_some() && alloc.node_id != Some(A)
        };
        let Some(alloc) = self.state.allocs().rev().find(is_replacement).cloned() else { return };
        let node = alloc.node_id.expect("it was placed");
        self.clients.entry(node).or_default().insert(alloc.id, AllocClientStatus::Failed);
        let said = self.word(node, alloc.id, AllocClientStatus::Failed);
        self.enter(vec![said]);
    }
}

fn node(id: NodeId) -> Node {
    let mut resources = NodeResources::default();
    resources.cpu.cpu_shares = 4000;
    resources.memory.memory_mb = 8000;
    resources.disk.disk_mb = 100_000;
    let address =
        NodeNetworkAddress { alias: "default".into(), address: "10.0.0.1".into(), ..NodeNetworkAddress::default() };
    let network =
        NodeNetworkResource { mode: "host".into(), addresses: Some(vec![address]), ..NodeNetworkResource::default() };
    resources.node_networks = Some(vec![network]);
    let driver = DriverInfo { detected: true, healthy: true, ..DriverInfo::default() };
    let mut node = Node {
        id,
        name: Str::from(format!("{:x}", id.as_bytes()[0])),
        datacenter: "dc1".into(),
        node_pool: "default".into(),
        attributes: Some(Arc::new([("kernel.name".into(), "linux".into())].into())),
        node_resources: Some(Arc::new(resources)),
        drivers: Some([("mock_driver".into(), driver)].into()),
        status: NodeStatus::Ready,
        ..Node::default()
    };
    node.computed_class = node.compute_class();
    node
}
