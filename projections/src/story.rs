//! Stories for tests: one command per line, with short names. The output has results, changes, and the rows that the
//! story shows.
//!
//! The name of a node, alloc, eval or deployment is the bytes of its id, so that output is readable. Every line except
//! a `show` is one entry, one second after the previous one.

mod csi;
mod event_sink;
mod plan;
mod quota;
mod secrets;
mod services;
mod show;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use songline_commands::*;
use songline_model::*;

use crate::{Applied, Change, Outcome, State, apply};

mod acl;
mod summary;

use plan::{client, plan};
pub(crate) use show::show_change;
use show::{show_alloc, show_deployment, show_job, show_node};
use summary::{nonzero, show_summary};

/// Runs a story on a fresh state and compares its output.
pub(crate) fn check(story: &str, expected: expect_test::Expect) {
    let teller = Teller::tells(story);
    crate::check::consistent(&teller.state);
    expected.assert_eq(&teller.told);
}

/// The state at the end of a story.
pub(crate) fn state_after(story: &str) -> State {
    Teller::tells(story).state
}

pub(crate) fn id(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

pub(crate) fn name(id: &[u8; 16]) -> String {
    String::from_utf8_lossy(id).trim_end_matches('\0').to_owned()
}

pub(crate) fn job_key(id: &str) -> JobKey {
    match id.split_once('/') {
        Some((namespace, id)) => JobKey::new(namespace, id),
        None => JobKey::new(DEFAULT_NAMESPACE, id),
    }
}

#[derive(Default)]
struct Teller {
    state: State,
    told: String,
    key: Option<Idempotency>,
}

/// The words of a line: plain words in order, and `name=value` pairs.
struct Words<'a> {
    plain: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn new(line: &'a str) -> Self {
        let (named, plain): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(|word| word.contains('='));
        Self { plain, named: named.into_iter().filter_map(|word| word.split_once('=')).collect() }
    }

    fn has(&self, word: &str) -> bool {
        self.plain.contains(&word)
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.named.get(name).copied()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name).map(|text| text.parse().expect("a number"))
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.get(name).into_iter().flat_map(|list| list.split(','))
    }
}

