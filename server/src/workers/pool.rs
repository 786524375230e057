//! The set of workers, the job types they process, and their current activity. Their work is in [`super`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;
use songline_api::{SCHEDULERS, SchedulerPool, SchedulerWorker};
use songline_model::{JobType, Time};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
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
    /// The leader rests some of its workers, and a server without a leader rests all of them.
    Paused,
    /// The leader did not answer.
    BackingOff,
}

const WORDS: [(Doing, &str); 6] = [
    (Doing::Waiting, "WaitingToDequeue"),
    (Doing::WaitingForView, "WaitingForRaft"),
    (Doing::Scheduling, "Scheduling"),
    (Doing::Submitting, "Submitting"),
    (Doing::Paused, "Paused"),
    (Doing::BackingOff, "Backoff"),
];

/// One worker.
pub(crate) struct Worker {
    id: Uuid,
    started: Time,
    /// Position in its pool, from 0.
    number: usize,
    pub types: Vec<JobType>,
    doing: AtomicU8,
    stopping: CancellationToken,
}

impl Worker {
    /// Records the worker's current activity.
    pub(crate) fn does(&self, doing: Doing) {
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    /// Whether the worker ends when it has no evaluation in hand.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Returns when the worker is to end.
    pub(crate) fn stopping(&self) -> WaitForCancellationFuture<'_> {
        self.stopping.cancelled()
    }
}

/// The workers of a server.
pub(crate) struct Pool {
    inner: Mutex<Inner>,
    /// Index that a worker's view did not reach in time: no worker takes an evaluation before.
    behind: AtomicU64,
}

struct Inner {
    count: usize,
    enabled: Vec<&'static str>,
    workers: Vec<Arc<Worker>>,
}

impl Default for Pool {
    fn default() -> Self {
        let inner = Mutex::new(Inner { count: 0, enabled: SCHEDULERS.to_vec(), workers: Vec::new() });
        Self { inner, behind: AtomicU64::new(0) }
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
        let mut inner = self.inner.lock();
        for worker in &inner.workers {
            worker.stopping.cancel();
        }
        inner.count = count;
        if let Some(enabled) = enabled {
            inner.enabled = enabled;
        }
        let types: Vec<JobType> = inner.enabled.iter().filter_map(|name| type_named(name)).collect();
        let worker = |number| Worker {
            id: fresh(),
            started: now,
            number,
            types: types.clone(),
            doing: AtomicU8::new(Doing::Waiting as u8),
            stopping: CancellationToken::new(),
        };
        let new: Vec<Arc<Worker>> = (0..count.min(WORKERS_MAX)).map(|number| Arc::new(worker(number))).collect();
        inner.workers.extend(new.iter().cloned());
        new
    }

    /// Removes a worker that has ended.
    pub(crate) fn forget(&self, worker: &Arc<Worker>) {
        self.inner.lock().workers.retain(|other| !Arc::ptr_eq(other, worker));
    }

    /// Whether the worker rests while this server leads others: three quarters of the workers do, so that the leader has
    /// time for its heartbeats and for the plans of all servers. A single worker never rests.
    pub(crate) fn rests_on_leader(&self, worker: &Worker) -> bool {
        let count = self.inner.lock().count.min(WORKERS_MAX);
        count > 1 && worker.number < count * 3 / 4
    }

    /// Notes that a worker's view did not reach an index in time.
    pub(crate) fn fell_behind(&self, index: u64) {
        self.behind.fetch_max(index, Ordering::Relaxed);
    }

    /// Index that this server must have before its workers take evaluations of another leader.
    pub(crate) fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// The pool's current state for the API.
    pub(crate) fn shown(&self) -> SchedulerPool {
        let inner = self.inner.lock();
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
pub(crate) fn type_named(name: &str) -> Option<JobType> {
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
    fn three_quarters_of_a_leaders_workers_rest_and_never_the_only_one() {
        let resting = |count: usize| {
            let pool = Pool::default();
            let workers = pool.replace(count, None, Time::default(), Uuid::new_v4);
            workers.iter().filter(|worker| pool.rests_on_leader(worker)).count()
        };
        assert_eq!([1, 2, 3, 4, 8, 63].map(resting), [0, 1, 2, 3, 6, 47]);
    }

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
