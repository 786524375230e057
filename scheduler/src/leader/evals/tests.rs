//! No wake-up of an evaluation over a quota is lost, whatever gives the room and whenever the evaluation is blocked.
//! One entry queues its own evaluations before those that it wakes.

use std::sync::Arc;

use songline_commands::{
    Actor, ApplyPlan, ClientAlloc, Command, Envelope, RegisterJob, RegisterNode, UpdateAllocsFromClient, UpdateEvals,
    UpsertNamespaces, UpsertQuotaSpecs,
};
use songline_model::{
    AllocClientStatus, AllocId, AllocMetric, AllocatedResources, AllocatedTaskResources, Allocation, EvalId,
    EvalStatus, Evaluation, Job, JobType, Namespace, Node, NodeId, QuotaLimit, QuotaSpec, QuotaUsed, Resources,
    StopAlloc, TaskGroup, Time,
};
use songline_projections::{State, apply};

use super::EvalQueues;

const SEEDS: u64 = 40;
const ENTRIES: u64 = 300;
const NODE: NodeId = NodeId::from_bytes([1; 16]);

/// An evaluation that was over its quota in a view, and is not blocked yet.
struct Decided {
    eval: Evaluation,
    /// Entries until it is blocked.
    wait: u64,
}

struct World {
    state: State,
    queues: EvalQueues,
    seed: u64,
    decided: Vec<Decided>,
    /// Each blocked evaluation with the CPU that it asks for.
    blocked: Vec<(Evaluation, i64)>,
    evals: u128,
}

fn resources(cpu: i64) -> AllocatedResources {
    let mut task = AllocatedTaskResources::default();
    task.cpu.cpu_shares = cpu;
    AllocatedResources { tasks: Some([("t".into(), task)].into()), ..AllocatedResources::default() }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut queues = EvalQueues::new();
        queues.set_enabled(true, &State::new(), Time::default());
        let mut world = Self {
            state: State::new(),
            queues,
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            decided: Vec::new(),
            blocked: Vec::new(),
            evals: 0,
        };
        for namespace in ["default", "team"] {
            let row = Namespace { name: namespace.into(), ..Namespace::default() };
            world.commit(UpsertNamespaces { namespaces: vec![row] });
            let group = TaskGroup { name: "g".into(), ..TaskGroup::default() };
            let groups = Some(vec![group]);
            let job = Job { namespace: namespace.into(), id: "web".into(), task_groups: groups, ..Job::default() };
            world.commit(RegisterJob { job: Arc::new(job), ..RegisterJob::default() });
        }
        world
    }

    fn below(&mut self, sides: u64) -> u64 {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        (self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn namespace(&mut self) -> &'static str {
        ["default", "team"][self.below(2) as usize]
    }

    fn commit(&mut self, command: impl Into<Command>) {
        let index = self.state.raft_index() + 1;
        let envelope = Envelope::new(Time::default(), Actor::Anonymous, command);
        let applied = apply(&mut self.state, index, &envelope);
        self.queues.on_changes(&self.state, index, &applied.changes, Time::default());
    }

    fn random(&mut self) -> Command {
        let quota = ["gold", "iron"][self.below(2) as usize];
        match self.below(8) {
            0 => {
                let cpu = self.below(8).cast_signed() * 100 - 100;
                let region_limit = Some(Resources { cpu, ..Resources::default() });
                let limit = QuotaLimit { region: "global".into(), region_limit, ..QuotaLimit::default() };
                let limits = (self.below(8) > 0).then(|| vec![limit]);
                let quota = QuotaSpec { name: quota.into(), limits, ..QuotaSpec::default() };
                UpsertQuotaSpecs { quotas: vec![quota], region: "global".into() }.into()
            }
            1 => {
                let quota = if self.below(4) == 0 { "" } else { quota };
                let row = Namespace { name: self.namespace().into(), quota: quota.into(), ..Namespace::default() };
                UpsertNamespaces { namespaces: vec![row] }.into()
            }
            2..=4 => self.plan().into(),
            _ => {
                let id = self.alloc();
                let client_status = [AllocClientStatus::Running, AllocClientStatus::Failed][self.below(2) as usize];
                let update = ClientAlloc { id, node_id: NODE, client_status, ..ClientAlloc::default() };
                UpdateAllocsFromClient { allocs: vec![update], ..UpdateAllocsFromClient::default() }.into()
            }
        }
    }

    fn alloc(&mut self) -> AllocId {
        AllocId::from_bytes([1 + self.below(30) as u8; 16])
    }

    fn plan(&mut self) -> ApplyPlan {
        let (id, namespace, cpu) = (self.alloc(), self.namespace(), 100 + self.below(3).cast_signed() * 100);
        if self.state.alloc(id).is_some() {
            return ApplyPlan { stopped: vec![StopAlloc { id, ..StopAlloc::default() }], ..ApplyPlan::default() };
        }
        let alloc = Allocation {
            id,
            namespace: namespace.into(),
            job_id: "web".into(),
            node_id: Some(NODE),
            task_group: "g".into(),
            allocated_resources: Some(Arc::new(resources(cpu))),
            ..Allocation::default()
        };
        let job = self.state.job(namespace, "web").cloned();
        ApplyPlan { job, updated: vec![Arc::new(alloc)], ..ApplyPlan::default() }
    }

    fn is_over(&self, namespace: &str, cpu: i64) -> bool {
        let Some(limited) = self.state.quota_of_namespace(namespace) else { return false };
        let before = self.state.used_of_quota(limited.quota);
        let mut after = before.clone();
        after.add(&QuotaUsed::of_resources(&resources(cpu)));
        !limited.limit.exceeded(&before, &after).is_empty()
    }

    /// An evaluation on this view; its blocked evaluation comes some entries later.
    fn evaluate(&mut self) {
        let (namespace, cpu) = (self.namespace(), 100 + self.below(4).cast_signed() * 100);
        if !self.is_over(namespace, cpu) {
            return;
        }
        self.evals += 1;
        let over = AllocMetric { quota_exhausted: Some(vec!["cpu".into()].into()), ..AllocMetric::default() };
        let eval = Evaluation {
            id: EvalId::from_bytes(self.evals.to_be_bytes()),
            namespace: namespace.into(),
            job_id: format!("job-{}", self.evals).into(),
            status: EvalStatus::Blocked,
            snapshot_index: self.state.applied_index(),
            quota_limit_reached: self.state.namespace(namespace).expect("is there").quota.0.clone(),
            failed_tg_allocs: Some(Arc::new([("g".into(), over)].into())),
            // Only this test reads it.
            wait: songline_model::Dur(cpu),
            ..Evaluation::default()
        };
        let wait = self.below(4);
        self.decided.push(Decided { eval, wait });
    }

    fn block_due(&mut self) {
        let (due, later) = std::mem::take(&mut self.decided).into_iter().partition(|decided| decided.wait == 0);
        self.decided = later;
        self.decided.iter_mut().for_each(|decided| decided.wait -= 1);
        let due: Vec<Decided> = due;
        for Decided { eval, .. } in due {
            self.queues.on_eval(&Arc::new(eval.clone()), Time::default());
            let cpu = eval.wait.0;
            self.blocked.push((eval, cpu));
        }
    }

    /// Takes the evaluations out that have been woken. Those that still wait must be over their quota.
    fn look(&mut self, what: &str) -> usize {
        let all = self.blocked.len();
        let queues = &self.queues;
        self.blocked.retain(|(eval, _)| queues.blocked.is_blocked(eval.id));
        for (eval, cpu) in &self.blocked {
            assert!(self.is_over(&eval.namespace, *cpu), "{what}: {} waits for {cpu} MHz that it has", eval.job_id);
        }
        all - self.blocked.len()
    }
}

