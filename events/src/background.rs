//! Priority of the threads that write stores derived from the log. These may lag behind, so they yield the processor
//! to threads that requests wait for.

use std::collections::BTreeSet;

use rustix::process::Pid;

/// Niceness: high enough to lose against every thread of the server, low enough that an idle machine does not starve
/// them.
const NICE: i32 = 10;

/// Prefix of the names of a store's threads.
const STORE_THREADS: &str = "fjall";

/// Lowers the priority of the calling thread and of threads that it starts later: on Linux each thread has its own
/// niceness and passes it on.
pub fn give_way() {
    lower(None);
}

/// Runs `open` and then lowers the priority of the worker threads that the store has started. Opening keeps the
/// caller's priority: on a busy machine a start would otherwise take ten times as long.
pub(crate) fn open<T>(open: impl FnOnce() -> T) -> T {
    let before = store_threads();
    let opened = open();
    for thread in store_threads().difference(&before) {
        lower(Pid::from_raw(*thread));
    }
    opened
}

/// Ids of this process's threads that belong to a store; empty when the system does not list threads.
fn store_threads() -> BTreeSet<i32> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return BTreeSet::new() };
    tasks
        .flatten()
        .filter(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with(STORE_THREADS))
        })
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}

/// Lowers the priority of one thread, by default the calling one. On Linux a thread has its own niceness and id.
fn lower(thread: Option<Pid>) {
    if let Err(error) = rustix::process::setpriority_process(thread, NICE) {
        tracing::debug!(%error, "the priority of a thread in the background could not be lowered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_workers_run_at_low_priority_and_the_opening_thread_does_not() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let before = rustix::process::getpriority_process(None).unwrap();
        let (worker, tid) = open(|| {
            let (tell, told) = std::sync::mpsc::channel();
            let worker = std::thread::Builder::new().name("fjall:worker".to_owned());
            let worker = worker.spawn(move || {
                tell.send(rustix::thread::gettid()).unwrap();
                stopped.recv().unwrap_err();
                rustix::process::getpriority_process(None).unwrap()
            });
            (worker.unwrap(), told.recv().unwrap())
        });
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), before);
        assert_eq!(rustix::process::getpriority_process(Some(tid)).unwrap(), NICE);
        drop(stop);
        assert_eq!(worker.join().unwrap(), NICE);
    }
}
