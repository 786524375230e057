//! How simulated allocations behave: delays, run times, failures, and how their updates are batched.

use std::str::FromStr;

use songline_client::core::Jitter;
use songline_lang::duration;
use songline_model::{Allocation, Dur, JobType, Str, Time};

/// Run time of an allocation, in the meta of its job, group or task: a duration such as `30s`.
const META_RUN_FOR: &str = "sim_run_for";
/// Share of failing allocations, in the meta: a number from 0 to 1.
const META_FAIL_RATIO: &str = "sim_fail_ratio";
/// Delay of a failing allocation without a run time.
const FAIL_AFTER: Dur = Dur::from_secs(1);

/// A delay that is drawn evenly between two bounds. The text form is `100ms` or `50ms..500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// Shortest delay.
    pub min: Dur,
    /// Longest delay.
    pub max: Dur,
}

impl Delay {
    /// No delay.
    pub const NONE: Self = Self::of(Dur::ZERO);

    /// Always the same delay.
    pub const fn of(delay: Dur) -> Self {
        Self { min: delay, max: delay }
    }

    fn draw(self, jitter: &mut Jitter) -> Dur {
        Dur(self.min.nanos() + jitter.below(Dur(self.max.nanos() - self.min.nanos())).nanos())
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let (min, max) = (duration_of(min)?, duration_of(max)?);
        if max < min {
            return Err(format!("delay {text:?}: the upper bound is below the lower one"));
        }
        Ok(Self { min, max })
    }
}

/// Parses a duration such as `1m30s` that is not negative.
pub fn duration_of(text: &str) -> Result<Dur, String> {
    match duration::parse(text.trim()) {
        Ok(nanos) if nanos >= 0 => Ok(Dur(nanos)),
        Ok(_) => Err(format!("duration {text:?} is negative")),
        Err(error) => Err(format!("duration {text:?}: {error}")),
    }
}

/// Run time of allocations whose job's meta sets none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFor {
    /// `run_for` of the tasks' configuration for `mock_driver` in jobs that end (batch, sysbatch); else for ever.
    OfJob,
    /// The same for all.
    Span(Delay),
    /// Until the servers stop them.
    Forever,
}

/// Behaviour of the allocations of a node.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Delay from the arrival of an allocation until its tasks run. Without one, `pending` is not reported.
    pub start_delay: Delay,
    /// Delay from the servers' stop until the tasks have ended.
    pub stop_delay: Delay,
    /// Delay from running until healthy, in deployments. `None`: the group's `min_healthy_time`.
    pub health_delay: Option<Dur>,
    /// Run time.
    pub run_for: RunFor,
    /// Share of allocations that fail, from 0 to 1.
    pub fail_ratio: f64,
    /// Delay from running to failure. `None`: the run time, or 1 s without one.
    pub fail_after: Option<Delay>,
    /// Time for which a changed client status waits for other updates.
    pub update_interval: Dur,
    /// Number of intervals for which other updates wait.
    pub typical_ticks: u32,
    /// Whether task states carry events.
    pub tells_events: bool,
}

impl Behaviour {
    /// Behaviour like that of a real node.
    pub fn real() -> Self {
        Self {
            start_delay: Delay { min: Dur::from_millis(50), max: Dur::from_millis(500) },
            stop_delay: Delay { min: Dur::ZERO, max: Dur::from_millis(200) },
            health_delay: None,
            run_for: RunFor::OfJob,
            fail_ratio: 0.0,
            fail_after: None,
            update_interval: Dur::from_millis(200),
            typical_ticks: 5,
            tells_events: true,
        }
    }

    /// Allocations run, and are healthy, as soon as they arrive, with one update for all that arrive together. For
    /// measurements of the servers alone.
    pub fn at_once() -> Self {
        Self {
            start_delay: Delay::NONE,
            stop_delay: Delay::NONE,
            health_delay: Some(Dur::ZERO),
            run_for: RunFor::Forever,
            update_interval: Dur::ZERO,
            tells_events: false,
            ..Self::real()
        }
    }

    pub(super) fn starts_after(&self, jitter: &mut Jitter) -> Dur {
        self.start_delay.draw(jitter)
    }

    pub(super) fn stops_after(&self, jitter: &mut Jitter) -> Dur {
        self.stop_delay.draw(jitter)
    }

    pub(super) fn healthy_after(&self, alloc: &Allocation) -> Dur {
        let of_group = || alloc.group()?.update.as_ref().map(|update| update.min_healthy_time);
        self.health_delay.or_else(of_group).unwrap_or(Dur::ZERO)
    }

    /// Draws the end of an allocation that starts to run now. `None`: it runs until it is stopped.
    pub(super) fn end(&self, alloc: &Allocation, now: Time, jitter: &mut Jitter) -> Option<(Time, End)> {
        let run_for = match meta(alloc, META_RUN_FOR).and_then(|text| text.parse::<Delay>().ok()) {
            Some(of_meta) => Some(of_meta.draw(jitter)),
            None => match self.run_for {
                RunFor::OfJob => of_mock_driver(alloc),
                RunFor::Span(delay) => Some(delay.draw(jitter)),
                RunFor::Forever => None,
            },
        };
        let of_meta = meta(alloc, META_FAIL_RATIO).and_then(|text| text.parse::<f64>().ok());
        let fails = share(jitter) < of_meta.unwrap_or(self.fail_ratio);
        if fails {
            let after = self.fail_after.map(|delay| delay.draw(jitter)).or(run_for).unwrap_or(FAIL_AFTER);
            return Some((now.plus(after), End::Failed));
        }
        run_for.map(|after| (now.plus(after), End::Complete))
    }
}

/// End of an allocation that the servers did not stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Failed,
}

/// A number in `[0, 1)`.
fn share(jitter: &mut Jitter) -> f64 {
    (jitter.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Value of a key in the meta of the tasks, the group or the job; the first of them that has it.
fn meta<'a>(alloc: &'a Allocation, key: &str) -> Option<&'a Str> {
    let group = alloc.group();
    let tasks = group.into_iter().flat_map(|group| group.tasks.iter().flatten()).map(|task| &task.meta);
    let all = tasks.chain(group.map(|group| &group.meta)).chain(alloc.job.as_ref().map(|job| &job.meta));
    all.flatten().find_map(|meta| meta.get(key))
}

/// Longest `run_for` of the group's tasks, in jobs whose allocations end.
fn of_mock_driver(alloc: &Allocation) -> Option<Dur> {
    match alloc.job.as_ref()?.kind {
        JobType::Batch | JobType::SysBatch => {}
        JobType::Service | JobType::System | JobType::Other(_) => return None,
    }
    let tasks = alloc.group()?.tasks.iter().flatten();
    tasks
        .filter(|task| task.driver == "mock_driver")
        .filter_map(|task| duration_of(task.config.as_ref()?.get("run_for")?.as_str()?).ok())
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_one_duration_or_two_bounds() {
        let ms = Dur::from_millis;
        assert_eq!("100ms".parse(), Ok(Delay::of(ms(100))));
        assert_eq!("50ms..0.5s".parse(), Ok(Delay { min: ms(50), max: ms(500) }));
        assert!("2s..1s".parse::<Delay>().is_err());
        assert!("soon".parse::<Delay>().is_err());
        assert!("-1s".parse::<Delay>().is_err());
    }
}
