//! The language of the reconciler's stories: a job, its allocations and its deployment as input, the changes as output.
//! The golden cases (`tests/golden`) are written in it, too.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocDesiredStatus, AllocId, AllocMetric, AllocState, AllocStateField,
    Allocation, Deployment, DeploymentId, DeploymentState, DeploymentStatus, DrainStrategy, Dur, EvalId, Evaluation,
    Job, JobType, Multiregion, MultiregionRegion, Node, NodeId, NodeScoreMeta, NodeStatus, ParameterizedJobConfig,
    RescheduleEvent, ReschedulePolicy, RescheduleTracker, Str, TaskGroup, TaskRunState, TaskState, Time,
    UpdateStrategy,
};

use crate::reconcile::{Placement, Reconciled, Reconciler, Tainted, Update};
use crate::seed::Seed;

const SECOND: i64 = 1_000_000_000;
const NOW: Time = Time::from_secs(100_000);

/// Reconciles a story and prints the result. Lines: `job KEY=VALUE..`, `group NAME KEY=VALUE..`,
/// `alloc NUMBERS KEY=VALUE..`, `deployment KEY=VALUE..`, `state GROUP KEY=VALUE..` (of another group of the
/// deployment); times are seconds from now.
pub(crate) fn reconcile(story: &str) -> String {
    let mut world = World::default();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        world.line(line);
    }
    world.tell()
}

#[derive(Default)]
struct World {
    job: Job,
    gone: bool,
    allocs: Vec<Allocation>,
    /// Update of each allocation, for the reconciler's `update_of`.
    changes: BTreeMap<AllocId, &'static str>,
    /// Labels of the replacements that allocations name.
    next: Vec<(AllocId, String)>,
    labels: BTreeMap<String, AllocId>,
    tainted: Tainted,
    /// Whether a server is too old for clients that disconnect.
    old_server: bool,
    deployment: Option<Deployment>,
}

struct Words<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Words<'a> {
    fn of(words: impl Iterator<Item = &'a str>) -> Self {
        Self(words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect())
    }

    fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).copied()
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.text(key).map(|text| text.parse().unwrap_or_else(|_| panic!("{key}={text} is no number")))
    }

    fn secs(&self, key: &str) -> Option<Dur> {
        self.number(key).map(|secs| Dur(secs * SECOND))
    }
}

