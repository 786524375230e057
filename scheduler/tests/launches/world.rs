//! One periodic job, its tables, and the machine of the present leader.

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_commands::{Actor, Command, DeregisterJob, Envelope, RegisterJob, UpdateEvals};
use songline_model::{Dur, EvalId, EvalStatus, Evaluation, Job, JobKey, JobType, PeriodicConfig, PeriodicLaunch, Time};
use songline_projections::{State, apply};
use songline_scheduler::leader::periodic::{Launch, Periodic, entry};

/// Midnight UTC of the first day, 1 May 2024.
const BEGIN: Time = Time::from_secs(1_714_521_600);
/// By how much a new leader's clock may be behind.
const BEHIND: Dur = Dur::from_secs(90);
/// Schedules between which a change of the job switches.
const SPECS: [&str; 2] = ["* * * * *", "*/2 * * * *"];

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// 40 s pass, and the leader looks.
    Tick,
    /// Three minutes pass before the leader looks.
    Pause,
    /// The oldest open launch is written, and the leader learns of it.
    Write,
    /// The oldest open launch is written, and the leader is gone before it learns of it.
    WriteUnheard,
    /// Another server leads.
    Leader,
    /// Another server leads, and its clock is behind.
    LeaderBehind,
    /// The job is registered with its other schedule.
    Change,
    /// The job is stopped, or registered again.
    Stop,
    /// The children's evaluations end.
    ChildrenEnd,
}

impl Step {
    pub(crate) const LEADERS: &[Step] =
        &[Step::Tick, Step::Pause, Step::Write, Step::WriteUnheard, Step::Leader, Step::LeaderBehind];
    pub(crate) const ALL: &[Step] = &[
        Step::Tick,
        Step::Pause,
        Step::Write,
        Step::WriteUnheard,
        Step::Leader,
        Step::LeaderBehind,
        Step::Change,
        Step::Stop,
    ];
    pub(crate) const OVERLAP: &[Step] =
        &[Step::Tick, Step::Pause, Step::Write, Step::WriteUnheard, Step::Leader, Step::ChildrenEnd];
}

/// A cluster with one periodic job.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) machine: Periodic,
    pub(crate) now: Time,
    /// Launches that are decided and not written.
    pub(crate) open: Vec<Launch>,
    /// Times that were launched, in the order of their entries.
    pub(crate) launched: Vec<Time>,
    /// Time since which the present leader has followed the job's present schedule.
    pub(crate) since: Time,
    /// The latest time that the present leader has to make up for.
    pub(crate) missed: Option<Time>,
    /// A rule that a step broke.
    pub(crate) broken: Option<String>,
    pub(crate) prohibits_overlap: bool,
    spec: usize,
    evals: u64,
}

impl World {
    /// A job that is launched every minute.
    pub(crate) fn new(prohibits_overlap: bool) -> Self {
        let mut world = Self {
            state: State::new(),
            machine: Periodic::new(),
            now: BEGIN,
            open: Vec::new(),
            launched: Vec::new(),
            since: BEGIN,
            missed: None,
            broken: None,
            prohibits_overlap,
            spec: 0,
            evals: 0,
        };
        world.register();
        world
    }

    /// Makes a step. False: it is not possible now.
    pub(crate) fn make(&mut self, step: Step) -> bool {
        match step {
            Step::Tick => self.pass(Dur::from_secs(40)),
            Step::Pause => self.pass(Dur::from_secs(180)),
            Step::Write | Step::WriteUnheard if self.open.is_empty() => return false,
            Step::Write => {
                let launch = self.open.remove(0);
                self.write(&launch);
                self.machine.on_over(&launch.parent.key(), launch.at);
            }
            Step::WriteUnheard => {
                let launch = self.open.remove(0);
                self.write(&launch);
                self.lead();
            }
            Step::Leader => self.lead(),
            Step::LeaderBehind => {
                self.now = self.now.plus(Dur(-BEHIND.nanos()));
                self.lead();
            }
            Step::Change => {
                self.spec = 1 - self.spec;
                self.register();
                self.drop_outdated();
            }
            Step::Stop if self.is_active() => {
                self.commit(DeregisterJob { job: key(), versions_max: 6, ..DeregisterJob::default() });
                self.drop_outdated();
            }
            Step::Stop => {
                self.register();
                self.drop_outdated();
            }
            Step::ChildrenEnd => return self.end_children(),
        }
        true
    }

