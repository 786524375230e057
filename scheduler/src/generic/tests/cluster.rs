//! The language of whole-scheduler stories. Nodes, jobs and events are commands on a real state; each `run` schedules,
//! commits and prints its result. The golden cases (`tests/golden`) are written in it, too.

#[path = "cluster/job.rs"]
mod job;
#[path = "cluster/rollout.rs"]
mod rollout;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use songline_commands::{
    Actor, AddNodeEvents, ClientAlloc, Command, DeregisterJob, DeregisterNode, Envelope, RegisterJob, RegisterNode,
    SetDesiredTransitions, SetSchedulerConfig, UpdateAllocsFromClient, UpdateEvals, UpdateNodeDrain,
    UpdateNodeEligibility, UpdateNodeStatus,
};
use songline_model::{
    AllocClientStatus, AllocMetric, Allocation, Constraint, DesiredTransition, DrainStrategy, DriverInfo, Dur,
    Eligibility, EphemeralDisk, EvalId, EvalStatus, EvalTrigger, Evaluation, FlatMap, Job, JobKey, JobType,
    MigrateStrategy, NetworkResource, Node, NodeId, NodeNetworkAddress, NodeNetworkResource, NodeReservedResources,
    NodeResources, NodeStatus, Plan, PlanResult, Port, ReschedulePolicy, Resources, Str, Task, TaskGroup, TaskRunState,
    TaskState, Template, Time, UpdateStrategy, Vault,
};
use songline_projections::{State, apply};

pub(crate) use self::job::job;
use super::asks;
use crate::applier;
use crate::attempts::{Done, Scheduler, Step};

const SECOND: i64 = 1_000_000_000;

/// A cluster as a story builds it.
pub(crate) struct Cluster {
    pub(crate) state: State,
    pub(crate) now: Time,
    nodes: BTreeMap<String, NodeId>,
    evals: u8,
    /// The blocked evaluation of each job, if there is one.
    blocked: BTreeMap<String, Evaluation>,
    pub(crate) told: String,
}

