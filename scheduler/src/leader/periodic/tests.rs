//! Stories of launches, and one property: whatever the order of ticks and leader changes, each launch happens once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::{Actor, Command, DeregisterJob, Envelope, RegisterJob, UpdateEvals};
use songline_lang::schedule::Schedule;
use songline_model::{
    Dur, EvalId, EvalStatus, Evaluation, Job, JobKey, JobType, ParameterizedJobConfig, PeriodicConfig, PeriodicLaunch,
    Time,
};
use songline_projections::{State, apply};

use super::{Launch, Periodic, entry, launched};
use crate::leader::effects;
use crate::leader::outbox::Deed;
use crate::seed::Seed;

/// Midnight UTC of the stories' day, 1 May 2024.
const DAY: i64 = 1_714_521_600;

/// A cluster with its current leader.
struct Cluster {
    state: State,
    machine: Periodic,
    now: Time,
    evals: u64,
    told: String,
}

impl Cluster {
    fn new() -> Self {
        Self { state: State::new(), machine: Periodic::new(), now: secs(0), evals: 0, told: String::new() }
    }

    /// Commits a command and tells the leader. False when it is refused.
    fn commit(&mut self, command: impl Into<Command>) -> bool {
        let index = self.state.raft_index() + 1;
        let applied = apply(&mut self.state, index, &Envelope::new(self.now, Actor::Anonymous, command));
        self.machine.on_changes(&self.state, &applied.changes);
        applied.result.is_ok()
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["job", name, specs, ref options @ ..] => self.register(name, specs, options),
            ["at", time] => self.now = time_of(time),
            ["until", time] => self.until(time_of(time)),
            ["leader"] => self.new_leader(),
            ["force", name] => {
                let parent = self.state.job("default", name).expect("the job").clone();
                let child = Arc::new(parent.periodic_child(self.now, self.now));
                self.commit(RegisterJob { job: child, versions_max: 6, ..RegisterJob::default() });
            }
            ["stop", name] | ["purge", name] => {
                let (job, purge) = (JobKey::new("default", name), words[0] == "purge");
                self.commit(DeregisterJob { job, purge, versions_max: 6, ..DeregisterJob::default() });
            }
            ["children", "end"] => self.end_children(),
            ["show", name] => {
                let job = self.state.job("default", name).expect("the job");
                let summary = self.state.job_summary("default", name).and_then(|summary| summary.children.clone());
                let (pending, running, dead) =
                    summary.map_or((0, 0, 0), |children| (children.pending, children.running, children.dead));
                let launch = self.state.periodic_launch("default", name).expect("a launch").launch;
                let launch = shown(launch);
                writeln!(
                    self.told,
                    "{name} is {}, launched {launch}, children {pending} pending, {running} running, {dead} dead",
                    job.status
                )
                .expect("a string takes all");
            }
            _ => panic!("unknown line {line}"),
        }
    }

    fn register(&mut self, name: &str, specs: &str, options: &[&str]) {
        let zone = options.iter().find_map(|option| option.strip_prefix("zone=")).unwrap_or_default();
        let periodic = PeriodicConfig {
            enabled: !options.contains(&"disabled"),
            specs: Some(specs.split(';').map(|spec| spec.replace('_', " ").into()).collect()),
            spec_type: "cron".into(),
            prohibit_overlap: options.contains(&"alone"),
            time_zone: zone.into(),
            ..PeriodicConfig::default()
        };
        let job = Job {
            id: name.into(),
            namespace: "default".into(),
            kind: JobType::Batch,
            submit_time: self.now,
            periodic: Some(periodic),
            parameterized_job: options.contains(&"parameterized").then(ParameterizedJobConfig::default),
            ..Job::default()
        };
        self.commit(RegisterJob { job: Arc::new(job), versions_max: 6, ..RegisterJob::default() });
    }

    fn new_leader(&mut self) {
        self.machine = Periodic::new();
        self.machine.restore(&self.state, self.now);
    }

    /// Lets time pass, with a tick at each deadline.
    fn until(&mut self, end: Time) {
        while let Some(at) = self.machine.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            for launch in self.machine.on_time(&self.state, self.now) {
                let done = self.carry_out(&launch);
                let how = if done { "" } else { ", refused" };
                let late = if self.now == launch.at { String::new() } else { format!(" at {}", shown(self.now)) };
                writeln!(self.told, "launch {} {}{late}{how}", launch.parent.id, shown(launch.at))
                    .expect("a string takes all");
                self.machine.on_over(&launch.parent.key(), launch.at);
            }
        }
        self.now = end;
    }

    fn carry_out(&mut self, launch: &Launch) -> bool {
        self.evals += 1;
        let (_, command) = entry(launch, eval_id(self.evals), self.now, 6);
        self.commit(command)
    }

    fn end_children(&mut self) {
        let open: Vec<Evaluation> = self
            .state
            .evals()
            .filter(|eval| !eval.status.is_terminal())
            .map(|eval| Evaluation { status: EvalStatus::Complete, ..Evaluation::clone(&eval) })
            .collect();
        self.commit(UpdateEvals { evals: open });
    }
}

