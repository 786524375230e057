//! The server's clock. The machine's wall clock may jump when it is set; deadlines and timers of this server must
//! not.
//!
//! The rule is implemented in the scheduler's `pace`; this module reads the machine's clocks.

use std::sync::Arc;

use parking_lot::Mutex;
use songline_model::Time;
use songline_rpc::world::World;
use songline_scheduler::leader::pace::Pace;

/// Clock of a server.
pub(crate) struct Clock {
    world: Arc<dyn World>,
    told: Mutex<Pace>,
}

impl Clock {
    /// Creates a clock over the machine's clocks.
    pub(crate) fn new(world: Arc<dyn World>) -> Self {
        let told = Mutex::new(Pace::new(world.wall(), world.steady()));
        Self { world, told }
    }

    fn read(&self) -> Pace {
        let mut told = self.told.lock();
        // The machine's clocks are read while the lock is held, so that two callers' readings are recorded in the order
        // of their reading.
        let (wall, steady) = (self.world.wall(), self.world.steady());
        told.read(wall, steady);
        *told
    }

    /// Wall-clock time. After the wall clock was set back, this time runs at half speed until the wall clock has
    /// caught up.
    pub(crate) fn now(&self) -> Time {
        self.read().now
    }

    /// Time for waiting and deadlines: steady when the wall clock is set.
    pub(crate) fn pace(&self) -> Time {
        self.read().pace
    }

    /// Makes later readings at least `at`: another server's clock was ahead.
    pub(crate) fn not_before(&self, at: Time) {
        let mut told = self.told.lock();
        told.not_before(at);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use songline_rpc::world::{NoRandomness, Work};

    use super::*;

    /// A machine whose clocks stand, in whole seconds: the wall clock, and the monotonic clock.
    #[derive(Debug, Default)]
    struct Set(Mutex<(i64, u64)>);

    impl World for Set {
        fn wall(&self) -> Time {
            Time::from_secs(self.0.lock().0)
        }

        fn steady(&self) -> Duration {
            Duration::from_secs(self.0.lock().1)
        }

        fn fill(&self, _: &mut [u8]) -> Result<(), NoRandomness> {
            Err(NoRandomness)
        }

        fn start_loop(&self, _: String, _: Work) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Reads the clock after each step (elapsed seconds, seconds that the wall clock is set forward by). Expects
    /// pairs of seconds:
    /// `now` and `pace`.
    fn check(steps: &[(u64, i64)], expected: &[(i64, i64)]) {
        let set = Arc::new(Set(Mutex::new((10_000, 0))));
        let clock = Clock::new(Arc::<Set>::clone(&set));
        let told: Vec<_> = steps
            .iter()
            .map(|(pass, jump)| {
                let mut now = set.0.lock();
                *now = (now.0 + *pass as i64 + jump, now.1 + pass);
                drop(now);
                (clock.now().secs() - 10_000, clock.pace().secs() - 10_000)
            })
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn undisturbed_clock_and_pace_follow_the_wall_clock() {
        check(&[(1, 0), (100, 0), (3600, 0)], &[(1, 1), (101, 101), (3701, 3701)]);
    }

    #[test]
    fn clock_follows_a_forward_jump_at_once_and_pace_at_twice_the_speed() {
        check(&[(10, 3600), (10, 0), (1800, 0), (1800, 0)], &[(3610, 20), (3620, 40), (5420, 3640), (7220, 7220)]);
    }

    #[test]
    fn clock_that_is_set_back_never_runs_backwards() {
        check(&[(10, 3600), (10, -3600), (10, 0), (7200, 0)], &[(3610, 20), (3615, 25), (3620, 30), (7230, 7230)]);
    }

    #[test]
    fn leader_with_a_slow_clock_continues_from_the_time_of_the_log() {
        let set = Arc::new(Set(Mutex::new((100, 0))));
        let clock = Clock::new(Arc::<Set>::clone(&set));
        clock.not_before(Time::from_secs(160));
        assert_eq!((clock.now(), clock.pace()), (Time::from_secs(160), Time::from_secs(100)));
        *set.0.lock() = (110, 10);
        assert_eq!((clock.now(), clock.pace()), (Time::from_secs(165), Time::from_secs(110)));
    }
}
