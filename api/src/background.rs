//! Threads that keep what is derived from the log: they may lag behind, so they leave the processor to those whose work somebody waits for.

use std::collections::BTreeSet;

use rustix::process::Pid;

/// How much lower than usual: enough to lose against every thread of the server, not so much that idle machines starve them.
const NICE: i32 = 10;

/// What the names of the threads of a store begin with.
const STORE_THREADS: &str = "fjall";

/// Lowers the priority of the calling thread and of those it starts from now on: on Linux each thread has its own, and hands it down.
pub fn give_way() {
    lower(None);
}

/// Runs `open` and lowers the priority of the workers that the store brings along. Opening itself has the priority of whoever waits for it:
/// on a busy machine a start would take ten times as long.
pub(crate) fn open<T>(open: impl FnOnce() -> T) -> T {
    let before = store_threads();
    let opened = open();
    for thread in store_threads().difference(&before) {
        lower(Pid::from_raw(*thread));
    }
    opened
}

/// The numbers of this process's threads that are a store's; none where the system does not tell.
fn store_threads() -> BTreeSet<i32> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return BTreeSet::new() };
    tasks
        .flatten()
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with(STORE_THREADS)))
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}

/// On Linux a thread has a priority, and a number, of its own.
fn lower(thread: Option<Pid>) {
    if let Err(error) = rustix::process::setpriority_process(thread, NICE) {
        tracing::debug!(%error, "the priority of a thread in the background could not be lowered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stores_workers_give_way_and_whoever_opens_it_does_not() {
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