fn eval_id(n: u64) -> EvalId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    EvalId::from_bytes(bytes)
}

fn secs(of_day: i64) -> Time {
    Time::from_secs(DAY + of_day)
}

/// `12:05:30` of the stories' day; `+1.12:05:30` is on the day after.
fn time_of(text: &str) -> Time {
    let (days, time) = match text.strip_prefix('+').and_then(|text| text.split_once('.')) {
        Some((days, time)) => (days.parse::<i64>().expect("days"), time),
        None => (0, text),
    };
    let of_day = time.split(':').fold(0, |sum, part| sum * 60 + part.parse::<i64>().expect("a number"));
    secs(days * 86_400 + of_day)
}

fn shown(at: Time) -> String {
    let of_day = at.secs() - DAY;
    let (days, rest) = (of_day.div_euclid(86_400), of_day.rem_euclid(86_400));
    let day = if days == 0 { String::new() } else { format!("+{days}.") };
    format!("{day}{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[track_caller]
fn check(story: &str, expected: Expect) {
    let mut cluster = Cluster::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        cluster.line(line);
    }
    expected.assert_eq(&cluster.told);
}

#[test]
fn job_is_launched_at_its_times() {
    check(
        "at 12:00:30
         job a */5_*_*_*_*
         job b 0_13_*_*_*;30_12_*_*_*
         show a
         until 13:05:00
         show a
         children end
         show a",
        expect![[r#"
            a is running, launched 12:00:30, children 0 pending, 0 running, 0 dead
            launch a 12:05:00
            launch a 12:10:00
            launch a 12:15:00
            launch a 12:20:00
            launch a 12:25:00
            launch a 12:30:00
            launch b 12:30:00
            launch a 12:35:00
            launch a 12:40:00
            launch a 12:45:00
            launch a 12:50:00
            launch a 12:55:00
            launch a 13:00:00
            launch b 13:00:00
            launch a 13:05:00
            a is running, launched 13:05:00, children 13 pending, 0 running, 0 dead
            a is running, launched 13:05:00, children 0 pending, 0 running, 13 dead
        "#]],
    );
}

#[test]
fn local_time_that_is_skipped_or_repeated_is_launched_at_most_once() {
    // Berlin sets its clocks back on 27 October 2024 (+179) and forward on 30 March 2025 (+333).
    check(
        "at +178.12:00:00
         job a 30_2_*_*_* zone=Europe/Berlin
         until +181.00:00:00
         at +332.12:00:00
         leader
         until +335.00:00:00",
        expect![[r#"
            launch a +179.00:30:00
            launch a +180.01:30:00
            launch a +332.01:30:00 at +332.12:00:00
            launch a +334.00:30:00
        "#]],
    );
}

#[test]
fn launch_is_skipped_while_a_child_of_a_job_without_overlap_runs() {
    check(
        "at 12:00:30
         job a */5_*_*_*_* alone
         until 12:16:00
         children end
         until 12:21:00
         force a
         until 12:26:00
         show a",
        expect![[r#"
            launch a 12:05:00
            launch a 12:20:00
            a is running, launched 12:21:00, children 2 pending, 0 running, 1 dead
        "#]],
    );
}

#[test]
fn new_leader_makes_up_for_the_latest_missed_launch_only() {
    check(
        "at 12:00:30
         job a */5_*_*_*_*
         job b */5_*_*_*_* alone
         until 12:06:00
         at 12:31:00
         leader
         until 12:36:00
         leader
         until 12:36:30",
        expect![[r#"
            launch a 12:05:00
            launch b 12:05:00
            launch a 12:30:00 at 12:31:00
            launch a 12:35:00
        "#]],
    );
}

#[test]
fn new_leader_makes_up_for_a_launch_without_overlap_when_no_child_runs() {
    check(
        "at 12:00:30
         job a */5_*_*_*_* alone
         until 12:06:00
         children end
         at 12:31:00
         leader
         until 12:31:00",
        expect![[r#"
            launch a 12:05:00
            launch a 12:30:00 at 12:31:00
        "#]],
    );
}

#[test]
fn leader_that_is_late_makes_every_launch() {
    check(
        "at 12:00:30
         job a *_*_*_*_*
         at 12:03:10
         until 12:03:10",
        expect![[r#"
            launch a 12:01:00 at 12:03:10
            launch a 12:02:00 at 12:03:10
            launch a 12:03:00 at 12:03:10
        "#]],
    );
}

#[test]
fn stopped_purged_disabled_and_parameterized_jobs_are_not_launched() {
    check(
        "at 12:00:30
         job a *_*_*_*_*
         job b *_*_*_*_*
         job c *_*_*_*_* disabled
         job d *_*_*_*_* parameterized
         until 12:01:30
         stop a
         purge b
         until 12:03:30
         leader
         until 12:04:30",
        expect![[r#"
            launch a 12:01:00
            launch b 12:01:00
        "#]],
    );
}

#[test]
fn new_schedule_counts_from_its_registration() {
    check(
        "at 12:00:30
         job a 0_*_*_*_*
         until 13:00:30
         at 13:30:30
         job a *_*_*_*_*
         leader
         until 13:32:00
         job a *_*_*_*_* disabled
         until 14:00:30
         job a 0_*_*_*_*
         leader
         until 15:00:30",
        expect![[r#"
            launch a 13:00:00
            launch a 13:31:00
            launch a 13:32:00
            launch a 15:00:00
        "#]],
    );
}

#[test]
fn launch_forced_in_the_same_second_takes_the_place_of_the_due_one() {
    check(
        "at 12:00:30
         job a *_*_*_*_*
         at 12:01:00
         force a
         until 12:02:00
         show a",
        expect![[r#"
            launch a 12:01:00, refused
            launch a 12:02:00
            a is running, launched 12:02:00, children 2 pending, 0 running, 0 dead
        "#]],
    );
}

#[test]
fn launch_is_out_of_date_when_the_job_is_stopped() {
    let mut cluster = Cluster::new();
    cluster.register("a", "*_*_*_*_*", &[]);
    cluster.now = secs(60);
    let launches = cluster.machine.on_time(&cluster.state, cluster.now);
    let [launch] = &launches[..] else { panic!("{launches:?}") };
    let effect = effects::launch(&cluster.state, launch, eval_id(1), cluster.now, 6);
    assert!(matches!(&effect.deed, Deed::Write { .. }));
    assert_eq!(launched(&effect.deed), Some((launch.parent.key(), launch.at)));
    let mut outbox = crate::leader::outbox::Outbox::new();
    outbox.decide(effect, "key".into(), cluster.now);
    cluster.line("stop a");
    let due = outbox.on_time(&cluster.state, cluster.now, |_| false);
    assert!(due.attempts.is_empty() && due.over.len() == 1, "{due:?}");
}

/// Number of ticks in a random run.
const STEPS: u32 = 40;

/// A launch that was written: its time, and when the leader that decided it began.
struct Written {
    at: Time,
    leader_since: Time,
}

/// Ticks at random times. Launches are written, refused by a lost term, or written by a leader that then does not learn
/// of it; leaders change at random. Returns the launches and the end of the run.
fn run_at_random(seed: u64, specs: &str) -> (Vec<Written>, Time) {
    let mut dice = Seed::new(seed);
    let mut roll = move |sides: u64| dice.number() % sides;
    let mut cluster = Cluster::new();
    cluster.register("a", specs, &[]);
    let mut leader_since = cluster.now;
    let mut written = Vec::new();
    let mut open: Vec<Launch> = Vec::new();
    for step in 0..STEPS {
        cluster.now = cluster.now.plus(Dur::from_millis(roll(120_000) as i64));
        let ends = step == STEPS - 1;
        if ends || roll(6) == 0 {
            open.clear();
            leader_since = cluster.now;
            cluster.new_leader();
        }
        open.extend(cluster.machine.on_time(&cluster.state, cluster.now));
        while let Some(launch) = open.pop() {
            match roll(if ends { 2 } else { 5 }) {
                // It is tried again later.
                4 => {
                    open.push(launch);
                    break;
                }
                how => {
                    assert!(cluster.carry_out(&launch), "seed {seed}: {:?} happens twice", launch.at);
                    written.push(Written { at: launch.at, leader_since });
                    // The leader may be gone before it learns that the launch is written.
                    if how == 3 {
                        leader_since = cluster.now;
                        cluster.new_leader();
                    } else {
                        cluster.machine.on_over(&launch.parent.key(), launch.at);
                    }
                    open.extend(cluster.machine.on_time(&cluster.state, cluster.now));
                }
            }
        }
    }
    (written, cluster.now)
}

#[test]
fn each_due_launch_happens_once_in_any_order_of_ticks_and_leader_changes() {
    for seed in 0..60 {
        let specs = ["*_*_*_*_*", "*/2_*_*_*_*;*/3_*_*_*_*", "*/20_*_*_*_*_*_*"][seed as usize % 3];
        let (written, end) = run_at_random(seed, specs);
        let mut launches: BTreeMap<Time, usize> = BTreeMap::new();
        written.iter().for_each(|launch| *launches.entry(launch.at).or_default() += 1);
        assert!(launches.values().all(|count| *count == 1), "seed {seed}: {launches:?}");
        let schedule = Schedule::of(&PeriodicConfig {
            specs: Some(specs.split(';').map(|spec| spec.replace('_', " ").into()).collect()),
            spec_type: "cron".into(),
            ..PeriodicConfig::default()
        });
        let mut last = secs(0);
        for Written { at, leader_since } in &written {
            let due = schedule.next(last).expect("a further launch");
            // Launches are left out only in favour of the latest one that was due when a leader began.
            let makes_up = schedule.latest(last, *leader_since) == Some(*at);
            assert!(*at == due || makes_up, "seed {seed}: {at:?} after {last:?}, leader since {leader_since:?}");
            last = *at;
        }
        assert!(schedule.next(last).is_none_or(|next| next > end), "seed {seed}: a launch is missing at the end");
        assert!(written.len() > 10, "seed {seed}: {} launches show little", written.len());
    }
}

#[test]
fn child_is_named_by_its_launch_time() {
    let parent = Job { id: "a/b".into(), ..Job::default() };
    let child = parent.periodic_child(secs(60), secs(65));
    assert_eq!(child.id, *"a/b/periodic-1714521660");
    assert_eq!(PeriodicLaunch::launch_of(&child.parent_id, &child.id), Some(secs(60)));
    assert_eq!(child.submit_time, secs(65));
}