    /// The job, if it is launched.
    pub(crate) fn is_active(&self) -> bool {
        self.job().is_some_and(|job| job.is_periodic_active())
    }

    pub(crate) fn job(&self) -> Option<&Arc<Job>> {
        self.state.job_by_key(&key())
    }

    /// Time of the last launch, by the tables.
    pub(crate) fn last(&self) -> Time {
        self.state.periodic_launch("default", "p").map_or(Time::default(), |row| row.launch)
    }

    fn pass(&mut self, span: Dur) {
        self.now = self.now.plus(span);
        self.look();
    }

    /// The leader looks at its machine.
    pub(crate) fn look(&mut self) {
        let launches = self.machine.on_time(&self.state, self.now);
        self.open.extend(launches);
    }

    fn lead(&mut self) {
        self.open.clear();
        self.machine = Periodic::new();
        self.machine.restore(&self.state, self.now);
        (self.since, self.missed) = (self.now, None);
        if let Some(job) = self.job().filter(|job| job.is_periodic_active()) {
            let after = self.last().max(job.submit_time);
            let schedule = crate::rest::schedule(job);
            self.missed = schedule.latest(after, self.now);
            // A leader whose clock is behind goes on after the last launch.
            self.since = self.since.max(after);
        }
        self.look();
    }

    fn register(&mut self) {
        let periodic = PeriodicConfig {
            enabled: true,
            spec: SPECS[self.spec].into(),
            spec_type: "cron".into(),
            prohibit_overlap: self.prohibits_overlap,
            ..PeriodicConfig::default()
        };
        let job = Job {
            id: "p".into(),
            namespace: "default".into(),
            kind: JobType::Batch,
            submit_time: self.now,
            periodic: Some(periodic),
            ..Job::default()
        };
        self.commit(RegisterJob { job: Arc::new(job), versions_max: 6, ..RegisterJob::default() });
        (self.since, self.missed) = (self.now.max(self.last()), None);
    }

    /// The outbox ends launches that were decided for an older registration.
    fn drop_outdated(&mut self) {
        for launch in std::mem::take(&mut self.open) {
            self.machine.on_over(&launch.parent.key(), launch.at);
        }
    }

    fn write(&mut self, launch: &Launch) {
        self.evals += 1;
        let (_, command) = entry(launch, eval_id(self.evals), self.now, 6);
        if !self.commit(command) {
            return;
        }
        let last = self.launched.last().copied();
        if launch.at > self.now {
            self.broken = Some(format!("{} is launched at {}", launch.at.secs(), self.now.secs()));
        } else if last.is_some_and(|last| last >= launch.at) {
            self.broken = Some(format!("{} is launched after {last:?}", launch.at.secs()));
        } else if self.prohibits_overlap && self.running().len() > 1 {
            self.broken = Some(format!("children overlap: {:?}", self.running()));
        }
        self.launched.push(launch.at);
    }

    fn running(&self) -> BTreeSet<String> {
        let open = self.state.evals().filter(|eval| !eval.status.is_terminal());
        open.map(|eval| eval.job_id.to_string()).collect()
    }

    /// Lets all children end. False: none runs.
    pub(crate) fn end_children(&mut self) -> bool {
        let open = self.state.evals().filter(|eval| !eval.status.is_terminal());
        let ended = |eval: Arc<Evaluation>| Evaluation { status: EvalStatus::Complete, ..Evaluation::clone(&eval) };
        let evals: Vec<Evaluation> = open.map(ended).collect();
        !evals.is_empty() && self.commit(UpdateEvals { evals })
    }

    fn commit(&mut self, command: impl Into<Command>) -> bool {
        let index = self.state.raft_index() + 1;
        let applied = apply(&mut self.state, index, &Envelope::new(self.now, Actor::Anonymous, command));
        self.machine.on_changes(&self.state, &applied.changes);
        applied.result.is_ok()
    }

    /// Number of children, by the tables.
    pub(crate) fn children(&self) -> usize {
        self.state.jobs_with_prefix("default", &PeriodicLaunch::child_prefix("p")).count()
    }
}

fn key() -> JobKey {
    JobKey::new("default", "p")
}

fn eval_id(n: u64) -> EvalId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    EvalId::from_bytes(bytes)
}
