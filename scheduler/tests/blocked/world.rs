//! A cluster whose job `w` has no room at first, a worker that makes one step at a time, and a leader whose queues
//! learn of entries later than the tables. Node `a` is full; `b` has a class that does not suit; `c` has not joined;
//! `d` is like `a`, empty and ineligible; `e` is like `a`, and its driver is sick.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use songline_commands::{
    Actor, ApplyPlan, ClientAlloc, Command, Envelope, RegisterJob, RegisterNode, UpdateAllocsFromClient, UpdateEvals,
    UpdateNodeEligibility,
};
use songline_model::{
    AllocClientStatus, AllocId, AllocatedResources, AllocatedTaskResources, Allocation, Constraint, DriverInfo,
    Eligibility, EphemeralDisk, EvalId, EvalStatus, EvalTrigger, Evaluation, Job, JobType, Node, NodeId, NodeResources,
    NodeStatus, PlanResult, Resources, Str, Task, TaskGroup, Time,
};
use songline_projections::{Change, State, apply};
use songline_scheduler::broker::Token;
use songline_scheduler::leader::evals::EvalQueues;
use songline_scheduler::{Done, Scheduler, Step as Stage, applier, schedule};

const NOW: Time = Time::from_secs(1_000_000);

/// Something that happens to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The newest allocation of another job ends on its node.
    End,
    /// Another job takes the first room there is.
    Take,
    /// `d` may take work.
    Eligible,
    /// `d` may not take work any more.
    Ineligible,
    /// `c` joins, with a class of its own that suits.
    Join,
    /// `b` registers again, with a class that suits.
    Reclass,
    /// The driver of `e` is well again.
    Heal,
    /// The job is registered again.
    Register,
    /// Another leader begins with the tables as they are; the worker's delivery is lost.
    Lead,
}

/// A step of the exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next event.
    Happen(Event),
    /// The queues learn of the next entry.
    Deliver,
    /// The worker does its next piece of work.
    Work,
}

/// Evaluation that the worker holds.
#[derive(Clone)]
struct Working {
    eval: EvalId,
    token: Token,
    view: State,
    scheduler: Scheduler,
    result: Option<PlanResult>,
    next: Next,
}

/// The worker's next piece of work.
#[derive(Clone)]
enum Next {
    Schedule,
    Submit(Box<songline_model::Plan>),
    Write(Vec<Evaluation>, Option<Arc<Evaluation>>),
    Reblock(Arc<Evaluation>),
    Answer,
}

#[derive(Clone)]
pub(crate) struct World {
    state: State,
    queues: EvalQueues,
    /// Entries that the queues have not learned of.
    unheard: VecDeque<(u64, Vec<Change>)>,
    worker: Option<Working>,
    events: VecDeque<Event>,
    ids: u64,
}

impl World {
    pub(crate) fn new(events: &[Event]) -> Self {
        let mut world = World {
            state: State::new(),
            queues: EvalQueues::new(),
            unheard: VecDeque::new(),
            worker: None,
            events: events.iter().copied().collect(),
            ids: 0,
        };
        world.queues.set_enabled(true, &world.state.clone(), NOW);
        world.commit(RegisterNode { node: node(b'a', "good"), create_node_pool: true });
        world.happen(Event::Take);
        world.commit(RegisterNode { node: node(b'b', "bad"), create_node_pool: true });
        world.commit(RegisterNode { node: node(b'd', "good"), create_node_pool: true });
        world.happen(Event::Ineligible);
        let mut sick = node(b'e', "good");
        sick.drivers = Some([("mock_driver".into(), DriverInfo { detected: true, ..DriverInfo::default() })].into());
        world.commit(RegisterNode { node: sick, create_node_pool: true });
        world.happen(Event::Register);
        while !world.unheard.is_empty() {
            world.make(Step::Deliver);
        }
        world
    }