impl Teller {
    fn tells(story: &str) -> Self {
        let mut teller = Self::default();
        story.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| teller.line(line));
        teller
    }

    fn line(&mut self, line: &str) {
        let words = Words::new(line);
        if words.plain[0] == "show" {
            let row = self.show(words.plain[1], words.plain.get(2).copied().unwrap_or_default());
            writeln!(self.told, "   {row}").expect("writes");
            return;
        }
        let forwarded = words.get("passed").is_some();
        let body_hash = id(words.get("body").unwrap_or_default());
        self.key =
            words.get("key").or(words.get("passed")).map(|key| Idempotency { key: key.into(), body_hash, forwarded });
        let command = command(&words);
        let raft_index = self.state.raft_index() + 1;
        // The first entry has index 2, to distinguish its rows from built-in rows.
        let raft_index = raft_index.max(2);
        let at = Time::from_secs(words.number("at").unwrap_or(raft_index).cast_signed());
        let mut envelope = Envelope::new(at, Actor::Anonymous, command);
        envelope.idempotency = self.key.take();
        let before = self.state.clone();
        let applied = apply(&mut self.state, raft_index, &envelope);
        if applied.changes.is_empty() {
            assert_eq!(before.digest(), self.state.digest(), "{line}: what has no change changed nothing");
        }
        let told = tell(&applied);
        writeln!(self.told, "{line}: {told}").expect("writes");
    }

    fn show(&self, noun: &str, what: &str) -> String {
        let state = &self.state;
        let gone = || format!("{noun} {what}: none");
        match noun {
            "node" => state.node(NodeId::from_bytes(id(what))).map_or_else(gone, |row| show_node(row)),
            "job" => {
                let key = job_key(what);
                state.job_by_key(&key).map_or_else(gone, |row| show_job(row))
            }
            "version" => {
                let (job, version) = what.rsplit_once('.').expect("job.version");
                let key = job_key(job);
                let version = version.parse().expect("a version is a number");
                state.job_version(&key.namespace, &key.id, version).map_or_else(gone, |row| show_job(row))
            }
            "versions" => {
                let key = job_key(what);
                let versions = state.job_versions(&key.namespace, &key.id);
                versions
                    .iter()
                    .map(|row| format!("{}{}", row.version, if row.stable { "*" } else { "" }))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            "sources" => {
                let key = job_key(what);
                let source = |version| {
                    state
                        .job_submission(&key.namespace, &key.id, version)
                        .map(|row| format!("{version}:{}", row.source))
                };
                (0..20).filter_map(source).collect::<Vec<_>>().join(" ")
            }
            "summary" => {
                let key = job_key(what);
                state.job_summary(&key.namespace, &key.id).map_or_else(gone, |row| show_summary(row))
            }
            "eval" => state.eval(EvalId::from_bytes(id(what))).map_or_else(gone, |row| {
                format!(
                    "eval {what}: {} {:?} create={} modify={}",
                    row.status, row.status_description, row.create_index, row.modify_index
                )
            }),
            "alloc" => state.alloc(AllocId::from_bytes(id(what))).map_or_else(gone, |row| show_alloc(row)),
            "deployment" => {
                state.deployment(DeploymentId::from_bytes(id(what))).map_or_else(gone, |row| show_deployment(row))
            }
            "volume" | "plugin" => csi::show(state, noun, what),
            "policies" | "scalings" | "services" => services::show(state, noun, what),
            "config" => state.scheduler_config().map_or_else(gone, |row| {
                format!("config: {} create={} modify={}", row.scheduler_algorithm, row.create_index, row.modify_index)
            }),
            "work" => state.work(WorkId(what.parse().expect("an index"))).map_or_else(gone, |row| {
                let ended = row.ended.as_ref().map_or("under way".to_owned(), |ended| match ended.refused.as_str() {
                    "" => format!("ended at {}", ended.index),
                    why => format!("ended at {}: {why}", ended.index),
                });
                format!("work {what}: {} of {} looked at, {} deleted, {ended}", row.looked, row.total, row.deleted)
            }),
            "evals" => state
                .evals()
                .map(|row| name(row.id.as_bytes()))
                .fold("evals:".to_owned(), |told, name| told + " " + &name),
            "var" | "quota" | "roots" => secrets::show(state, noun, what),
            "usage" => quota::show(state, what),
            "sink" => event_sink::show(state, what),
            "tables" => {
                let index = |table: &crate::Table| format!("{}={}", table.name(), state.table_index(*table));
                crate::Table::ALL
                    .iter()
                    .filter(|table| state.table_index(**table) > 1)
                    .map(index)
                    .fold("changed:".to_owned(), |told, index| told + " " + &index)
            }
            other => acl::show(state, other, what),
        }
    }
}

fn tell(applied: &Applied) -> String {
    let mut told = match &applied.result {
        Ok(Outcome::Done) => "ok".to_owned(),
        Ok(outcome @ (Outcome::VariableWritten(_) | Outcome::VariableConflict(_))) => secrets::tell(outcome),
        Ok(other) => format!("{other:?}"),
        Err(rejected) => format!("refused: {rejected}"),
    };
    if applied.repeated {
        write!(told, " (as at {})", applied.index).expect("writes");
    }
    let changes: Vec<String> = applied.changes.iter().map(show_change).collect();
    if !changes.is_empty() {
        write!(told, " [{}]", changes.join(" ")).expect("writes");
    }
    told
}