impl World {
    fn line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        match words.next().unwrap() {
            "job" => self.job(&Words::of(words)),
            "group" => {
                let name = words.next().unwrap();
                let group = self.group(name, &Words::of(words));
                self.job.task_groups.get_or_insert_default().push(group);
            }
            "alloc" => {
                let numbers = words.next().unwrap();
                let words = Words::of(words);
                let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
                for index in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                    for _ in 0..words.number("copies").unwrap_or(1) {
                        self.alloc(index, &words);
                    }
                }
            }
            "deployment" => self.deployment(&Words::of(words)),
            "state" => {
                let name = words.next().unwrap().into();
                let groups = self.deployment.as_mut().unwrap().task_groups.get_or_insert_default();
                groups.insert(name, deployment_state(&Words::of(words)));
            }
            other => panic!("unknown line {other}"),
        }
    }

    fn job(&mut self, words: &Words<'_>) {
        self.gone = words.has("gone");
        self.old_server = words.has("old_server");
        self.job = Job {
            id: "j".into(),
            namespace: "default".into(),
            stop: words.has("stopped"),
            kind: if words.has("batch") { JobType::Batch } else { JobType::Service },
            version: words.number("version").unwrap_or(0) as u64,
            create_index: words.number("created").unwrap_or(10) as u64,
            parent_id: words.text("parent").unwrap_or_default().into(),
            dispatched: words.has("dispatched"),
            parameterized_job: words.has("dispatched").then(ParameterizedJobConfig::default),
            multiregion: words.has("multiregion").then(|| Multiregion {
                regions: Some(vec![MultiregionRegion { name: "global".into(), ..MultiregionRegion::default() }]),
                strategy: None,
            }),
            ..Job::default()
        };
        let group = self.group(words.text("group").unwrap_or("web"), words);
        self.job.task_groups = Some(vec![group]);
    }

    fn group(&self, name: &str, words: &Words<'_>) -> TaskGroup {
        let canary = words.number("canary").unwrap_or(0);
        let update = words.number("parallel").map(|max_parallel| UpdateStrategy {
            max_parallel,
            canary,
            ..UpdateStrategy::default()
        });
        TaskGroup {
            name: name.into(),
            count: words.number("count").unwrap_or(10),
            update,
            reschedule_policy: Some(ReschedulePolicy {
                attempts: words.number("attempts").unwrap_or(2),
                interval: Dur(600 * SECOND),
                delay: words.secs("delay").unwrap_or(Dur(5 * SECOND)),
                delay_function: "constant".into(),
                unlimited: words.has("unlimited"),
                ..ReschedulePolicy::default()
            }),
            max_client_disconnect: words.secs("disconnect"),
            stop_after_client_disconnect: words.secs("stop_after"),
            ..TaskGroup::default()
        }
    }

    fn alloc(&mut self, index: u64, words: &Words<'_>) {
        let number = self.allocs.len() as u8 + 1;
        let id = AllocId::from_bytes([number; 16]);
        let node_id = NodeId::from_bytes([number; 16]);
        if let Some(label) = words.text("as") {
            self.labels.insert(format!("{label}{index}"), id);
        }
        if let Some(label) = words.text("next") {
            self.next.push((id, format!("{label}{index}")));
        }
        let mut job = self.job.clone();
        job.stop = false;
        job.version = words.number("version").map_or(job.version, |version| version as u64);
        job.create_index = words.number("created").map_or(job.create_index, |index| index as u64);
        let group = words.text("group").unwrap_or("web");
        if job.group(group).is_none() {
            job.task_groups = Some(vec![self.group(group, words)]);
        }
        let state = |text: &str| {
            let (value, at) = text.split_once('@').unwrap_or((text, "-60"));
            let time = NOW.plus(Dur(at.parse::<i64>().unwrap() * SECOND));
            AllocState { field: AllocStateField::ClientStatus, value: value.into(), time }
        };
        let client = words.text("client").unwrap_or("running");
        let mut alloc = Allocation {
            id,
            namespace: "default".into(),
            name: format!("j.{group}[{index}]").into(),
            node_id: Some(node_id),
            job_id: "j".into(),
            job: Some(Arc::new(job)),
            task_group: group.into(),
            client_status: AllocClientStatus::from_word(client).unwrap(),
            desired_status: AllocDesiredStatus::from_word(words.text("desired").unwrap_or("run")).unwrap(),
            alloc_states: words.text("states").map(|states| states.split(',').map(state).collect()),
            create_index: u64::from(number),
            modify_time: Time::from_nanos(1),
            ..Allocation::default()
        };
        let transition = &mut alloc.desired_transition;
        transition.migrate = words.has("migrate").then_some(true);
        transition.reschedule = words.has("reschedule").then_some(true);
        transition.force_reschedule = words.has("force").then_some(true);
        if let Some(at) = words.number("ended") {
            let failed = client == "failed";
            let finished_at = Some(NOW.plus(Dur(at * SECOND)));
            let task = TaskState { state: TaskRunState::Dead, failed, finished_at, ..TaskState::default() };
            alloc.task_states = Some(Arc::new([("t".into(), task)].into()));
        }
        if let Some(events) = words.number("events") {
            let event = RescheduleEvent {
                reschedule_time: NOW.plus(Dur(-100 * SECOND)),
                delay: Dur(5 * SECOND),
                ..RescheduleEvent::default()
            };
            alloc.reschedule_tracker = Some(Arc::new(RescheduleTracker { events: Some(vec![event; events as usize]) }));
        }
        if let Some(followup) = words.text("followup") {
            alloc.followup_eval_id = Some(if followup == "this" { eval().id } else { EvalId::from_bytes([8; 16]) });
        }
        if let Some(norm_score) = words.text("score").map(|score| score.parse().unwrap()) {
            let meta = NodeScoreMeta { norm_score, ..NodeScoreMeta::default() };
            alloc.metrics = Some(Arc::new(AllocMetric { score_meta_data: Some(vec![meta]), ..AllocMetric::default() }));
        }
        if let Some(health) = words.text("deployed") {
            alloc.deployment_id = Some(deployment_id());
            let healthy = match health {
                "healthy" => Some(true),
                "unhealthy" => Some(false),
                _ => None,
            };
            let canary = words.has("canary");
            alloc.deployment_status =
                Some(Arc::new(AllocDeploymentStatus { healthy, canary, ..AllocDeploymentStatus::default() }));
        }
        let change = match words.text("change") {
            Some("old") => "old",
            Some("inplace") => "inplace",
            _ => "same",
        };
        self.changes.insert(id, change);
        self.taint(node_id, words.text("node").unwrap_or("ready"));
        self.allocs.push(alloc);
    }

    fn taint(&mut self, id: NodeId, how: &str) {
        let node = |status| Some(Arc::new(Node { id, status, ..Node::default() }));
        let tainted = match how {
            "ready" => return,
            "gone" => None,
            "down" => node(NodeStatus::Down),
            "disconnected" => node(NodeStatus::Disconnected),
            "drain" => {
                let drain_strategy = Some(DrainStrategy::default());
                Some(Arc::new(Node { id, status: NodeStatus::Ready, drain_strategy, ..Node::default() }))
            }
            other => panic!("unknown node {other}"),
        };
        self.tainted.insert(id, tainted);
    }

    fn deployment(&mut self, words: &Words<'_>) {
        let with_groups = !words.has("bare");
        self.deployment = Some(Deployment {
            id: deployment_id(),
            job_id: "j".into(),
            job_version: words.number("version").map_or(self.job.version, |version| version as u64),
            job_create_index: self.job.create_index,
            status: DeploymentStatus::from_word(words.text("status").unwrap_or("running")).unwrap(),
            task_groups: Some(if with_groups {
                [("web".into(), deployment_state(words))].into()
            } else {
                BTreeMap::new()
            }),
            ..Deployment::default()
        });
    }

    fn tell(mut self) -> String {
        for (id, label) in &self.next {
            let next = *self.labels.get(label).unwrap_or_else(|| panic!("no alloc {label}"));
            for alloc in self.allocs.iter_mut().filter(|alloc| alloc.id == *id) {
                alloc.next_allocation = Some(next);
            }
        }
        for (name, state) in
            self.deployment.iter_mut().flat_map(|deployment| deployment.task_groups.iter_mut().flatten())
        {
            let canaries = self.allocs.iter().filter(|alloc| alloc.is_canary() && alloc.task_group == *name);
            state.placed_canaries = Some(canaries.map(|alloc| alloc.id).collect());
        }
        let job = Arc::new(self.job);
        let eval = eval();
        let changes = &self.changes;
        let mut update_of = |alloc: &Arc<Allocation>, _: &TaskGroup| match changes[&alloc.id] {
            "old" => Update::Destructive,
            "inplace" => Update::InPlace(Box::new((**alloc).clone())),
            _ => Update::Ignore,
        };
        let reconciler = Reconciler {
            job: (!self.gone).then_some(&job),
            eval: &eval,
            batch: job.kind == JobType::Batch,
            deployment: self.deployment.as_ref(),
            allocs: self.allocs.into_iter().map(Arc::new).collect(),
            tainted: &self.tainted,
            disconnects: !self.old_server,
            now: NOW,
        };
        told(&reconciler.run(&mut update_of, &mut Seed::new(1)))
    }
}