#[test]
fn no_evaluation_waits_for_a_quota_that_has_room() {
    let (mut woken, mut waited) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for entry in 0..ENTRIES {
            world.evaluate();
            let command = world.random();
            world.commit(command);
            world.block_due();
            woken += world.look(&format!("seed {seed}, entry {entry}"));
            waited += world.blocked.len();
            if world.below(50) == 0 {
                // A new leader fills its queues from the tables; only what it is told is in them here.
                let view = world.state.clone();
                world.queues.set_enabled(false, &view, Time::default());
                world.queues.set_enabled(true, &view, Time::default());
                let blocked = std::mem::take(&mut world.blocked);
                for (eval, cpu) in blocked {
                    world.queues.on_eval(&Arc::new(eval.clone()), Time::default());
                    world.blocked.push((eval, cpu));
                }
                woken += world.look(&format!("seed {seed}, new leader at entry {entry}"));
            }
        }
    }
    assert!(woken > 500 && waited > 500, "quotas fill and empty: {woken} woken, {waited} waits");
}

#[test]
fn evaluation_of_an_entry_is_queued_before_the_blocked_one_that_the_entry_wakes() {
    let mut world = World::new(1);
    let (id, now) = (AllocId::from_bytes([1; 16]), Time::default());
    let eval = |n: u8, status, snapshot_index| Evaluation {
        id: EvalId::from_bytes([n; 16]),
        namespace: "default".into(),
        job_id: "web".into(),
        kind: JobType::Service,
        status,
        snapshot_index,
        escaped_computed_class: true,
        ..Evaluation::default()
    };
    world.commit(RegisterNode { node: Node { id: NODE, ..Node::default() }, create_node_pool: true });
    let alloc = Allocation {
        id,
        namespace: "default".into(),
        job_id: "web".into(),
        node_id: Some(NODE),
        task_group: "g".into(),
        ..Allocation::default()
    };
    let job = world.state.job("default", "web").cloned();
    world.commit(ApplyPlan { job, updated: vec![Arc::new(alloc)], ..ApplyPlan::default() });
    let blocked = eval(1, EvalStatus::Blocked, world.state.applied_index());
    world.commit(UpdateEvals { evals: vec![blocked] });
    let said = ClientAlloc { id, node_id: NODE, client_status: AllocClientStatus::Failed, ..ClientAlloc::default() };
    world.commit(UpdateAllocsFromClient { allocs: vec![said], evals: vec![eval(2, EvalStatus::Pending, 0)] });
    for expected in [2, 1] {
        let delivery = world.queues.broker.dequeue(&[JobType::Service], now).expect("two are queued");
        assert_eq!(delivery.eval.id, EvalId::from_bytes([expected; 16]));
        world.queues.broker.ack(delivery.eval.id, delivery.token, now).expect("it was delivered");
    }
}
