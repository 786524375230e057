//! The set of workers, the job types they process, and their current activity. Their work is in [`super`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::Mutex;
use songline_api::{SCHEDULERS, SchedulerPool, SchedulerWorker};
use songline_model::{JobType, Time};
use uuid::Uuid;

/// Largest number of workers that exist at once. A larger number that an operator asks for is shown, but each worker
/// is a thread, and more threads than processors schedule nothing faster.
const WORKERS_MAX: usize = 256;

/// Current activity of a worker, in the wire's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Waiting,
    WaitingForView,
    Scheduling,
    Submitting,
}

const WORDS: [(Doing, &str); 4] = [
    (Doing::Waiting, "WaitingToDequeue"),
    (Doing::WaitingForView, "WaitingForRaft"),
    (Doing::Scheduling, "Scheduling"),
    (Doing::Submitting, "Submitting"),
];

/// One worker.
pub(crate) struct Worker {
    id: Uuid,
    started: Time,
    pub types: Vec<JobType>,
    doing: AtomicU8,
    stopping: AtomicBool,
}

impl Worker {
    /// Records the worker's current activity.
    pub(crate) fn does(&self, doing: Doing) {
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    /// Whether the worker ends when it has no evaluation in hand.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// The workers of a server.
pub(crate) struct Pool(Mutex<Inner>);

struct Inner {
    count: usize,
    enabled: Vec<&'static str>,
    workers: Vec<Arc<Worker>>,
}

impl Default for Pool {
    fn default() -> Self {
        Self(Mutex::new(Inner { count: 0, enabled: SCHEDULERS.to_vec(), workers: Vec::new() }))
    }
}

impl Pool {
    /// Stops the current workers, and returns the new ones, which the caller has to start.
    pub(crate) fn replace(
        &self,
        count: usize,
        enabled: Option<Vec<&'static str>>,
        now: Time,
        fresh: impl Fn() -> Uuid,
    ) -> Vec<Arc<Worker>> {
        let mut inner = self.0.lock();
        for worker in &inner.workers {
            worker.stopping.store(true, Ordering::Relaxed);
        }
        inner.count = count;
        if let Some(enabled) = enabled {
            inner.enabled = enabled;
        }
        let types: Vec<JobType> = inner.enabled.iter().filter_map(|name| type_named(name)).collect();
        let worker = || Worker {
            id: fresh(),
            started: now,
            types: types.clone(),
            doing: AtomicU8::new(Doing::Waiting as u8),
            stopping: AtomicBool::new(false),
        };
        let new: Vec<Arc<Worker>> = (0..count.min(WORKERS_MAX)).map(|_| Arc::new(worker())).collect();
        inner.workers.extend(new.iter().cloned());
        new
    }

    /// Removes a worker that has ended.
    pub(crate) fn forget(&self, worker: &Arc<Worker>) {
        self.0.lock().workers.retain(|other| !Arc::ptr_eq(other, worker));
    }

    /// The pool's current state for the API.
    pub(crate) fn shown(&self) -> SchedulerPool {
        let inner = self.0.lock();
        let word =
            |doing: u8| WORDS.iter().find(|(known, _)| *known as u8 == doing).map_or("UnknownStatus", |(_, word)| word);
        let workers = inner.workers.iter().map(|worker| SchedulerWorker {
            id: worker.id,
            started: worker.started,
            stopping: worker.is_stopping(),
            doing: word(worker.doing.load(Ordering::Relaxed)),
        });
        SchedulerPool { workers: workers.collect(), count: inner.count, enabled: inner.enabled.clone() }
    }
}

/// Job type of a worker's type name; `None` for the servers' internal jobs.
fn type_named(name: &str) -> Option<JobType> {
    match name {
        "service" => Some(JobType::Service),
        "batch" => Some(JobType::Batch),
        "system" => Some(JobType::System),
        "sysbatch" => Some(JobType::SysBatch),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_scheduler_workers_stop_and_new_workers_start() {
        let pool = Pool::default();
        let first = pool.replace(2, None, Time::default(), Uuid::new_v4);
        assert_eq!(first[0].types.len(), 4);
        first[1].does(Doing::Scheduling);
        let second = pool.replace(1, Some(vec!["_core", "batch"]), Time::default(), Uuid::new_v4);
        assert_eq!(second[0].types, [JobType::Batch]);
        let shown: Vec<_> = pool.shown().workers.iter().map(|worker| (worker.stopping, worker.doing)).collect();
        assert_eq!(shown, [(true, "WaitingToDequeue"), (true, "Scheduling"), (false, "WaitingToDequeue")]);
        first.iter().for_each(|worker| pool.forget(worker));
        let pool = pool.shown();
        assert_eq!((pool.workers.len(), pool.count, pool.enabled), (1, 1, vec!["_core", "batch"]));
    }
}
