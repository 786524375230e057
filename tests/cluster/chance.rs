//! Pseudo-random numbers, reproducible from a seed (xorshift).

use std::time::{SystemTime, UNIX_EPOCH};

/// Pseudo-random number generator.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        chance.next();
        chance
    }

    /// A seed from the clock, for runs without a given one.
    pub fn seed_of_now() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(1, |since| u64::from(since.subsec_nanos()))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from 0 up to and excluding `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound.max(1)
    }
}
