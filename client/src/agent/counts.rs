//! Counts of the ends and restarts of tasks, for the agent's metrics, with those of the last interval.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use songline_model::{AllocId, Allocation, Dur, Str, Time};
use songline_rpc::Count;

use super::publish::{Labels, labels_of_task};
use crate::core::Counted;

/// Interval of the metrics in the reference's JSON form.
const INTERVAL: Dur = Dur::from_secs(10);

/// Counts of all tasks.
pub(crate) struct Counts(Mutex<State>);

struct State {
    /// Start of the current interval.
    since: Time,
    /// Whether the first interval lasts.
    is_first: bool,
    series: BTreeMap<(&'static str, AllocId, Str), Series>,
}

struct Series {
    help: &'static str,
    labels: Labels,
    total: u64,
    /// The total at the start of the current interval.
    begun: u64,
    /// The growth during the last complete interval.
    finished: u64,
}

impl Counts {
    pub fn new(now: Time) -> Self {
        Self(Mutex::new(State { since: now, is_first: true, series: BTreeMap::new() }))
    }

    /// Counts what has happened to a task.
    pub fn add(&self, alloc: &Allocation, task: &Str, counted: &[Counted], now: Time) {
        let mut state = self.0.lock();
        state.rotate(now);
        for one in counted {
            let (name, help) = named(*one);
            let series = state.series.entry((name, alloc.id, task.clone())).or_insert_with(|| Series {
                help,
                labels: labels_of_task(alloc, task),
                total: 0,
                begun: 0,
                finished: 0,
            });
            series.total += 1;
        }
    }

    /// The counts of the allocations that the node still has. Those of others end.
    pub fn read(&self, known: &BTreeSet<AllocId>, now: Time) -> Vec<Count> {
        let mut state = self.0.lock();
        state.rotate(now);
        state.series.retain(|(_, alloc, _), _| known.contains(alloc));
        let is_first = state.is_first;
        let count = |(key, series): (&(&'static str, AllocId, Str), &Series)| Count {
            name: key.0,
            help: series.help,
            labels: Arc::clone(&series.labels),
            total: series.total,
            during: if is_first { series.total } else { series.finished },
        };
        state.series.iter().map(count).collect()
    }
}

impl State {
    /// Ends the current interval if it is over.
    fn rotate(&mut self, now: Time) {
        let passed = now.since(self.since).0 / INTERVAL.0;
        if passed <= 0 {
            return;
        }
        for series in self.series.values_mut() {
            // Nothing came in intervals that nothing has ended.
            series.finished = if passed == 1 { series.total - series.begun } else { 0 };
            series.begun = series.total;
        }
        self.since = self.since.plus(Dur(INTERVAL.0 * passed));
        self.is_first = false;
    }
}

fn named(counted: Counted) -> (&'static str, &'static str) {
    match counted {
        Counted::Complete => ("nomad.client.allocs.complete", "Ends of a task without a failure."),
        Counted::Failed => ("nomad.client.allocs.failed", "Ends of a task that failed."),
        Counted::Restart => ("nomad.client.allocs.restart", "Restarts of a task after its process had ended."),
        Counted::OomKilled => ("nomad.client.allocs.oom_killed", "Processes of a task that ran out of memory."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_counts_only_its_own_events_and_gone_allocations_end() {
        let alloc = Allocation { id: AllocId::from_bytes([1; 16]), ..Allocation::default() };
        let (known, at) = (BTreeSet::from([alloc.id]), Time::from_secs);
        let counts = Counts::new(at(100));
        let during = |now| counts.read(&known, at(now)).iter().map(|c| (c.total, c.during)).collect::<Vec<_>>();
        counts.add(&alloc, &"web".into(), &[Counted::Restart], at(101));
        assert_eq!(during(105), [(1, 1)], "the first interval shows itself");
        counts.add(&alloc, &"web".into(), &[Counted::Restart, Counted::Restart], at(112));
        assert_eq!(during(115), [(3, 1)]);
        assert_eq!(during(121), [(3, 2)]);
        assert_eq!(during(141), [(3, 0)]);
        assert!(counts.read(&BTreeSet::new(), at(142)).is_empty());
    }
}
