//! The threads of this process and the processor time that each has used.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use super::proto::{Profile, Unit};
use crate::error::ApiError;

/// Length of a tick of the kernel's clock, in which it counts processor time.
const TICK: Duration = Duration::from_millis(10);

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Thread {
    pub(super) id: u64,
    pub(super) name: String,
    state: String,
    /// Processor time since its start.
    pub(super) ticks: u64,
}

#[cfg(test)]
impl Thread {
    /// A sleeping thread.
    pub(super) fn example(id: u64, name: &str, ticks: u64) -> Self {
        Self { id, name: name.to_owned(), state: "S".to_owned(), ticks }
    }
}

/// All threads, by id. Reads `/proc` on a thread that may block.
pub(super) async fn now() -> Result<Vec<Thread>, ApiError> {
    tokio::task::spawn_blocking(all).await.map_err(|error| ApiError::internal(error.to_string()))
}

fn all() -> Vec<Thread> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        // A thread that ended meanwhile is left out.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        threads.extend(parsed(&stat));
    }
    threads.sort();
    threads
}

/// A line of `/proc/PID/task/TID/stat`.
fn parsed(stat: &str) -> Option<Thread> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let (id, name) = head.split_once(" (")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let state = fields.first().copied().unwrap_or_default().to_owned();
    Some(Thread { id: id.parse().ok()?, name: name.to_owned(), state, ticks: number(11) + number(12) })
}

/// A text with a line for each thread: id, state, ticks, name.
pub(super) fn shown(threads: &[Thread]) -> String {
    let mut shown = format!("threads: {}\n", threads.len());
    for Thread { id, name, state, ticks } in threads {
        let _ = writeln!(shown, "{id:>8} {state} {ticks:>8} {name}");
    }
    shown
}

/// A profile of the number of threads by name.
pub(super) fn counted(threads: &[Thread]) -> Vec<u8> {
    let mut profile = Profile::new(vec![Unit { kind: "threads", unit: "count" }]);
    for (name, count) in summed(threads.iter().map(|thread| (thread.name.as_str(), 1))) {
        profile.add(name, vec![count]);
    }
    profile.encoded()
}

/// A profile of the processor time that threads used between two looks, by name. Threads that ended in between are
/// left out.
pub(super) fn used(before: &[Thread], after: &[Thread], span: Duration) -> Vec<u8> {
    let earlier: BTreeMap<u64, u64> = before.iter().map(|thread| (thread.id, thread.ticks)).collect();
    let since = |thread: &Thread| thread.ticks.saturating_sub(earlier.get(&thread.id).copied().unwrap_or(0));
    let cpu = Unit { kind: "cpu", unit: "nanoseconds" };
    let mut profile = Profile::new(vec![Unit { kind: "samples", unit: "count" }, cpu]);
    profile.measured(span, cpu, TICK);
    let tick = u64::try_from(TICK.as_nanos()).unwrap_or(u64::MAX);
    for (name, ticks) in summed(after.iter().map(|thread| (thread.name.as_str(), since(thread)))) {
        if ticks > 0 {
            profile.add(name, vec![ticks, ticks.saturating_mul(tick)]);
        }
    }
    profile.encoded()
}

fn summed<'t>(values: impl Iterator<Item = (&'t str, u64)>) -> BTreeMap<&'t str, u64> {
    let mut sums = BTreeMap::new();
    for (name, value) in values {
        *sums.entry(name).or_insert(0) += value;
    }
    sums
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use expect_test::expect;

    use super::*;

    #[test]
    fn thread_dump_lists_at_least_one_thread() {
        let shown = shown(&all());
        assert!(shown.starts_with("threads: ") && shown.lines().count() > 1, "{shown}");
    }

    #[test]
    fn line_of_a_thread_is_read_also_if_its_name_has_brackets() {
        let line = "12 (a) (b) R 1 2 3 4 5 6 7 8 9 10 30 4 0";
        assert_eq!(parsed(line), Some(Thread { id: 12, name: "a) (b".into(), state: "R".into(), ticks: 34 }));
        assert_eq!(parsed("x"), None);
    }

    #[test]
    fn processor_profile_has_the_time_since_the_first_look() {
        let thread = Thread::example;
        let before = [thread(1, "a", 5), thread(2, "b", 7), thread(3, "gone", 1)];
        let after = [thread(1, "a", 8), thread(2, "b", 7), thread(4, "a", 2)];
        let encoded = used(&before, &after, Duration::from_secs(1));
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*encoded).read_to_end(&mut plain).expect("gzip");
        let shown: String = plain.iter().map(|byte| format!("{byte:02x}")).collect();
        expect!["0a04080210030a04080410051209080110051080e1eb1722060801220208012a04080110013200320161320773616d706c65733205636f756e743203637075320b6e616e6f7365636f6e6473508094ebdc035a04080410056080ade204"].assert_eq(&shown);
    }
}
