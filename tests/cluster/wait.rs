//! Waiting for what must come true, and no longer.

use std::thread;
use std::time::{Duration, Instant};

/// How long to look away between two looks.
const BETWEEN: Duration = Duration::from_millis(20);

/// Looks again and again until it is so; false when it still is not at `deadline`.
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
