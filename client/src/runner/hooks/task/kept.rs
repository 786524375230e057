//! Things that a hook keeps between its phases.

use parking_lot::Mutex;

/// A worker that lives as long as its task: dropping it ends it.
pub(super) struct Worker<W>(Mutex<State<W>>);

enum State<W> {
    None,
    Runs(W),
    /// The task is being stopped for good. A set-up that comes to its worker later must not wait for it.
    Aborted,
}

impl<W> Default for Worker<W> {
    fn default() -> Self {
        Self(Mutex::new(State::None))
    }
}

impl<W> Worker<W> {
    /// Looks at the worker, if it runs.
    pub fn of<T>(&self, look: impl FnOnce(&W) -> T) -> Option<T> {
        match &*self.0.lock() {
            State::Runs(worker) => Some(look(worker)),
            State::None | State::Aborted => None,
        }
    }

    /// Keeps a worker; ends it at once if the task is being stopped.
    pub fn put(&self, worker: W) {
        let mut state = self.0.lock();
        if !matches!(*state, State::Aborted) {
            *state = State::Runs(worker);
        }
    }

    /// Takes the worker out.
    pub fn take(&self) -> Option<W> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::None) {
            State::Runs(worker) => Some(worker),
            State::None => None,
            State::Aborted => {
                *state = State::Aborted;
                None
            }
        }
    }

    /// Takes the worker out, and ends every later one as soon as it is there. A set-up that waits for it goes on
    /// without it.
    pub fn abort(&self) -> Option<W> {
        match std::mem::replace(&mut *self.0.lock(), State::Aborted) {
            State::Runs(worker) => Some(worker),
            State::None | State::Aborted => None,
        }
    }
}

/// Something of one run. The process of a run that could not be stopped may end during a later run, and must not take
/// what is the later one's.
pub(super) struct OfRun<T>(Mutex<Option<(u64, T)>>);

impl<T> Default for OfRun<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> OfRun<T> {
    /// Whether there is something of this run.
    pub fn has(&self, run: u64) -> bool {
        self.0.lock().as_ref().is_some_and(|(of, _)| *of == run)
    }

    /// Keeps something; that of an earlier run is dropped.
    pub fn put(&self, run: u64, thing: T) {
        *self.0.lock() = Some((run, thing));
    }

    /// Takes the thing of this run out.
    pub fn take(&self, run: u64) -> Option<T> {
        self.0.lock().take_if(|(of, _)| *of == run).map(|(_, thing)| thing)
    }

    /// Drops the thing of any run.
    pub fn clear(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_end_of_a_lost_run_leaves_what_the_next_run_has() {
        let kept = OfRun::default();
        kept.put(1, "first");
        kept.put(2, "second");
        assert_eq!(kept.take(1), None);
        assert!(kept.has(2));
        assert_eq!(kept.take(2), Some("second"));
        assert_eq!(kept.take(2), None);
    }

    #[test]
    fn worker_of_an_aborted_task_ends_as_soon_as_it_is_there() {
        let kept = Worker::default();
        kept.put("first");
        assert_eq!(kept.of(|worker| *worker), Some("first"));
        assert_eq!(kept.abort(), Some("first"));
        kept.put("second");
        assert_eq!(kept.of(|worker| *worker), None);
        assert_eq!(kept.take(), None);
    }
}