fn deployment_state(words: &Words<'_>) -> DeploymentState {
    DeploymentState {
        desired_total: words.number("total").unwrap_or(10),
        healthy_allocs: words.number("healthy").unwrap_or(0),
        desired_canaries: words.number("canaries").unwrap_or(0),
        promoted: words.has("promoted"),
        ..DeploymentState::default()
    }
}

fn eval() -> Evaluation {
    Evaluation {
        id: EvalId::from_bytes([9; 16]),
        namespace: "default".into(),
        job_id: "j".into(),
        priority: 50,
        ..Evaluation::default()
    }
}

fn deployment_id() -> DeploymentId {
    DeploymentId::from_bytes([7; 16])
}

fn told(found: &Reconciled) -> String {
    let mut lines = Lines::default();
    for placement in &found.place {
        let how = match (&placement.previous, placement.rescheduling, placement.lost) {
            (None, ..) if placement.canary => "place canary",
            (Some(_), true, _) => "place again",
            (Some(_), false, true) => "place after lost",
            (Some(_), false, false) => "place after migrating",
            (None, ..) => "place",
        };
        lines.add(how, &placement.group, &placement.name);
        stops_with(placement, &mut lines);
    }
    for placement in &found.destructive {
        lines.add("replace", &placement.group, &placement.name);
    }
    for alloc in &found.in_place {
        lines.add("change in place", &alloc.task_group, &alloc.name);
    }
    for stop in &found.stop {
        let said = stop.client_status.map_or(String::new(), |status| format!(" as {status}"));
        lines.add(&format!("stop{said}, {}", stop.description), &stop.alloc.task_group, &stop.alloc.name);
    }
    let rows = [
        ("later", &found.attribute_updates),
        ("unknown", &found.disconnect_updates),
        ("back", &found.reconnect_updates),
    ];
    for (how, alloc) in rows.iter().flat_map(|(how, rows)| rows.values().map(move |alloc| (how, alloc))) {
        let eval = found.followups.iter().find(|eval| alloc.followup_eval_id == Some(eval.id));
        let waits = eval.map_or(String::new(), |eval| format!(" until {}", eval.triggered_by));
        let last = alloc.alloc_states.iter().flatten().next_back().filter(|_| *how == "back");
        let waits = last.map_or(waits, |state| format!(" as {}", state.value));
        lines.add(&format!("{how}{waits}"), &alloc.task_group, &alloc.name);
    }
    let mut text = lines.text();
    for eval in &found.followups {
        let in_secs = eval.wait_until.unwrap().since(NOW).0 as f64 / SECOND as f64;
        writeln!(text, "look again in {in_secs}s: {}", eval.triggered_by).unwrap();
    }
    if let Some(deployment) = &found.deployment {
        let groups: Vec<String> = deployment
            .task_groups
            .iter()
            .flatten()
            .map(|(name, state)| match state.desired_canaries {
                0 => format!("{name} {}", state.desired_total),
                canaries => format!("{name} {} after {canaries} canaries", state.desired_total),
            })
            .collect();
        let by_hand = deployment.status_description.contains("requires manual promotion");
        let promotion = if by_hand { "; promotion by hand" } else { "" };
        writeln!(text, "deployment {}: {}{promotion}", deployment.status, groups.join(", ")).unwrap();
    }
    for update in &found.deployment_updates {
        writeln!(text, "deployment becomes {}: {}", update.status, update.status_description).unwrap();
    }
    for (group, desired) in &found.desired {
        let counts = [
            ("ignore", desired.ignore),
            ("place", desired.place),
            ("canary", desired.canary),
            ("migrate", desired.migrate),
            ("stop", desired.stop),
            ("in place", desired.in_place_update),
            ("destructive", desired.destructive_update),
        ];
        let counts: Vec<String> =
            counts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {n}")).collect();
        writeln!(text, "{group}: {}", if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") })
            .unwrap();
    }
    text
}

fn stops_with(placement: &Placement, lines: &mut Lines) {
    if let (Some(previous), Some(why)) = (&placement.previous, placement.stop_previous) {
        lines.add(&format!("then stop, {why}"), &previous.task_group, &previous.name);
    }
}

/// Numbers of names per kind of line, in the order in which the kinds came up.
#[derive(Default)]
struct Lines(Vec<(String, Vec<u64>)>);

impl Lines {
    fn add(&mut self, how: &str, group: &Str, name: &Str) {
        let key = if group == "web" { how.to_owned() } else { format!("{how} ({group})") };
        let number = name.rsplit_once('[').unwrap().1.trim_end_matches(']').parse().unwrap();
        match self.0.iter_mut().find(|(other, _)| *other == key) {
            Some((_, numbers)) => numbers.push(number),
            None => self.0.push((key, vec![number])),
        }
    }

    fn text(mut self) -> String {
        let mut text = String::new();
        for (how, numbers) in &mut self.0 {
            numbers.sort_unstable();
            let found = numbers.len();
            numbers.dedup();
            let copies = if found > numbers.len() { format!(" ({found} of them)") } else { String::new() };
            let mut ranges: Vec<(u64, u64)> = Vec::new();
            for number in numbers.iter() {
                match ranges.last_mut() {
                    Some((_, last)) if *last + 1 == *number => *last = *number,
                    _ => ranges.push((*number, *number)),
                }
            }
            let ranges: Vec<String> = ranges
                .iter()
                .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
                .collect();
            writeln!(text, "{how}: {}{copies}", ranges.join(" ")).unwrap();
        }
        text
    }
}
