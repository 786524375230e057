//! Support of the allocation tests: groups described in a line of text, and a shell that only prints its effects.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use expect_test::Expect;
use songline_model::{
    AllocDesiredStatus, AllocatedResources, AllocatedTaskResources, Allocation, Blob, CheckRestart, DesiredTransition,
    Dur, Job, JobType, RestartPolicy, Str, Task, TaskGroup, TaskLifecycleConfig, TaskRunState, TaskState, Time,
};

use crate::core::event;
use crate::core::{
    AllocRunner, AllocRunnerConfig, CheckMode, CheckOutcome, CheckPlan, CheckRequest, CheckVerdict, Effect, ExitResult,
    Input, LocalState, Reaction, StartFailure, TaskRecord, Unsignalled, Workload, signalled,
};

/// Runs a script and compares its output.
pub fn check(alloc: Allocation, story: &str, expected: Expect) {
    expected.assert_eq(&told(alloc, story));
}

/// Output of a script.
pub fn told(alloc: Allocation, story: &str) -> String {
    let mut stage = Stage::new(alloc);
    let mut said = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let answer = stage.play(line);
        let _ = writeln!(said, "{line}: {answer}");
    }
    said
}

/// A group described as `NAME` or `NAME:HOOK`, with `leader`, `sidecar` or a shutdown delay after a slash.
pub fn group(kind: JobType, tasks: &str) -> Allocation {
    let tasks: Vec<Task> = tasks.split_whitespace().map(task).collect();
    let resources = tasks.iter().map(|task| (task.name.clone(), AllocatedTaskResources::default())).collect();
    let policy = RestartPolicy {
        attempts: 2,
        interval: Dur::from_mins(30),
        delay: Dur::ZERO,
        mode: "fail".into(),
        render_templates: false,
    };
    let group =
        TaskGroup { name: "group".into(), tasks: Some(tasks), restart_policy: Some(policy), ..TaskGroup::default() };
    Allocation {
        name: "job.group[0]".into(),
        task_group: "group".into(),
        job: Some(Arc::new(Job { kind, task_groups: Some(vec![group]), ..Job::default() })),
        allocated_resources: Some(Arc::new(AllocatedResources {
            tasks: Some(resources),
            ..AllocatedResources::default()
        })),
        alloc_modify_index: 10,
        ..Allocation::default()
    }
}

/// Changes the group of an allocation.
pub fn with_group(mut alloc: Allocation, change: impl FnOnce(&mut TaskGroup)) -> Allocation {
    let job = Arc::make_mut(alloc.job.as_mut().expect("has a job"));
    change(&mut job.task_groups.as_mut().expect("has groups")[0]);
    alloc
}

fn task(text: &str) -> Task {
    let mut words = text.split('/');
    let (name, hook) = words.next().map(|word| word.split_once(':').unwrap_or((word, ""))).unwrap_or_default();
    let mut task = Task { name: name.into(), kill_timeout: Dur::from_secs(5), ..Task::default() };
    if !hook.is_empty() {
        task.lifecycle = Some(TaskLifecycleConfig { hook: hook.into(), sidecar: false });
    }
    for word in words {
        match (word, &mut task.lifecycle) {
            ("leader", _) => task.leader = true,
            ("sidecar", Some(lifecycle)) => lifecycle.sidecar = true,
            (delay, _) => task.shutdown_delay = Dur::from_secs(delay.parse().expect("seconds")),
        }
    }
    task
}

struct Stage {
    machine: AllocRunner,
    now: Time,
    runs: BTreeMap<Str, u64>,
    /// Newest run of each check.
    checks: BTreeMap<Str, u64>,
}

impl Stage {
    fn new(alloc: Allocation) -> Self {
        let now = Time::from_secs(1000);
        let config = AllocRunnerConfig { kill_timeout_max: Dur::from_secs(30), seed: 1 };
        let machine = AllocRunner::new(Arc::new(alloc), config, now).expect("a sound allocation");
        Self { machine, now, runs: BTreeMap::new(), checks: BTreeMap::new() }
    }