    /// The steps that can be made.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.worker.is_some() || self.queues.broker.has_ready(&[JobType::Service]) {
            steps.push(Step::Work);
        }
        if !self.unheard.is_empty() {
            steps.push(Step::Deliver);
        }
        steps.extend(self.events.front().map(|event| Step::Happen(*event)));
        steps
    }

    /// Whether nothing is left to do until something happens.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.steps().iter().all(|step| matches!(step, Step::Happen(_)))
    }

    pub(crate) fn make(&mut self, step: Step) {
        match step {
            Step::Happen(event) => {
                self.events.pop_front();
                self.happen(event);
            }
            Step::Deliver => {
                let (index, changes) = self.unheard.pop_front().expect("something is unheard");
                self.queues.on_changes(&self.state, index, &changes, NOW);
                let canceled = self.queues.on_time(NOW, NOW).canceled;
                self.write(canceled);
            }
            Step::Work => match self.worker.take() {
                Some(working) => self.work(working),
                None => self.take(),
            },
        }
    }

    /// Faults of a world at rest.
    pub(crate) fn fault(&self) -> Option<String> {
        let probe = Evaluation { id: EvalId::from_bytes([0xff; 16]), ..self.eval() };
        let would = schedule(&self.state, &probe, 7, NOW).plan.node_allocation;
        let node = would.keys().next().and_then(|id| self.state.node(*id))?;
        Some(format!("node {} has room for the job, and nothing looks at it\n{}", node.name, self.told()))
    }

    fn commit(&mut self, command: impl Into<Command>) {
        let index = self.state.raft_index() + 1;
        let applied = apply(&mut self.state, index, &Envelope::new(NOW, Actor::Anonymous, command));
        applied.result.expect("nothing here is refused");
        self.unheard.push_back((applied.index, applied.changes));
    }

    fn write(&mut self, evals: Vec<Evaluation>) {
        if !evals.is_empty() {
            self.commit(UpdateEvals { evals });
        }
    }

    fn happen(&mut self, event: Event) {
        let eligibility =
            |eligibility| UpdateNodeEligibility { node_id: id(b'd'), eligibility, event: None, updated_at: NOW.into() };
        match event {
            Event::End => self.end(),
            Event::Take => self.occupy(),
            Event::Eligible => self.commit(eligibility(Eligibility::Eligible)),
            Event::Ineligible => self.commit(eligibility(Eligibility::Ineligible)),
            Event::Join => self.commit(RegisterNode { node: node(b'c', "better"), create_node_pool: true }),
            Event::Reclass => self.commit(RegisterNode { node: node(b'b', "good"), create_node_pool: true }),
            Event::Heal => self.commit(RegisterNode { node: node(b'e', "good"), create_node_pool: true }),
            Event::Register => {
                self.ids += 1;
                let eval = Evaluation { id: EvalId::from_bytes(u128::from(self.ids).to_be_bytes()), ..self.eval() };
                let job = Arc::new(job("w", self.ids));
                self.commit(RegisterJob { job, eval: Some(eval), versions_max: 6, ..RegisterJob::default() });
            }
            Event::Lead => {
                self.unheard.clear();
                self.worker = None;
                let view = self.state.clone();
                self.queues.set_enabled(false, &view, NOW);
                self.queues.set_enabled(true, &view, NOW);
            }
        }
    }

    fn eval(&self) -> Evaluation {
        Evaluation {
            namespace: "default".into(),
            priority: 50,
            kind: JobType::Service,
            triggered_by: EvalTrigger::JobRegister,
            job_id: "w".into(),
            status: EvalStatus::Pending,
            create_time: NOW,
            modify_time: NOW,
            ..Evaluation::default()
        }
    }

    /// An allocation of another job takes the first room there is, as another worker would have placed it.
    fn occupy(&mut self) {
        let asked = resources();
        let has_room = |node: &&Arc<Node>| {
            let used: i64 = self
                .state
                .allocs_of_node(node.id)
                .filter(|alloc| !alloc.terminal())
                .map(|alloc| alloc.amount().cpu)
                .sum();
            node.is_ready() && node.attribute("kind").is_some_and(|kind| *kind != "bad") && used == 0
        };
        let Some(node) = self.state.nodes().find(has_room).cloned() else { return };
        self.ids += 1;
        let alloc = Allocation {
            id: AllocId::from_bytes(u128::from(self.ids).to_be_bytes()),
            namespace: "default".into(),
            job_id: "other".into(),
            node_id: Some(node.id),
            name: "other.g[0]".into(),
            task_group: "g".into(),
            job: Some(Arc::new(job("other", 0))),
            allocated_resources: Some(asked),
            client_status: AllocClientStatus::Running,
            ..Allocation::default()
        };
        self.commit(ApplyPlan { updated: vec![Arc::new(alloc)], ..ApplyPlan::default() });
    }

    fn end(&mut self) {
        let others = self.state.allocs().filter(|alloc| alloc.job_id == "other" && !alloc.terminal());
        let Some(alloc) = others.max_by_key(|alloc| alloc.create_index).cloned() else { return };
        let said = ClientAlloc {
            id: alloc.id,
            node_id: alloc.node_id.expect("it was placed"),
            client_status: AllocClientStatus::Complete,
            ..ClientAlloc::default()
        };
        self.commit(UpdateAllocsFromClient { allocs: vec![said], evals: Vec::new() });
    }

    fn take(&mut self) {
        let delivery = self.queues.broker.dequeue(&[JobType::Service], NOW).expect("something is ready");
        let row = self.state.eval(delivery.eval.id).expect("the evaluation is in the tables");
        let next = if row.status.is_terminal() { Next::Answer } else { Next::Schedule };
        self.worker = Some(Working {
            eval: row.id,
            token: delivery.token,
            view: self.state.clone(),
            scheduler: Scheduler::new(Evaluation::clone(&row), 7),
            result: None,
            next,
        });
    }

    fn work(&mut self, mut working: Working) {
        working.next = match working.next {
            Next::Schedule => match working.scheduler.step(&working.view, NOW, working.result.as_ref()) {
                Stage::Submit { create, plan } => {
                    self.write(create);
                    Next::Submit(plan)
                }
                Stage::Done { create, done } => {
                    let (rows, waits) = Done::rows(*done, &working.view, create);
                    Next::Write(rows, waits)
                }
            },
            Next::Submit(plan) => {
                let (result, _) = applier::evaluate(&self.state, &plan);
                let mut index = 0;
                if !applier::is_no_op(&result) {
                    let placed = applier::placed(&plan, &result, NOW, |_| ());
                    let fresh = || unreachable!("nothing is preempted");
                    self.commit(applier::command(&self.state, &plan, &result, placed, NOW, fresh));
                    index = self.state.applied_index();
                }
                working.result = Some(applier::written(result, index));
                working.view = self.state.clone();
                Next::Schedule
            }
            Next::Write(rows, waits) => {
                self.write(rows);
                waits.map_or(Next::Answer, Next::Reblock)
            }
            Next::Reblock(eval) => {
                self.queues.reblock(eval, working.token, NOW);
                Next::Answer
            }
            Next::Answer => {
                self.queues.broker.ack(working.eval, working.token, NOW).expect("the worker holds the delivery");
                return;
            }
        };
        self.worker = Some(working);
    }

    /// Two worlds with the same key are the same for all that can come: indexes and tokens count by their order only,
    /// and ids not at all.
    pub(crate) fn key(&self) -> String {
        let mut text = format!("{:?};{:?};", self.events, self.queues);
        for (index, changes) in &self.unheard {
            write!(text, "{index} {};", changes.len()).expect("a String takes everything");
        }
        if let Some(working) = &self.worker {
            let stage = match &working.next {
                Next::Schedule => "schedule".to_owned(),
                Next::Submit(plan) => format!("submit {:?}", plan.node_allocation.keys()),
                Next::Write(rows, waits) => format!("write {rows:?} {waits:?}"),
                Next::Reblock(eval) => format!("reblock {eval:?}"),
                Next::Answer => "answer".to_owned(),
            };
            let at = working.view.applied_index();
            write!(text, "{stage} {:?} {:?} {at};", working.eval, working.token).expect("a String takes everything");
        }
        text += &self.told();
        normal(&text, &self.state)
    }

    /// All rows in short.
    fn told(&self) -> String {
        let mut told = String::new();
        for node in self.state.nodes() {
            let driver = node.drivers.iter().flatten().all(|(_, driver)| driver.healthy);
            writeln!(told, "  node {} {} {driver} {}", node.name, node.is_ready(), node.computed_class)
                .expect("a String takes everything");
        }
        let mut allocs: Vec<_> = self.state.allocs().collect();
        allocs.sort_by_key(|alloc| alloc.create_index);
        for alloc in allocs {
            writeln!(told, "  {} on {:?}: {} {}", alloc.name, alloc.node_id, alloc.desired_status, alloc.client_status)
                .expect("a String takes everything");
        }
        for eval in by_creation(&self.state) {
            let (classes, trigger) = (&eval.class_eligibility, &eval.triggered_by);
            writeln!(told, "  eval {trigger} {} at {}: {classes:?}", eval.status, eval.snapshot_index)
                .expect("a String takes everything");
        }
        told
    }
}