/// Runs a story and returns its output.
pub(crate) fn tell(story: &str) -> String {
    let mut cluster = Cluster::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        cluster.line(line);
    }
    cluster.told
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self {
            state: State::new(),
            now: Time::from_secs(1_000_000),
            nodes: BTreeMap::new(),
            evals: 0,
            blocked: BTreeMap::new(),
            told: String::new(),
        }
    }

    pub(crate) fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let map = |from: usize| {
            words[from..].iter().map(|word| word.split_once('=').unwrap_or((word, ""))).collect::<BTreeMap<_, _>>()
        };
        match words[0] {
            "node" => self.node(words[1], &map(2)),
            "job" => {
                let job = job(words[1], &map(2));
                self.register(job);
            }
            "stop" => self.stop(words[1], false),
            "purge" => self.stop(words[1], true),
            "run" => self.run(words[1], words.get(2).copied()),
            "client" => self.client(words[1], words[2], words.get(3) == Some(&"canary")),
            "down" => self.node_status(words[1], NodeStatus::Down),
            "disconnect" => self.node_status(words[1], NodeStatus::Disconnected),
            "connect" => self.node_status(words[1], NodeStatus::Ready),
            "ineligible" => self.eligibility(words[1], Eligibility::Ineligible),
            "eligible" => self.eligibility(words[1], Eligibility::Eligible),
            "remove" => self.commit(DeregisterNode { node_id: self.nodes[words[1]] }),
            "undrain" => self.undrain(words[1]),
            "evals" => self.tell_evals(words[1]),
            "scores" => self.tell_scores(words[1]),
            "healthy" => self.health(words[1], true),
            "unhealthy" => self.health(words[1], false),
            "deployments" => self.tell_deployments(words[1]),
            "watch" => self.watch_deployments(),
            "promote" | "pause" | "fail" | "resume" => self.steer(words[0], words[1]),
            "allocs" => self.tell_allocs(words[1]),
            "drain" => self.drain(words[1]),
            "wait" => self.now = self.now.plus(Dur(words[1].parse::<i64>().unwrap() * SECOND)),
            "settings" => self.settings(&map(1)),
            "quota" => {
                let (quota, namespace) = asks::quota(&map(1));
                self.commit(quota);
                self.commit(namespace);
            }
            other => panic!("unknown line {other}"),
        }
    }

    pub(crate) fn commit(&mut self, command: impl Into<Command>) {
        let index = self.state.raft_index() + 1;
        let envelope = Envelope::new(self.now, Actor::Anonymous, command);
        let applied = apply(&mut self.state, index, &envelope);
        applied.result.unwrap();
    }

    fn node(&mut self, name: &str, words: &BTreeMap<&str, &str>) {
        let number = |key: &str, default: i64| words.get(key).map_or(default, |text| text.parse().unwrap());
        let id = NodeId::from_bytes([self.nodes.len() as u8 + 1; 16]);
        self.nodes.insert(name.to_owned(), id);
        let mut attributes: BTreeMap<Str, Str> = [("kernel.name".into(), "linux".into())].into();
        let mut meta: BTreeMap<Str, Str> = BTreeMap::new();
        for (key, value) in words {
            if let Some(key) = key.strip_prefix("attr.") {
                attributes.insert(key.into(), (*value).into());
            } else if let Some(key) = key.strip_prefix("meta.") {
                meta.insert(key.into(), (*value).into());
            }
        }
        let mut resources = NodeResources::default();
        resources.cpu.cpu_shares = number("cpu", 4000);
        resources.memory.memory_mb = number("mem", 8000);
        resources.disk.disk_mb = 100_000;
        resources.cpu.total_cpu_cores = number("cores", 0) as u64;
        resources.cpu.reservable_cpu_cores = Some((0..resources.cpu.total_cpu_cores).collect());
        resources.devices = words.get("devices").map(|texts| texts.split(';').map(asks::device_group).collect());
        let address =
            NodeNetworkAddress { alias: "default".into(), address: "10.0.0.1".into(), ..NodeNetworkAddress::default() };
        let network = NodeNetworkResource {
            mode: "host".into(),
            addresses: Some(vec![address]),
            ..NodeNetworkResource::default()
        };
        resources.node_networks = Some(vec![network]);
        let mut reserved = NodeReservedResources::default();
        reserved.networks.reserved_host_ports = words.get("reserved_ports").copied().unwrap_or_default().into();
        let driver = DriverInfo { detected: true, healthy: !words.contains_key("sick"), ..DriverInfo::default() };
        let drivers =
            if words.contains_key("driverless") { BTreeMap::new() } else { [("mock_driver".into(), driver)].into() };
        let mut node = Node {
            id,
            name: name.into(),
            datacenter: words.get("dc").copied().unwrap_or("dc1").into(),
            node_class: words.get("class").copied().unwrap_or("").into(),
            node_pool: words.get("pool").copied().unwrap_or("default").into(),
            attributes: Some(Arc::new(attributes)),
            meta: Some(meta),
            node_resources: Some(Arc::new(resources)),
            reserved_resources: Some(reserved),
            drivers: Some(drivers),
            status: NodeStatus::Ready,
            ..Node::default()
        };
        node.computed_class = node.compute_class();
        self.commit(RegisterNode { node, create_node_pool: true });
    }

    pub(crate) fn register(&mut self, job: Job) {
        self.commit(RegisterJob { job: Arc::new(job), versions_max: 6, ..RegisterJob::default() });
    }

    fn stop(&mut self, id: &str, purge: bool) {
        self.commit(DeregisterJob {
            job: JobKey::new("default", id),
            purge,
            versions_max: 6,
            ..DeregisterJob::default()
        });
    }

    fn node_status(&mut self, name: &str, status: NodeStatus) {
        self.commit(UpdateNodeStatus { node_id: self.nodes[name], status, ..UpdateNodeStatus::default() });
        self.commit(AddNodeEvents::default());
    }

    fn drain(&mut self, name: &str) {
        let node_id = self.nodes[name];
        let drain_strategy = Some(DrainStrategy::default());
        self.commit(UpdateNodeDrain { node_id, drain_strategy, ..UpdateNodeDrain::default() });
        let migrate = || DesiredTransition { migrate: Some(true), ..DesiredTransition::default() };
        let allocs = self
            .state
            .allocs_of_node(node_id)
            .filter(|alloc| !alloc.terminal())
            .map(|alloc| (alloc.id, migrate()))
            .collect();
        self.commit(SetDesiredTransitions { allocs, evals: Vec::new() });
    }

    fn undrain(&mut self, name: &str) {
        let node_id = self.nodes[name];
        self.commit(UpdateNodeDrain { node_id, mark_eligible: true, ..UpdateNodeDrain::default() });
    }

    fn eligibility(&mut self, name: &str, eligibility: Eligibility) {
        let node_id = self.nodes[name];
        self.commit(UpdateNodeEligibility { node_id, eligibility, event: None, updated_at: self.now.into() });
    }

    fn settings(&mut self, words: &BTreeMap<&str, &str>) {
        let config = asks::scheduler_config(words);
        self.commit(SetSchedulerConfig { config, cas: None });
    }

    /// Has the nodes report this client status for every live alloc of this name, or `NAME@NODE` for that of one node, or
    /// for the canary only.
    fn client(&mut self, name: &str, status: &str, canary: bool) {
        let status = AllocClientStatus::from_word(status).unwrap();
        let is_meant = |alloc: &&Arc<Allocation>| is_called(alloc, name) && (alloc.is_canary() || !canary);
        let allocs: Vec<Arc<Allocation>> =
            self.state.allocs().filter(is_meant).filter(|alloc| !alloc.client_terminal()).cloned().collect();
        assert!(!allocs.is_empty(), "no live alloc {name}");
        let over = status.is_terminal();
        let task = TaskState {
            state: if over { TaskRunState::Dead } else { TaskRunState::Running },
            failed: status == AllocClientStatus::Failed,
            finished_at: over.then_some(self.now),
            ..TaskState::default()
        };
        let tasks = Some(Arc::new(FlatMap::from([(Str::from("t"), task)])));
        let said = |alloc: &Arc<Allocation>| ClientAlloc {
            id: alloc.id,
            node_id: alloc.node_id.unwrap(),
            client_status: status,
            task_states: tasks.clone(),
            modify_time: self.now,
            ..ClientAlloc::default()
        };
        let allocs = allocs.iter().map(said).collect();
        self.commit(UpdateAllocsFromClient { allocs, evals: Vec::new() });
    }

    /// Runs an evaluation of the job to its end. `blocked` runs the blocked evaluation, `due` a new one with a wait
    /// that ends now, `later` the pending follow-up that is due first (and moves the time there). With `refused` the
    /// planner accepts nothing, with `partly` only the first node of the first plan.
    fn run(&mut self, id: &str, how: Option<&str>) {
        let job = self.state.job("default", id).cloned();
        let eval = if how == Some("blocked") {
            self.blocked.remove(id).expect("a blocked evaluation")
        } else if how == Some("later") {
            let waits = self
                .state
                .evals_of_job("default", id)
                .filter(|eval| eval.status == EvalStatus::Pending && eval.wait_until.is_some());
            let next = waits.min_by_key(|eval| eval.wait_until).expect("something looks at it later");
            self.now = self.now.max(next.wait_until.unwrap());
            Evaluation::clone(&next)
        } else {
            self.evals += 1;
            Evaluation {
                id: EvalId::from_bytes([self.evals; 16]),
                namespace: "default".into(),
                priority: 50,
                kind: job.as_ref().map_or(JobType::Service, |job| job.kind.clone()),
                triggered_by: EvalTrigger::JobRegister,
                job_id: id.into(),
                status: EvalStatus::Pending,
                annotate_plan: how == Some("annotate"),
                wait_until: (how == Some("due")).then_some(self.now),
                ..Evaluation::default()
            }
        };
        writeln!(self.told, "run {id}:").unwrap();
        self.commit(UpdateEvals { evals: vec![eval.clone()] });
        let mut scheduler = Scheduler::new(eval, 7);
        let mut result = None;
        loop {
            match scheduler.step(&self.state, self.now, result.as_ref()) {
                Step::Submit { create, mut plan } => {
                    self.created(create);
                    let partly = how == Some("partly") && result.is_none();
                    if partly {
                        keep_first_node(&mut plan);
                    }
                    let mut answer = self.accept(*plan, how != Some("refused"));
                    answer.refresh_index = answer.refresh_index.max(if partly { answer.alloc_index } else { 0 });
                    result = Some(answer);
                }
                Step::Done { create, done } => {
                    self.created(create);
                    self.done(*done);
                    return;
                }
            }
        }
    }

    /// Prints the evaluations of a job that wait for a time.
    fn tell_evals(&mut self, id: &str) {
        writeln!(self.told, "evals {id}:").unwrap();
        let tell = |eval: Arc<Evaluation>| {
            let in_secs = eval.wait_until?.since(self.now).0 / SECOND;
            Some(format!("  {} {} in {in_secs}s: {}\n", eval.triggered_by, eval.status, eval.status_description))
        };
        let mut lines: Vec<String> = self.state.evals_of_job("default", id).filter_map(tell).collect();
        lines.sort();
        self.told.extend(lines);
    }

    /// Prints the scores of the nodes that were compared for the newest alloc of this name.
    fn tell_scores(&mut self, name: &str) {
        let alloc = self.state.allocs().filter(|alloc| alloc.name == *name).max_by_key(|alloc| alloc.create_index);
        let metric = alloc.and_then(|alloc| alloc.metrics.clone()).expect("a placed alloc");
        writeln!(self.told, "scores {name}: evaluated {}", metric.nodes_evaluated).unwrap();
        let mut lines: Vec<String> = Vec::new();
        for meta in metric.score_meta_data.iter().flatten() {
            let node = &self.state.node(meta.node_id).unwrap().name;
            let scores: String = meta
                .scores
                .iter()
                .flat_map(|scores| scores.iter())
                .map(|(name, n)| format!(" {name} {n:.3}"))
                .collect();
            lines.push(format!("  {node} {:.3}:{scores}", meta.norm_score));
        }
        // Nodes with the same score come in any order.
        lines.sort();
        self.told.extend(lines.into_iter().map(|line| line + "\n"));
    }

    fn created(&mut self, evals: Vec<Evaluation>) {
        for eval in &evals {
            let wait = eval.wait_until.map_or(String::new(), |at| format!(" in {}s", at.since(self.now).0 / SECOND));
            let classes = match &eval.class_eligibility {
                Some(classes) => {
                    let count = |eligible| classes.values().filter(|known| **known == eligible).count();
                    format!(", classes {} yes {} no", count(true), count(false))
                }
                None if eval.escaped_computed_class => ", escaped".to_owned(),
                None => String::new(),
            };
            let wait = if eval.wait > Dur::ZERO { format!(" in {}s", eval.wait.0 / SECOND) } else { wait };
            let node = eval.node_id.and_then(|id| self.state.node(id));
            let node = node.map_or(String::new(), |node| format!(" for {}", node.name));
            let quota = &eval.quota_limit_reached;
            let quota = if quota.is_empty() { String::new() } else { format!(", over quota {quota}") };
            let blocked = eval.status == EvalStatus::Blocked;
            let what = if blocked { format!("{node}{classes}{quota}") } else { String::new() };
            writeln!(self.told, "  new eval {} {}{wait}{what}", eval.triggered_by, eval.status).unwrap();
            if eval.status == EvalStatus::Blocked {
                self.blocked.insert(eval.job_id.to_string(), eval.clone());
            }
        }
        if !evals.is_empty() {
            self.commit(UpdateEvals { evals });
        }
    }

    fn accept(&mut self, plan: Plan, accepted: bool) -> PlanResult {
        if !accepted {
            writeln!(self.told, "  plan refused").unwrap();
            return PlanResult { refresh_index: self.state.applied_index(), ..PlanResult::default() };
        }
        self.tell_plan(&plan);
        let (mut result, refused) = applier::evaluate(&self.state, &plan);
        for (node, reason) in refused {
            let name = &self.state.node(node).unwrap().name;
            writeln!(self.told, "  refused on {name}: {reason}").unwrap();
        }
        if !applier::is_no_op(&result) {
            let placed = applier::placed(&plan, &result, self.now, |_| ());
            let mut ids = 0xe0..;
            let fresh_eval = || EvalId::from_bytes([ids.next().unwrap(); 16]);
            let command = applier::command(&self.state, &plan, &result, placed, self.now, fresh_eval);
            for eval in &command.preemption_evals {
                writeln!(self.told, "  new eval {} for {} {}", eval.triggered_by, eval.job_id, eval.status).unwrap();
            }
            self.commit(command);
            result.alloc_index = self.state.applied_index();
        }
        result
    }

    fn tell_plan(&mut self, plan: &Plan) {
        let mut lines = Vec::new();
        for stop in plan.node_update.values().flatten() {
            let alloc = self.state.alloc(stop.id).unwrap();
            let name = &alloc.name;
            // The names of these jobs are the same on every node.
            let on = if is_per_node(alloc) { format!(" on {}", alloc.node_name) } else { String::new() };
            let said = stop.client_status.map_or(String::new(), |status| format!(" as {status}"));
            lines.push(format!("stop {name}{on}{said}: {}", stop.desired_description));
        }
        for preempt in plan.node_preemptions.values().flatten() {
            let (victim, by) = (self.state.alloc(preempt.id).unwrap(), preempt.preempted_by);
            let by = plan.node_allocation.values().flatten().find(|alloc| alloc.id == by).unwrap();
            assert!(by.preempted_allocations.as_ref().unwrap().contains(&preempt.id));
            lines.push(format!("preempt {} on {} for {}", victim.name, victim.node_name, by.name));
        }
        for alloc in plan.node_allocation.values().flatten() {
            let ports = alloc
                .allocated_resources
                .as_ref()
                .and_then(|resources| resources.shared.ports.clone())
                .unwrap_or_default();
            let ports: String = ports
                .iter()
                .map(|port| format!(" {}={}", port.label, if port.value < 20_000 { port.value } else { -1 }))
                .collect();
            let ports = ports + &asks::told_tasks(alloc);
            let how = match self.state.alloc(alloc.id) {
                Some(_) => "update",
                None if alloc.reschedule_tracker.is_some() => "place again",
                None if alloc.is_canary() => "place canary",
                None if alloc.previous_allocation.is_some() => "place after",
                None => "place",
            };
            let known = self.state.alloc(alloc.id).is_some_and(|known| is_per_node(known));
            let how = if known && alloc.client_status == AllocClientStatus::Unknown { "make unknown" } else { how };
            let is_new = self.state.alloc(alloc.id).is_none();
            let version = alloc.job.as_ref().filter(|_| is_new).map(|job| format!(" (version {})", job.version));
            lines.push(format!("{how} {} on {}{ports}{}", alloc.name, alloc.node_name, version.unwrap_or_default()));
        }
        lines.sort();
        if let Some(annotations) = &plan.annotations {
            for (group, desired) in &annotations.desired_tg_updates {
                let rare = [
                    ("migrate", desired.migrate),
                    ("in place", desired.in_place_update),
                    ("destructive", desired.destructive_update),
                    ("preemptions", desired.preemptions),
                ];
                let rare: String =
                    rare.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!(" {what} {n}")).collect();
                lines.push(format!(
                    "would: {group} ignore {} place {} stop {}{rare}",
                    desired.ignore, desired.place, desired.stop
                ));
            }
        }
        if let Some(deployment) = &plan.deployment {
            lines.push(format!("deployment {}", deployment.status));
        }
        for line in lines {
            writeln!(self.told, "  {line}").unwrap();
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Update(eval) => {
                for (group, metric) in eval.failed_tg_allocs.iter().flat_map(|failed| failed.iter()) {
                    writeln!(self.told, "  failed {group}: {}", brief(metric)).unwrap();
                }
                let queued: Vec<String> =
                    eval.queued_allocations.iter().flat_map(|q| q.iter()).map(|(g, n)| format!("{g} {n}")).collect();
                let why = if eval.status_description.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", eval.status_description)
                };
                let next = if eval.next_eval.is_some() { ", then another" } else { "" };
                writeln!(self.told, "  eval {}{why}, queued {}{next}", eval.status, queued.join(" ")).unwrap();
                self.commit(UpdateEvals { evals: vec![eval] });
            }
            Done::Reblock(eval) => {
                writeln!(self.told, "  blocked again").unwrap();
                self.blocked.insert(eval.job_id.to_string(), eval);
            }
        }
    }
}

