//! Launches periodic jobs: registers a child of the job at each of its launch times.
//!
//! The last launch of a job is a row of the tables, so that a new leader goes on after it. An operator's forced launch
//! is an API call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_commands::{Cause, Command, Kind, RegisterJob};
use songline_lang::schedule::Schedule;
use songline_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, Job, JobKey, PeriodicLaunch, Time};
use songline_projections::{Change, State};

use super::outbox::Deed;

/// A launch to be proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The periodic job.
    pub parent: Arc<Job>,
    /// The launch time, which names the child. It may have passed a while ago.
    pub at: Time,
}

/// The enabled periodic jobs with their next launches.
#[derive(Debug, Clone, Default)]
pub struct Periodic {
    jobs: BTreeMap<JobKey, Tracked>,
    /// Next launches of the jobs that have no launch under way.
    queue: BTreeSet<(Time, JobKey)>,
}

/// A job that is launched at its times.
#[derive(Debug, Clone)]
struct Tracked {
    schedule: Schedule,
    /// Launches up to this time were made or skipped.
    after: Time,
    /// The next launch; `None`: the schedule has no further time.
    next: Option<Time>,
    /// Whether a launch is decided and not yet over. The next one has to see its child.
    under_way: bool,
}

impl Periodic {
    /// A launcher without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes up all periodic jobs after their last launches. A new leader calls this. Of the launches of a job that no
    /// leader made, only the latest one is made up for.
    pub fn restore(&mut self, view: &State, now: Time) {
        *self = Self::default();
        for job in view.jobs().filter(|job| job.is_periodic_active()) {
            self.track(view, job);
            let key = job.key();
            let Some(tracked) = self.jobs.get(&key) else { continue };
            if let Some(missed) = tracked.schedule.latest(tracked.after, now) {
                self.plan(&key, Some(missed));
            }
        }
    }

    /// Notes registrations, stops and purges of periodic jobs.
    pub fn on_changes(&mut self, view: &State, changes: &[Change]) {
        for change in changes {
            let Change::Job { before, after } = change else { continue };
            let spec = |job: &Option<Arc<Job>>| job.as_ref().map(|job| (job.create_index, job.job_modify_index));
            let is_periodic = |job: &Option<Arc<Job>>| job.as_ref().is_some_and(|job| job.is_periodic());
            if (is_periodic(before) || is_periodic(after))
                && spec(before) != spec(after)
                && let Some(job) = after.as_ref().or(before.as_ref())
            {
                match view.job_by_key(&job.key()).filter(|job| job.is_periodic_active()) {
                    Some(job) => self.track(view, job),
                    None => self.forget(&job.key()),
                }
            }
        }
    }

    /// Notes that the launch of a job for this time is written, refused or out of date, and plans the next one.
    pub fn on_over(&mut self, key: &JobKey, at: Time) {
        if let Some(tracked) = self.jobs.get_mut(key) {
            tracked.under_way = false;
            self.go_on_after(key, at);
        }
    }

    /// The next time at which [`Self::on_time`] has work; `None`: no launch is planned.
    pub fn next_deadline(&self) -> Option<Time> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// The launches that are due. Each has to end in [`Self::on_over`]. A job that prohibits overlap skips the launch
    /// while a child of it runs.
    pub fn on_time(&mut self, view: &State, now: Time) -> Vec<Launch> {
        let mut launches = Vec::new();
        while let Some((at, key)) = self.queue.first().filter(|(at, _)| *at <= now).cloned() {
            self.queue.pop_first();
            let Some(parent) = view.job_by_key(&key).filter(|job| job.is_periodic_active()) else {
                self.jobs.remove(&key);
                continue;
            };
            let prohibits = parent.periodic.as_ref().is_some_and(|periodic| periodic.prohibit_overlap);
            if prohibits && has_running_child(view, parent) {
                self.go_on_after(&key, at);
                continue;
            }
            if let Some(tracked) = self.jobs.get_mut(&key) {
                tracked.under_way = true;
                launches.push(Launch { parent: Arc::clone(parent), at });
            }
        }
        launches
    }

    /// Plans the next launch of a job after its last one. A schedule counts from the registration that brought it: the
    /// launches that it would have had before are not made.
    fn track(&mut self, view: &State, job: &Job) {
        let Some(periodic) = &job.periodic else { return };
        let key = job.key();
        let launched = view.periodic_launch(&job.namespace, &job.id).map_or(Time::default(), |row| row.launch);
        let after = launched.max(job.submit_time);
        let under_way = self.jobs.get(&key).is_some_and(|tracked| tracked.under_way);
        self.forget(&key);
        let tracked = Tracked { schedule: Schedule::of(periodic), after, next: None, under_way };
        self.jobs.insert(key.clone(), tracked);
        self.go_on_after(&key, after);
    }

    fn go_on_after(&mut self, key: &JobKey, at: Time) {
        let Some(tracked) = self.jobs.get_mut(key) else { return };
        tracked.after = tracked.after.max(at);
        let next = tracked.schedule.next(tracked.after);
        self.plan(key, next);
    }

    fn plan(&mut self, key: &JobKey, next: Option<Time>) {
        let Some(tracked) = self.jobs.get_mut(key) else { return };
        if let Some(at) = std::mem::replace(&mut tracked.next, next) {
            self.queue.remove(&(at, key.clone()));
        }
        if let Some(at) = next.filter(|_| !tracked.under_way) {
            self.queue.insert((at, key.clone()));
        }
    }

    fn forget(&mut self, key: &JobKey) {
        self.plan(key, None);
        self.jobs.remove(key);
    }
}

/// Whether a child of the job has an evaluation or an allocation that is not terminal.
fn has_running_child(view: &State, parent: &Job) -> bool {
    let prefix = PeriodicLaunch::child_prefix(&parent.id);
    let mut children = view.jobs_with_prefix(&parent.namespace, &prefix).filter(|job| job.parent_id == parent.id);
    children.any(|child| {
        view.evals_of_job(&child.namespace, &child.id).any(|eval| !eval.status.is_terminal())
            || view.allocs_of_job(&child.namespace, &child.id).any(|alloc| !alloc.terminal())
    })
}

/// The entry that registers the child of a launch, and its cause. `eval` is the id of the child's evaluation. The entry
/// is refused when the child exists, so that no launch happens twice.
pub fn entry(launch: &Launch, eval: EvalId, now: Time, job_versions_max: u64) -> (Cause, RegisterJob) {
    let child = launch.parent.periodic_child(launch.at, now);
    let eval = Evaluation {
        id: eval,
        namespace: child.namespace.clone(),
        priority: child.priority,
        kind: child.kind.clone(),
        triggered_by: EvalTrigger::PeriodicJob,
        job_id: child.id.clone(),
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    };
    let command = RegisterJob {
        job: Arc::new(child),
        eval: Some(eval),
        enforce_index: true,
        job_modify_index: 0,
        versions_max: job_versions_max,
        ..RegisterJob::default()
    };
    (Cause::new(launch.parent.job_modify_index, Kind::JobRegister), command)
}

/// The job and the launch time of an effect that launches one.
pub(super) fn launched(deed: &Deed) -> Option<(JobKey, Time)> {
    let Deed::Write { command, .. } = deed else { return None };
    let Command::JobRegister(RegisterJob { job: child, .. }) = &**command else { return None };
    let at = PeriodicLaunch::launch_of(&child.parent_id, &child.id)?;
    Some((JobKey::new(child.namespace.clone(), child.parent_id.clone()), at))
}

#[cfg(test)]
mod tests;