fn command(words: &Words<'_>) -> Command {
    let what = words.plain.get(2).copied().unwrap_or_default();
    match (words.plain[0], words.plain.get(1).copied().unwrap_or_default()) {
        ("namespace", "upsert") => {
            let quota = words.get("quota").unwrap_or_default().into();
            UpsertNamespaces { namespaces: vec![Namespace { name: what.into(), quota, ..Namespace::default() }] }.into()
        }
        ("namespace", "delete") => {
            DeleteNamespaces { names: words.plain[2..].iter().map(NamespaceName::from).collect() }.into()
        }
        ("pool", "upsert") => {
            UpsertNodePools { node_pools: vec![NodePool { name: what.into(), ..NodePool::default() }] }.into()
        }
        ("pool", "delete") => {
            DeleteNodePools { names: words.plain[2..].iter().map(NodePoolName::from).collect() }.into()
        }
        ("node", verb) => node_command(words, verb, what),
        ("job", verb) => job_command(words, verb, what),
        ("eval", "reap") => ReapEvals {
            evals: words.list("evals").map(|name| EvalId::from_bytes(id(name))).collect(),
            allocs: words.list("allocs").map(|name| AllocId::from_bytes(id(name))).collect(),
            user_initiated: words.has("by-hand"),
        }
        .into(),
        ("answer", body) => KeepAnswer { index: Some(0), body: body.into() }.into(),
        ("eval", "delete") => DeleteEvals { choice: eval_choice(words), slice: slice(words) }.into(),
        ("work", "continue") => {
            ContinueWork { work: WorkId(what.parse().expect("an index")), slice: slice(words) }.into()
        }
        ("work", "stop") => StopWork { work: WorkId(what.parse().expect("an index")) }.into(),
        ("eval", _) => UpdateEvals { evals: vec![eval(words)] }.into(),
        ("plan", _) => plan(words).into(),
        ("client", name_of) => client(words, name_of).into(),
        ("transition", name_of) => {
            let transition = DesiredTransition { migrate: Some(true), ..DesiredTransition::default() };
            SetDesiredTransitions { allocs: [(AllocId::from_bytes(id(name_of)), transition)].into(), evals: Vec::new() }
                .into()
        }
        ("deployment", "status") => UpdateDeploymentStatus {
            update: deployment_update(what, words.plain[3]),
            job: words.get("back-to").map(|job_id| Arc::new(job(words, job_id))),
            ..UpdateDeploymentStatus::default()
        }
        .into(),
        ("deployment", "health") => SetDeploymentAllocHealth {
            deployment_id: DeploymentId::from_bytes(id(what)),
            healthy: words.list("healthy").map(|name| AllocId::from_bytes(id(name))).collect(),
            unhealthy: words.list("unhealthy").map(|name| AllocId::from_bytes(id(name))).collect(),
            timestamp: Time::from_secs(100),
            update: words.has("failed").then(|| deployment_update(what, "failed")),
            ..SetDeploymentAllocHealth::default()
        }
        .into(),
        ("deployment", "delete") => {
            DeleteDeployments { ids: words.plain[2..].iter().map(|name| DeploymentId::from_bytes(id(name))).collect() }
                .into()
        }
        ("volume" | "plugin", _) => csi::command(words),
        ("deployment", "promote") => PromoteDeployment {
            deployment_id: DeploymentId::from_bytes(id(what)),
            all: words.get("groups").is_none(),
            groups: words.list("groups").map(Str::new).collect(),
            eval: words.get("eval").map(|name| Evaluation {
                id: EvalId::from_bytes(id(name)),
                job_id: "web".into(),
                ..Evaluation::default()
            }),
        }
        .into(),
        ("scaling", name_of) => AddScalingEvent {
            job: job_key(name_of),
            group: words.get("group").unwrap_or_default().into(),
            event: ScalingEvent {
                count: words.number("count").map(u64::cast_signed),
                message: words.get("message").unwrap_or_default().into(),
                ..ScalingEvent::default()
            },
        }
        .into(),
        ("service", verb) => services::command(words, verb, what),
        ("config", _) => SetSchedulerConfig {
            config: SchedulerConfiguration {
                pause_eval_broker: words.has("paused"),
                ..SchedulerConfiguration::default()
            },
            cas: words.number("cas"),
        }
        .into(),
        ("cluster", name_of) => {
            SetClusterMetadata { cluster_id: name_of.into(), create_time: Time::from_nanos(1) }.into()
        }
        ("reconcile", _) => ReconcileSummaries {
            queued: words.named.iter().map(|(job, groups)| (job_key(job), queued(groups))).collect(),
        }
        .into(),
        ("acl" | "autopilot", _) => acl::command(words),
        ("quota", _) => quota::command(words),
        ("sink", _) => event_sink::command(words),
        ("var" | "root", _) => secrets::command(words),
        (noun, verb) => panic!("no command {noun} {verb}"),
    }
}

