//! Spreads: the share of a group's allocations that each value of a node property should have.

use songline_model::{Spread, Str};

/// Score of a node that lacks the property, or whose value should get no allocation.
const UNWANTED: f64 = -1.0;

/// Counts of a group's allocations by value of the property, as a score needs them. The new allocation is not counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spreading {
    /// Number of allocations with the node's value.
    pub here: u64,
    /// Least and greatest number over the values that have any; `None`: there are no allocations.
    pub range: Option<(u64, u64)>,
    /// Number of allocations with a value that is no target.
    pub untargeted: u64,
}

/// One spread with the numbers of allocations that its targets stand for.
#[derive(Debug)]
pub struct DesiredSpread {
    /// Node property, as the spread names it.
    pub attribute: Str,
    /// Weight out of the weights of all spreads of the group.
    share: f64,
    /// Wanted number of allocations by value; empty for an even spread.
    targets: Vec<(Str, f64)>,
    /// Wanted number of allocations for all other values together. `None`: the targets take all.
    others: Option<f64>,
}

/// The target that a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// There are no targets: all values should have equally many.
    Even,
    /// A target that should have this number of allocations.
    Named(f64),
    /// The values without a target of their own, which share this number.
    Others(f64),
    /// No allocation should be here.
    None,
}

impl DesiredSpread {
    /// The spread for a group of `count` allocations; `weights` is the sum over all spreads of the group.
    pub fn new(spread: &Spread, count: i64, weights: i64) -> Self {
        let count = count as f64;
        let targets: Vec<(Str, f64)> = spread
            .spread_target
            .iter()
            .flatten()
            .map(|target| (target.value.clone(), target.percent as f64 / 100.0 * count))
            .collect();
        let percent: u64 = spread.spread_target.iter().flatten().map(|target| target.percent).sum();
        let rest = (100.0 - percent as f64) / 100.0 * count;
        Self {
            attribute: spread.attribute.clone(),
            share: if weights > 0 { spread.weight as f64 / weights as f64 } else { 0.0 },
            others: (percent < 100 && count > 0.0).then_some(rest),
            targets,
        }
    }

    /// The values with a target.
    pub fn values(&self) -> impl Iterator<Item = &Str> {
        self.targets.iter().map(|(value, _)| value)
    }

    /// The target of a value; `named` is its position in [`DesiredSpread::values`].
    pub fn target(&self, named: Option<usize>) -> Target {
        if self.targets.is_empty() {
            return Target::Even;
        }
        match named.and_then(|named| self.targets.get(named)) {
            Some((_, wanted)) => Target::Named(*wanted),
            None => self.others.map_or(Target::None, Target::Others),
        }
    }

    /// Score of a node for one more allocation. `lowest` is the lowest score of a target so far.
    pub fn score(&self, target: Target, counts: Spreading, lowest: &mut f64) -> f64 {
        let (wanted, used) = match target {
            Target::Even => return even(counts),
            Target::None => return UNWANTED,
            Target::Named(wanted) => (wanted, counts.here + 1),
            Target::Others(wanted) => (wanted, counts.untargeted + 1),
        };
        if wanted == 0.0 {
            return *lowest;
        }
        let score = (wanted - used as f64) / wanted * self.share;
        *lowest = lowest.min(score);
        score
    }
}

/// Score of a node that lacks the property.
pub fn missing() -> f64 {
    UNWANTED
}

/// Score when all values should have equally many: 1 for the least used value, less the more it is used.
fn even(counts: Spreading) -> f64 {
    let Some((least, most)) = counts.range else { return 0.0 };
    let (here, least, most) = (counts.here as f64, least as f64, most as f64);
    if here != least {
        return if least == 0.0 { UNWANTED } else { (least - here) / least };
    }
    if least == most {
        UNWANTED
    } else if least == 0.0 {
        1.0
    } else {
        (most - least) / least
    }
}
