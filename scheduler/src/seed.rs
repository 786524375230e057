//! Deterministic random numbers and ids: all follow from one seed, so that a plan can be computed again.

use songline_model::{AllocId, DeploymentId, EvalId};

/// A generator of numbers (splitmix64). The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// Starts from `number`.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Starts from `number` for one attempt of an evaluation. Evaluation, index and attempt are mixed in, so that ids
    /// differ even with the same `number`: an evaluation that runs again on a newer view must not make the ids that its
    /// first run wrote.
    pub fn of_attempt(number: u64, eval: EvalId, index: u64, attempt: u64) -> Self {
        let bytes = eval.as_bytes();
        let mut seed = Self(number);
        for part in [&bytes[..8], &bytes[8..], &index.to_be_bytes(), &attempt.to_be_bytes()] {
            let mut word = [0; 8];
            word.copy_from_slice(part);
            seed = seed.branch(u64::from_be_bytes(word));
        }
        seed
    }

    /// An independent generator for one purpose: drawing from one does not change the other.
    #[must_use]
    pub fn branch(&self, purpose: u64) -> Self {
        let mut start = Self(self.0 ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(start.number())
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the multiplication is below 2^-40 for every bound that occurs here.
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// The 16 bytes of a UUID of version 4 (random).
    fn uuid(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.number().to_be_bytes());
        bytes[8..].copy_from_slice(&self.number().to_be_bytes());
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        bytes
    }

    /// An id for a new allocation.
    pub fn alloc_id(&mut self) -> AllocId {
        AllocId::from_bytes(self.uuid())
    }

    /// An id for a new evaluation.
    pub fn eval_id(&mut self) -> EvalId {
        EvalId::from_bytes(self.uuid())
    }

    /// An id for a new deployment.
    pub fn deployment_id(&mut self) -> DeploymentId {
        DeploymentId::from_bytes(self.uuid())
    }
}

#[cfg(test)]
mod tests {
    use super::Seed;

    #[test]
    fn the_same_seed_gives_the_same_ids_and_another_one_others() {
        let ids = |number| {
            let mut seed = Seed::new(number);
            [seed.alloc_id().to_string(), seed.alloc_id().to_string()]
        };
        assert_eq!(ids(7), ids(7));
        assert_ne!(ids(7), ids(8));
        assert_eq!(&ids(7)[0][14..15], "4");
    }
}
