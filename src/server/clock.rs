//! What time it is for this server, when the machine's clock is set: it may jump, and what is done by it must not.
//!
//! The rule is the scheduler's `pace`; here is where the machine's clocks are read.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use songline_model::Time;
use songline_scheduler::leader::pace::Pace;

use super::wall_clock;

/// Where a clock reads.
pub trait TimeSource: Send + Sync {
    /// Time of day, as the machine has it.
    fn wall(&self) -> Time;

    /// Time since some moment, which nobody sets.
    fn steady(&self) -> Duration;
}

/// The machine's own.
#[derive(Debug)]
pub struct Machine(Instant);

impl Default for Machine {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl TimeSource for Machine {
    fn wall(&self) -> Time {
        wall_clock()
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The clock of a server.
pub(crate) struct Clock {
    source: Box<dyn TimeSource>,
    told: Mutex<Pace>,
}

impl Clock {
    /// A clock over this source.
    pub fn new(source: Box<dyn TimeSource>) -> Self {
        let wall = source.wall();
        let told = Mutex::new(Pace::new(wall, source.steady()));
        Self { source, told }
    }

    fn read(&self) -> Pace {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // Read behind the lock, so that two callers have them in the order in which they are told.
        let (wall, steady) = (self.source.wall(), self.source.steady());
        told.read(wall, steady);
        *told
    }

    /// The wall time. Where that was set back, time goes on at half its speed until the wall has caught up.
    pub fn now(&self) -> Time {
        self.read().now
    }

    /// The time that waiting goes by.
    pub fn pace(&self) -> Time {
        self.read().pace
    }

    /// What is told from now on is not before `at`: another server's clock was ahead.
    pub fn not_before(&self, at: Time) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.not_before(at);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Whole seconds: of the wall, and of what passes.
    #[derive(Default)]
    struct Set(Mutex<(i64, u64)>);

    impl TimeSource for Arc<Set> {
        fn wall(&self) -> Time {
            Time::from_secs(self.0.lock().expect("nobody panics").0)
        }

        fn steady(&self) -> Duration {
            Duration::from_secs(self.0.lock().expect("nobody panics").1)
        }
    }

    /// After each of these pairs (seconds that pass, seconds that the wall is set forward by): what is told, as seconds now and at pace.
    fn check(steps: &[(u64, i64)], expected: &[(i64, i64)]) {
        let set = Arc::new(Set(Mutex::new((10_000, 0))));
        let clock = Clock::new(Box::new(Arc::clone(&set)));
        let told: Vec<_> = steps
            .iter()
            .map(|(pass, jump)| {
                let mut now = set.0.lock().expect("nobody panics");
                *now = (now.0 + *pass as i64 + jump, now.1 + pass);
                drop(now);
                (clock.now().secs() - 10_000, clock.pace().secs() - 10_000)
            })
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn while_nobody_sets_it_both_are_the_wall() {
        check(&[(1, 0), (100, 0), (3600, 0)], &[(1, 1), (101, 101), (3701, 3701)]);
    }

    #[test]
    fn an_hour_that_is_skipped_is_written_at_once_and_waited_for_at_twice_the_speed() {
        check(&[(10, 3600), (10, 0), (1800, 0), (1800, 0)], &[(3610, 20), (3620, 40), (5420, 3640), (7220, 7220)]);
    }

    #[test]
    fn time_that_is_set_back_never_runs_backwards() {
        check(&[(10, 3600), (10, -3600), (10, 0), (7200, 0)], &[(3610, 20), (3615, 25), (3620, 30), (7230, 7230)]);
    }

    #[test]
    fn a_leader_whose_clock_is_behind_goes_on_where_the_log_is() {
        let set = Arc::new(Set(Mutex::new((100, 0))));
        let clock = Clock::new(Box::new(Arc::clone(&set)));
        clock.not_before(Time::from_secs(160));
        assert_eq!((clock.now(), clock.pace()), (Time::from_secs(160), Time::from_secs(100)));
        *set.0.lock().expect("nobody panics") = (110, 10);
        assert_eq!((clock.now(), clock.pace()), (Time::from_secs(165), Time::from_secs(110)));
    }
}
