//! Jitter for delays: a small generator whose whole sequence follows from its seed. Not for secrets.

use songline_model::Dur;

/// Pseudo-random numbers from a seed that the shell (or the simulator) gives.
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (splitmix64).
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A span in `[0, bound)`; zero when the bound is not positive.
    pub fn below(&mut self, bound: Dur) -> Dur {
        match u64::try_from(bound.nanos()) {
            Ok(nanos) if nanos > 0 => Dur(i64::try_from(self.next_u64() % nanos).unwrap_or(0)),
            _ => Dur::ZERO,
        }
    }

    /// `base` plus a random part of up to `base` again.
    pub fn stretched(&mut self, base: Dur) -> Dur {
        Dur(base.nanos().saturating_add(self.below(base).nanos()))
    }
}
