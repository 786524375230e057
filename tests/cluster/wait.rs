//! Polling with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// Poll interval.
const BETWEEN: Duration = Duration::from_millis(20);

/// Polls until the condition holds; false when it does not at `deadline`.
pub fn until(deadline: Instant, mut is_so: impl FnMut() -> bool) -> bool {
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::park_timeout(BETWEEN);
    }
}
