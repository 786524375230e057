//! Time limit of a search. All objects are searched unless the time runs out; then the answer is marked as truncated.

use std::time::{Duration, Instant};

/// Time of one search, over all its contexts.
const SEARCH_TIME: Duration = Duration::from_millis(100);
/// Number of rows between two checks of the clock.
const ROWS_PER_LOOK: u32 = 256;

/// Clock of one search. Each context may take an equal share of the remaining time, so that a long table does not use
/// up the time of later contexts.
pub(super) struct Clock {
    /// End of the whole search.
    end: Instant,
    /// End of the search in the current context.
    until: Instant,
    /// Rows since the last check of the clock.
    rows: u32,
    over: bool,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self::of(SEARCH_TIME)
    }

    /// A clock for a search of this length.
    pub(super) fn of(time: Duration) -> Self {
        let end = Instant::now() + time;
        Self { end, until: end, rows: 0, over: false }
    }

    /// Begins the next context. `contexts` is the number of remaining contexts, this one included.
    pub(super) fn share(&mut self, contexts: usize) {
        let now = Instant::now();
        let left = self.end.saturating_duration_since(now);
        let contexts = u32::try_from(contexts.max(1)).unwrap_or(u32::MAX);
        *self = Self { end: self.end, until: now + left / contexts, rows: 0, over: false };
    }

    /// Counts one row. True when no further row may be read.
    pub(super) fn is_over(&mut self) -> bool {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_PER_LOOK) {
            self.over = self.over || Instant::now() >= self.until;
        }
        self.over
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, ROWS_PER_LOOK};

    #[test]
    fn search_scans_the_first_rows_of_every_context_even_without_time() {
        let mut clock = Clock::of(Duration::ZERO);
        for _context in 0..3 {
            clock.share(1);
            let looked_at = (0..1000).take_while(|_| !clock.is_over()).count();
            assert_eq!(looked_at, ROWS_PER_LOOK as usize - 1);
        }
    }

    #[test]
    fn search_context_leaves_time_for_later_contexts() {
        let mut clock = Clock::of(Duration::from_secs(60));
        clock.share(2);
        assert!(clock.until < clock.end);
        clock.share(1);
        assert!(clock.end - clock.until < Duration::from_secs(1));
    }
}