fn by_creation(state: &State) -> Vec<Arc<Evaluation>> {
    let mut evals: Vec<_> = state.evals().collect();
    evals.sort_by_key(|eval| (eval.create_index, eval.triggered_by.to_string()));
    evals
}

/// The text with ids of evaluations as their order of creation, and numbers as their rank among all numbers.
fn normal(text: &str, state: &State) -> String {
    let mut text = text.to_owned();
    for (number, eval) in by_creation(state).iter().enumerate() {
        text = text.replace(&eval.id.to_string(), &format!("E{}", char::from(b'a' + number as u8 % 26)));
    }
    let digits = |at: &str| at.find(|c: char| !c.is_ascii_digit()).unwrap_or(at.len());
    let mut numbers = std::collections::BTreeSet::new();
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let (number, after) = from.split_at(digits(from));
        let number: u128 = number.parse().unwrap_or(u128::MAX);
        numbers.insert(number);
        parts.push((before, number));
        rest = after;
    }
    let ranks: std::collections::BTreeMap<u128, usize> =
        numbers.into_iter().enumerate().map(|(rank, number)| (number, rank)).collect();
    let mut out = String::with_capacity(text.len());
    for (before, number) in parts {
        write!(out, "{before}{}", ranks[&number]).expect("a String takes everything");
    }
    out + rest
}