fn node_command(words: &Words<'_>, verb: &str, what: &str) -> Command {
    let node_id = NodeId::from_bytes(id(what));
    let updated_at = UnixSecs(words.number("at").unwrap_or(7).cast_signed());
    let event = words.get("event").map(|message| NodeEvent { message: message.into(), ..NodeEvent::default() });
    match verb {
        "register" => RegisterNode {
            node: Node {
                id: node_id,
                name: what.into(),
                secret_id: Secret::new(words.get("secret").unwrap_or_default()),
                node_pool: words.get("pool").unwrap_or_default().into(),
                status: words.get("status").and_then(NodeStatus::from_word).unwrap_or_default(),
                ..csi::node(words)
            },
            create_node_pool: words.has("create-pool"),
        }
        .into(),
        "deregister" => {
            DeregisterNodes { node_ids: words.plain[2..].iter().map(|name| NodeId::from_bytes(id(name))).collect() }
                .into()
        }
        "status" => {
            let status = NodeStatus::from_word(words.plain[3]).expect("a node status");
            UpdateNodeStatus { node_id, status, event, updated_at }.into()
        }
        "drain" => UpdateNodeDrain {
            node_id,
            drain_strategy: (!words.has("off"))
                .then(|| DrainStrategy { deadline: Dur::from_hours(1), ..DrainStrategy::default() }),
            mark_eligible: words.has("mark-eligible"),
            event,
            updated_at,
            meta: words.get("meta").map(|text| [(Str::new("why"), Str::new(text))].into()),
            updated_by: words.get("by").unwrap_or_default().into(),
        }
        .into(),
        "drained" => FinishNodeDrains { node_ids: vec![node_id], event, updated_at }.into(),
        "eligible" | "ineligible" => {
            let eligibility = Eligibility::from_word(verb).expect("a word of it");
            UpdateNodeEligibility { node_id, eligibility, event, updated_at }.into()
        }
        "events" => {
            let events = (0..words.number("count").unwrap_or(1))
                .map(|n| NodeEvent { message: format!("e{n}").into(), ..NodeEvent::default() })
                .collect();
            AddNodeEvents { events: [(node_id, events)].into() }.into()
        }
        other => panic!("no command node {other}"),
    }
}

pub(crate) fn group(name: &str, count: i64) -> TaskGroup {
    TaskGroup { name: name.into(), count, ..TaskGroup::default() }
}

fn job(words: &Words<'_>, what: &str) -> Job {
    let key = job_key(what);
    let groups = words.list("groups").map(|text| text.split_once(':').unwrap_or((text, "1")));
    let policy = |name: &str| {
        let (_, max) = words.list("scale").filter_map(|text| text.split_once(':')).find(|(group, _)| *group == name)?;
        let target = [("Namespace", &*key.namespace), ("Job", &*key.id), ("Group", name)];
        Some(ScalingPolicy {
            id: format!("{}{name}", words.get("ids").unwrap_or("p-")).into(),
            kind: "horizontal".into(),
            target: Some(target.iter().map(|(name, value)| (Str::new(name), Str::new(value))).collect()),
            max: max.parse().expect("a count"),
            ..ScalingPolicy::default()
        })
    };
    let groups: Vec<TaskGroup> = groups
        .map(|(name, count)| TaskGroup {
            scaling: policy(name),
            ..csi::group(words, name, count.parse().expect("a count"))
        })
        .collect();
    Job {
        namespace: key.namespace,
        id: key.id,
        name: what.into(),
        kind: JobType::from(words.get("type").unwrap_or("service")),
        priority: 50,
        node_pool: words.get("pool").unwrap_or_default().into(),
        parent_id: words.get("parent").unwrap_or_default().into(),
        version: words.number("version").unwrap_or(0),
        stable: words.has("stable"),
        periodic: words.has("periodic").then(|| PeriodicConfig { enabled: true, ..PeriodicConfig::default() }),
        task_groups: Some(groups),
        ..Job::default()
    }
}