    fn play(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let now = self.now;
        let mut unsignalled = Unsignalled::new();
        let outcome = match words.as_slice() {
            ["start"] => Ok(self.machine.start(now)),
            ["restore", records @ ..] => {
                Ok(self.machine.restore(records.iter().map(|text| record(text)).collect(), None, BTreeMap::new(), now))
            }
            ["restart", "running"] => self.machine.restart_tasks(false, "please", now),
            ["restart", "all"] => self.machine.restart_tasks(true, "please", now),
            ["restart", task] => self.machine.restart_task(task, "please", now),
            ["signal", task, signal] => {
                let task = if *task == "all" { "" } else { *task };
                self.machine.signal(task, signal, now).map(|(effects, others)| {
                    unsignalled = others;
                    effects
                })
            }
            ["reconnect"] => {
                let update = Allocation { alloc_modify_index: 99, ..Allocation::clone(self.machine.alloc()) };
                Ok(self.machine.reconnect(&update, now))
            }
            ["wait", secs] => {
                self.now = now.plus(Dur::from_millis((secs.parse::<f64>().expect("seconds") * 1000.0) as i64));
                Ok(self.machine.on(Input::Tick, self.now))
            }
            ["events", task] => return self.events(task),
            ["states"] => return self.states(),
            ["results"] => return self.results(),
            ["update"] => return self.update(),
            _ => Ok(self.machine.on(self.input(&words), now)),
        };
        match outcome {
            Ok(effects) => match signalled("", unsignalled) {
                Ok(()) => self.show(&effects),
                Err(error) => format!("{}, error {error:?}", self.show(&effects)),
            },
            Err(error) => format!("error {error:?}"),
        }
    }

    fn input(&self, words: &[&str]) -> Input {
        let run = |task: &str| self.machine.task_run(task).unwrap_or(0);
        let failure = |words: &[&str], recoverable| StartFailure { error: words.join(" ").into(), recoverable };
        match words {
            ["set-up"] => Input::SetUp(Ok(())),
            ["set-up", error @ ..] => Input::SetUp(Err(error.join(" ").into())),
            ["ready", task] => Input::TaskSetUp { task: (*task).into(), outcome: Ok(()) },
            ["unready", task, error @ ..] => {
                Input::TaskSetUp { task: (*task).into(), outcome: Err(failure(error, false)) }
            }
            ["started", task] => Input::Started { task: (*task).into(), run: run(task), outcome: Ok(Blob::default()) },
            ["unstarted", task, error @ ..] => {
                Input::Started { task: (*task).into(), run: run(task), outcome: Err(failure(error, true)) }
            }
            ["exit", task, code] => {
                let exit = ExitResult::code(code.parse().expect("a code"));
                Input::Exited { task: (*task).into(), run: run(task), exit }
            }
            ["found", task] => Input::Recovered { task: (*task).into(), found: Ok(Some(Blob::default())) },
            ["missing", task] => Input::Recovered { task: (*task).into(), found: Ok(None) },
            ["lost", task] => Input::Recovered { task: (*task).into(), found: Err("gone".into()) },
            ["fail", task, reason @ ..] => {
                let event = event::killing_because(self.now, &reason.join(" "));
                Input::TaskFailed { task: (*task).into(), event: Box::new(event) }
            }
            ["changed", task, words @ ..] => Input::TemplatesChanged {
                task: (*task).into(),
                restart: words.contains(&"restart"),
                signals: words.iter().filter(|word| word.starts_with("SIG")).map(|word| (*word).into()).collect(),
            },
            ["vault", task, word] => Input::VaultTokenChanged {
                task: (*task).into(),
                reaction: if *word == "restart" { Reaction::Restart } else { Reaction::Signal((*word).into()) },
            },
            ["contact"] => Input::ServersContacted,
            ["plan", checks @ ..] => Input::ChecksPlanned(checks.iter().map(|text| check_plan(text)).collect()),
            ["checked", name, outcome] => {
                let verdict = match *outcome {
                    "passed" => CheckVerdict::Passed,
                    "warned" => CheckVerdict::Warned,
                    "missing" => CheckVerdict::Missing,
                    _ => CheckVerdict::Failed,
                };
                let outcome = CheckOutcome { verdict, code: None, output: (*outcome).into() };
                Input::Checked { check: (*name).into(), run: self.checks.get(*name).copied().unwrap_or(0), outcome }
            }
            ["destroy"] => Input::Destroy,
            ["update-copy"] => {
                let mut alloc = Allocation::clone(self.machine.alloc());
                alloc.alloc_modify_index += 1;
                Input::Update(Arc::new(alloc))
            }
            ["stop", rest @ ..] => {
                let mut alloc = Allocation::clone(self.machine.alloc());
                alloc.desired_status = AllocDesiredStatus::Stop;
                alloc.alloc_modify_index += 1;
                if *rest == ["now"] {
                    alloc.desired_transition =
                        DesiredTransition { no_shutdown_delay: Some(true), ..DesiredTransition::default() };
                }
                Input::Update(Arc::new(alloc))
            }
            other => panic!("no such line: {other:?}"),
        }
    }

