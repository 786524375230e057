//! Nodes that are compared: the first that can run a group, except some with a low score.

use std::collections::VecDeque;

/// Puts candidates with a score of 0 or less aside, in the hope of better ones. `T` is a node with its scores.
#[derive(Debug)]
pub struct FirstNodes<T> {
    aside: VecDeque<T>,
    skips_left: usize,
}

impl<T> FirstNodes<T> {
    /// Puts at most `skips_max` candidates aside.
    pub fn new(skips_max: usize) -> Self {
        Self { aside: VecDeque::new(), skips_left: skips_max }
    }

    /// The next candidate to compare. `draw` gives candidates in the order of the search; when there are no more, those
    /// put aside follow.
    pub fn next(&mut self, score: impl Fn(&T) -> f64, mut draw: impl FnMut() -> Option<T>) -> Option<T> {
        let mut candidate = draw();
        while self.skips_left > 0 && candidate.as_ref().is_some_and(|candidate| score(candidate) <= 0.0) {
            self.skips_left -= 1;
            self.aside.extend(candidate);
            candidate = draw();
        }
        candidate.or_else(|| self.aside.pop_front())
    }
}