fn job_command(words: &Words<'_>, verb: &str, what: &str) -> Command {
    let key = job_key(what);
    let eval = words.get("eval").map(|name| Evaluation {
        id: EvalId::from_bytes(id(name)),
        namespace: key.namespace.clone(),
        job_id: key.id.clone(),
        ..Evaluation::default()
    });
    let versions_max = words.number("keep").unwrap_or(6);
    match verb {
        "register" => RegisterJob {
            job: Arc::new(job(words, what)),
            submission: words
                .get("source")
                .map(|source| JobSubmission { source: source.into(), ..JobSubmission::default() }),
            enforce_index: words.get("enforce").is_some(),
            job_modify_index: words.number("enforce").unwrap_or(0),
            preserve_counts: words.has("preserve"),
            eval,
            deployment: words.get("deployment").map(|name| deployment(words, name, &key)),
            versions_max,
        }
        .into(),
        "stop" | "purge" => DeregisterJob {
            job: key,
            purge: verb == "purge",
            no_shutdown_delay: words.has("no-shutdown-delay"),
            submit_time: Time::default(),
            eval,
            versions_max,
        }
        .into(),
        "stop-all" => DeregisterJobs {
            jobs: words.plain[2..].iter().map(|id| (job_key(id), false)).collect(),
            versions_max,
            ..DeregisterJobs::default()
        }
        .into(),
        "stable" => {
            SetJobStability { job: key, version: words.number("version").unwrap_or(0), stable: !words.has("not") }
                .into()
        }
        other => panic!("no command job {other}"),
    }
}

fn queued(groups: &str) -> BTreeMap<Str, i64> {
    let pairs = groups.split(',').filter_map(|group| group.split_once(':'));
    pairs.map(|(group, count)| (group.into(), count.parse().expect("a count"))).collect()
}

fn eval(words: &Words<'_>) -> Evaluation {
    let key = job_key(words.get("job").unwrap_or_default());
    Evaluation {
        id: EvalId::from_bytes(id(words.plain[1])),
        namespace: key.namespace,
        job_id: key.id,
        status: words.plain.get(2).and_then(|word| EvalStatus::from_word(word)).unwrap_or_default(),
        queued_allocations: words.get("queued").map(|text| Arc::new(queued(text))),
        failed_tg_allocs: words.has("unplaced").then(|| Arc::new([(Str::new("g"), AllocMetric::default())].into())),
        leader_acl: Secret::new("token"),
        modify_time: Time::from_nanos(5),
        ..Evaluation::default()
    }
}

fn deployment(words: &Words<'_>, name_of: &str, key: &JobKey) -> Deployment {
    let state = |words: &Words<'_>| DeploymentState {
        desired_total: 2,
        desired_canaries: words.number("canaries").unwrap_or(0).cast_signed(),
        progress_deadline: Dur::from_secs(words.number("deadline").unwrap_or(0).cast_signed()),
        ..DeploymentState::default()
    };
    Deployment {
        id: DeploymentId::from_bytes(id(name_of)),
        namespace: key.namespace.clone(),
        job_id: key.id.clone(),
        job_version: words.number("deploys").unwrap_or(0),
        task_groups: Some(
            words
                .list("groups")
                .map(|text| text.split(':').next().unwrap_or(text))
                .map(|name| (Str::new(name), state(words)))
                .collect(),
        ),
        ..Deployment::default()
    }
}

fn deployment_update(name_of: &str, status: &str) -> DeploymentStatusUpdate {
    DeploymentStatusUpdate {
        deployment_id: DeploymentId::from_bytes(id(name_of)),
        status: DeploymentStatus::from_word(status).expect("a deployment status"),
        status_description: format!("Deployment marked as {status}").into(),
    }
}

/// `status=blocked` selects the evaluations with that status, `evals=e1,e2` those with these ids.
fn eval_choice(words: &Words<'_>) -> EvalChoice {
    match words.get("status") {
        // Words of a story contain no spaces, so the filter is built from the status.
        Some(status) => EvalChoice::Filter(format!("Status == {status:?}").into()),
        None => EvalChoice::Ids(words.list("evals").map(|name| EvalId::from_bytes(id(name))).collect()),
    }
}

fn slice(words: &Words<'_>) -> Slice {
    let of_rows = Slice::of_rows(words.number("rows").unwrap_or(100) as u32);
    Slice { looks_max: words.number("looks").map_or(of_rows.looks_max, |looks| looks as u32), ..of_rows }
}
