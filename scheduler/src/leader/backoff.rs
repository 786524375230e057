//! Waits between attempts of the leader's machines.

use songline_model::Dur;

/// Wait after `failures` earlier failures: `first`, then twice as long each time, at most `longest`.
pub(super) fn backoff(failures: u32, first: Dur, longest: Dur) -> Dur {
    Dur(first.nanos().saturating_mul(1_i64 << failures.min(16)).min(longest.nanos()))
}
