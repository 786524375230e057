//! When the threads of this process used the processor, in the format of Chrome's trace viewer and of Perfetto. There is
//! no Go runtime whose events `go tool trace` could show.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior};

use super::threads::{self, Thread};
use crate::error::ApiError;

/// Interval of the looks at the threads: the kernel counts processor time in steps of this length.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks at the threads for as long as asked. Returns the trace.
pub(super) async fn record(span: Duration) -> Result<Vec<u8>, ApiError> {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (began, mut timeline) = (Instant::now(), Timeline::default());
    loop {
        ticks.tick().await;
        let at = began.elapsed();
        timeline.look(at, &threads::now().await?);
        if at >= span {
            return Ok(timeline.finished(std::process::id()));
        }
    }
}

/// Times in which threads ran.
#[derive(Debug, Default)]
struct Timeline {
    threads: BTreeMap<u64, Seen>,
    /// Thread, begin and end.
    ran: Vec<(u64, Duration, Duration)>,
}

#[derive(Debug)]
struct Seen {
    name: String,
    ticks: u64,
    /// Time of the last look.
    at: Duration,
    /// Begin of the time in which the thread runs.
    runs_since: Option<Duration>,
}

impl Timeline {
    /// Records one look. A thread ran since the last look if it used processor time.
    fn look(&mut self, at: Duration, threads: &[Thread]) {
        for thread in threads {
            let first = || Seen { name: thread.name.clone(), ticks: thread.ticks, at, runs_since: None };
            let seen = self.threads.entry(thread.id).or_insert_with(first);
            match (thread.ticks > seen.ticks, seen.runs_since) {
                (true, None) => seen.runs_since = Some(seen.at),
                (false, Some(since)) => {
                    self.ran.push((thread.id, since, seen.at));
                    seen.runs_since = None;
                }
                (true, Some(_)) | (false, None) => {}
            }
            (seen.ticks, seen.at) = (thread.ticks, at);
        }
    }

    /// The trace as JSON.
    fn finished(mut self, process: u32) -> Vec<u8> {
        let open = self.threads.iter().filter_map(|(id, seen)| Some((*id, seen.runs_since?, seen.at)));
        self.ran.extend(open.collect::<Vec<_>>());
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let names = self.threads.iter().map(|(id, seen)| {
            json!({"ph": "M", "name": "thread_name", "pid": process, "tid": id, "args": {"name": seen.name}})
        });
        let ran = self.ran.iter().map(|(id, from, to)| {
            json!({"ph": "X", "name": "runs", "pid": process, "tid": id, "ts": micros(*from), "dur": micros(*to - *from)})
        });
        let events: Vec<Value> = names.chain(ran).collect();
        json!({ "traceEvents": events }).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_runs_between_two_looks_at_which_its_processor_time_grew() {
        let mut timeline = Timeline::default();
        for (at, busy, idle) in [(0, 5, 7), (10, 6, 7), (20, 7, 7), (30, 7, 7), (40, 8, 7)] {
            let threads = [Thread::example(1, "busy", busy), Thread::example(2, "idle", idle)];
            timeline.look(Duration::from_millis(at), &threads);
        }
        let trace: Value = serde_json::from_slice(&timeline.finished(9)).expect("it is JSON");
        let events = trace["traceEvents"].as_array().expect("it has events");
        assert_eq!(events.len(), 4, "{trace}");
        assert_eq!(events[0]["args"]["name"], "busy");
        let ran = |event: &Value| (event["tid"].as_u64(), event["ts"].as_u64(), event["dur"].as_u64());
        assert_eq!(ran(&events[2]), (Some(1), Some(0), Some(20_000)));
        assert_eq!(ran(&events[3]), (Some(1), Some(30_000), Some(10_000)));
    }
}