    fn show(&mut self, effects: &[Effect]) -> String {
        let mut shown = Vec::new();
        for effect in effects {
            shown.push(match effect {
                // Every change is persisted; the scripts show the other effects.
                Effect::Persist { sync: false, .. }
                | Effect::PersistHealth
                | Effect::Report
                | Effect::ShowChecks { .. }
                | Effect::TaskDone { .. } => continue,
                Effect::Persist { sync: true, .. } => "sync".to_owned(),
                Effect::SetUp => "set up".to_owned(),
                Effect::AbortSetUp => "abort set-up".to_owned(),
                Effect::RecoverTask { task, run, .. } => format!("recover {task}#{run}"),
                Effect::SetUpTask { task } => format!("prepare {task}"),
                Effect::StartTask { task, run } => {
                    self.runs.insert(task.clone(), *run);
                    format!("start {task}#{run}")
                }
                Effect::KillTask { task, run, timeout, .. } => format!("kill {task}#{run} in {timeout}"),
                Effect::SignalTask { task, signal, .. } => format!("signal {task} {signal}"),
                Effect::DestroyTask { task, run } => format!("clear {task}#{run}"),
                Effect::Announce { of, .. } => format!("announce {}", owner(of)),
                Effect::Withdraw { of } => format!("withdraw {}", owner(of)),
                Effect::PlanChecks => "plan checks".to_owned(),
                Effect::RunCheck { run, plan } => {
                    self.checks.insert(plan.name.clone(), *run);
                    format!("check {}", plan.name)
                }
                Effect::TearDown => "tear down".to_owned(),
                Effect::AbortTaskSetUp { task } => format!("abort set-up of {task}"),
                Effect::Destroy => "destroy".to_owned(),
            });
        }
        let (status, _) = self.machine.status();
        format!("[{}] {status}", shown.join(", "))
    }

    fn events(&self, task: &str) -> String {
        let states = self.machine.task_states();
        let shown = states[task]
            .events
            .iter()
            .flatten()
            .map(|event| format!("\n    {}: {}", event.kind, event.display_message));
        shown.collect()
    }

    fn states(&self) -> String {
        let shown = self.machine.task_states().into_iter().map(|(name, state)| {
            let failed = if state.failed { " failed" } else { "" };
            format!("{name} {}{failed}", state.state)
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn results(&self) -> String {
        let shown = self.machine.check_results().into_values();
        shown.map(|row| format!("{} {} {}", row.check, row.mode, row.status)).collect::<Vec<_>>().join(", ")
    }

    fn update(&self) -> String {
        let update = self.machine.update();
        let health = update.deployment_status.map(|status| (status.healthy, status.canary));
        format!(
            "{} {:?} {health:?} index {}",
            update.client_status,
            update.client_description.as_str(),
            self.machine.alloc().alloc_modify_index
        )
    }
}

/// `NAME[/TASK]` with an interval of 2 s, then `/limit=N` for a `check_restart` with 3 s of grace, or `/ignore`.
fn check_plan(text: &str) -> CheckPlan {
    let mut words = text.split('/');
    let name = words.next().unwrap_or_default();
    let mut plan = CheckPlan {
        id: name.into(),
        of: Workload::Group,
        group: "job.group[0]".into(),
        service: "service".into(),
        name: name.into(),
        mode: CheckMode::Healthiness,
        interval: Dur::from_secs(2),
        timeout: Dur::from_secs(1),
        restart: None,
        request: CheckRequest::Tcp { address: ":1".into() },
    };
    for word in words {
        match word.split_once('=') {
            Some((_, limit)) => {
                let limit = limit.parse().expect("a limit");
                plan.restart = Some(CheckRestart { limit, grace: Dur::from_secs(3), ignore_warnings: false });
            }
            None if word == "ignore" => plan.mode = CheckMode::Readiness,
            None if word == "ignore_warnings" => plan.mode = CheckMode::WithoutWarnings,
            None if word == "consul" => plan.request = CheckRequest::AtConsul,
            None => plan.of = Workload::Task(word.into()),
        }
    }
    plan
}

fn owner(of: &Workload) -> &str {
    match of {
        Workload::Group => "the group",
        Workload::Task(name) => name,
    }
}

/// `NAME=STATE[#RUN][+handle][+complete]`
fn record(text: &str) -> (Str, TaskRecord) {
    let (name, rest) = text.split_once('=').expect("NAME=STATE");
    let mut words = rest.split('+');
    let (state, run) = words.next().map(|word| word.split_once('#').unwrap_or((word, "0"))).unwrap_or_default();
    let mut record = TaskRecord {
        state: TaskState { state: TaskRunState::from_word(state).expect("a state"), ..TaskState::default() },
        local: LocalState { run: run.parse().expect("a run"), ..LocalState::default() },
    };
    for word in words {
        match word {
            "handle" => record.local.handle = Some(Blob::default()),
            "complete" => record.local.run_complete = true,
            other => panic!("no such word: {other}"),
        }
    }
    (name.into(), record)
}
