//! A shuffled order that is made up as it is asked for: the cost is in the positions that are read, not in the number
//! of items.

use crate::seed::Seed;

/// A random order of the numbers below a length.
pub(super) struct Order {
    seed: Seed,
    /// Number of positions from the start whose numbers are drawn.
    drawn: usize,
    /// The number at each position, plus 1; 0 where the number is still that of the position. Zeroed memory costs
    /// nothing until it is touched.
    numbers: Vec<u32>,
}

impl Order {
    /// An order of the numbers below `len`.
    pub fn new(len: usize, seed: Seed) -> Self {
        Self { seed, drawn: 0, numbers: vec![0; len] }
    }

    /// The number at a position. `None`: the position is not below the length. Positions are first asked for in order.
    pub fn number(&mut self, position: usize) -> Option<usize> {
        let len = self.numbers.len();
        while self.drawn <= position && self.drawn < len {
            let other = self.drawn + self.seed.below((len - self.drawn) as u64) as usize;
            let (here, there) = (self.at(self.drawn), self.at(other));
            self.numbers[other] = here;
            self.numbers[self.drawn] = there;
            self.drawn += 1;
        }
        self.numbers.get(position).map(|number| *number as usize - 1)
    }

    /// The number at a position, plus 1.
    fn at(&self, position: usize) -> u32 {
        match self.numbers[position] {
            // A cluster has fewer nodes than fit 32 bits.
            0 => position as u32 + 1,
            number => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Order;
    use crate::seed::Seed;

    #[test]
    fn every_number_comes_once_and_keeps_its_position() {
        for len in [0, 1, 2, 7, 100] {
            let mut order = Order::new(len, Seed::new(len as u64));
            let numbers: Vec<_> = (0..len).map_while(|position| order.number(position)).collect();
            assert_eq!(numbers.iter().copied().collect::<BTreeSet<_>>(), (0..len).collect());
            let again: Vec<_> = (0..len).map_while(|position| order.number(position)).collect();
            assert_eq!(numbers, again);
            assert_eq!(order.number(len), None);
        }
    }

    #[test]
    fn each_number_is_first_about_as_often_as_any_other() {
        let mut firsts = [0; 8];
        for seed in 0..8_000 {
            firsts[Order::new(8, Seed::new(seed)).number(0).unwrap()] += 1;
        }
        assert!(firsts.iter().all(|count| (800..1200).contains(count)), "{firsts:?}");
    }
}