fn resources() -> Arc<AllocatedResources> {
    let mut task = AllocatedTaskResources::default();
    task.cpu.cpu_shares = 600;
    Arc::new(AllocatedResources { tasks: Some([("t".into(), task)].into()), ..AllocatedResources::default() })
}

fn id(name: u8) -> NodeId {
    NodeId::from_bytes([name; 16])
}

fn node(name: u8, kind: &str) -> Node {
    let mut resources = NodeResources::default();
    resources.cpu.cpu_shares = 1000;
    resources.memory.memory_mb = 1000;
    resources.disk.disk_mb = 1000;
    let driver = DriverInfo { detected: true, healthy: true, ..DriverInfo::default() };
    let mut node = Node {
        id: id(name),
        name: Str::from(char::from(name).to_string()),
        datacenter: "dc1".into(),
        node_pool: "default".into(),
        attributes: Some(Arc::new([("kind".into(), kind.into())].into())),
        node_resources: Some(Arc::new(resources)),
        drivers: Some([("mock_driver".into(), driver)].into()),
        status: NodeStatus::Ready,
        ..Node::default()
    };
    node.computed_class = node.compute_class();
    node
}

fn job(id: &str, change: u64) -> Job {
    let task = Task {
        name: "t".into(),
        driver: "mock_driver".into(),
        env: Some([("E".into(), Str::from(change.to_string()))].into()),
        resources: Some(Resources { cpu: 600, memory_mb: 100, ..Resources::default() }),
        ..Task::default()
    };
    let group = TaskGroup {
        name: "g".into(),
        count: 1,
        tasks: Some(vec![task]),
        ephemeral_disk: Some(EphemeralDisk { size_mb: 10, ..EphemeralDisk::default() }),
        ..TaskGroup::default()
    };
    let constraint = Constraint { l_target: "${attr.kind}".into(), r_target: "bad".into(), operand: "!=".into() };
    Job {
        id: id.into(),
        namespace: "default".into(),
        name: id.into(),
        kind: JobType::Service,
        priority: 50,
        datacenters: Some(vec!["*".into()]),
        node_pool: "default".into(),
        constraints: Some(vec![constraint]),
        task_groups: Some(vec![group]),
        ..Job::default()
    }
}