fn keep_first_node(plan: &mut Plan) {
    let first = plan.node_allocation.keys().next().copied();
    plan.node_allocation.retain(|node, _| Some(*node) == first);
    plan.node_update.retain(|node, _| Some(*node) == first);
}

fn is_per_node(alloc: &Allocation) -> bool {
    alloc.job.as_ref().is_some_and(|job| job.kind.is_per_node())
}

fn is_called(alloc: &Allocation, name: &str) -> bool {
    match name.split_once('@') {
        Some((name, node)) => alloc.name == *name && alloc.node_name == *node,
        None => alloc.name == *name,
    }
}

fn brief(metric: &AllocMetric) -> String {
    let map = |name: &str, counts: Option<&FlatMap<Str, i64>>| match counts {
        Some(counts) if !counts.is_empty() => {
            let counts: Vec<String> = counts.iter().map(|(key, n)| format!("{key}: {n}")).collect();
            format!("; {name} {{{}}}", counts.join(", "))
        }
        _ => String::new(),
    };
    let resources: String = metric
        .resources_exhausted
        .as_deref()
        .into_iter()
        .flatten()
        .map(|(task, sum)| format!("; task {task} cpu {} memory {}", sum.cpu, sum.memory_mb))
        .collect();
    let quota = metric
        .quota_exhausted
        .as_deref()
        .into_iter()
        .flatten()
        .map(|why| format!("; quota: {why}"))
        .collect::<String>();
    format!(
        "evaluated {} filtered {} exhausted {} coalesced {} in pool {}{}{}{}{}{resources}{quota}",
        metric.nodes_evaluated,
        metric.nodes_filtered,
        metric.nodes_exhausted,
        metric.coalesced_failures,
        metric.nodes_in_pool,
        map("available", metric.nodes_available.as_deref()),
        map("constraints", metric.constraint_filtered.as_deref()),
        map("dimensions", metric.dimension_exhausted.as_deref()),
        map("classes", metric.class_filtered.as_deref()),
    )
}
