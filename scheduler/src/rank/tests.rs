//! Scores beside those of the golden cases, which are in `tests/golden`.

use songline_model::{Amount, SchedulerAlgorithm, Spread, SpreadTarget};

use super::spread::{DesiredSpread, Spreading};
use super::{Scores, anti_affinity, fit_score};

fn amount(cpu: i64, memory: i64) -> Amount {
    Amount { cpu, memory, disk: 0 }
}

#[track_caller]
fn close(got: f64, wanted: f64) {
    assert!((got - wanted).abs() < 0.001, "{got} is not {wanted}");
}

#[test]
fn full_nodes_score_high_with_binpack_and_low_with_spread() {
    close(fit_score(SchedulerAlgorithm::Binpack, amount(1024, 1024), amount(1024, 1024)), 1.0);
    close(fit_score(SchedulerAlgorithm::Binpack, amount(3072, 3072), amount(1024, 1024)), 0.595);
    close(fit_score(SchedulerAlgorithm::Spread, amount(1024, 1024), amount(1024, 1024)), 0.0);
    close(fit_score(SchedulerAlgorithm::Spread, amount(1024, 1024), amount(0, 0)), 1.0);
}

#[test]
fn anti_affinity_and_an_earlier_failure_lower_the_node_score() {
    close(anti_affinity(2, 4), -0.75);
    close(anti_affinity(0, 4), 0.0);
    let scores = Scores { fit: -0.75, anti_affinity: -1.0, ..Scores::default() };
    close(scores.total(), -0.875);
    close(Scores { fit: 0.5, penalty: true, ..Scores::default() }.total(), -0.25);
    close(Scores { fit: 0.5, ..Scores::default() }.total(), 0.5);
}

fn desired(weight: i64, weights: i64, targets: &[(&str, u64)], count: i64) -> DesiredSpread {
    let target = |(value, percent): &(&str, u64)| SpreadTarget { value: (*value).into(), percent: *percent };
    let spread = Spread { weight, spread_target: Some(targets.iter().map(target).collect()), ..Spread::default() };
    DesiredSpread::new(&spread, count, weights)
}

fn spread_score(spread: &DesiredSpread, named: Option<usize>, used: u64) -> f64 {
    let counts = Spreading { here: used, untargeted: used, range: None };
    spread.score(spread.target(named), counts, &mut -1.0)
}

#[test]
fn spread_target_loses_score_as_it_fills_up() {
    let spread = desired(100, 100, &[("dc1", 80)], 10);
    close(spread_score(&spread, Some(0), 2), 0.625);
    close(spread_score(&spread, Some(0), 7), 0.0);
    // The other datacenters share the remaining two allocations.
    close(spread_score(&spread, None, 0), 0.5);
    close(spread_score(&desired(100, 100, &[("dc1", 100)], 10), None, 0), -1.0);
}

#[test]
fn target_of_no_percent_scores_as_low_as_the_lowest_target() {
    let spread = desired(100, 100, &[("dc1", 100), ("dc2", 0)], 2);
    let mut lowest = -1.0;
    let counts = Spreading { here: 5, ..Spreading::default() };
    close(spread.score(spread.target(Some(1)), counts, &mut lowest), -1.0);
    close(spread.score(spread.target(Some(0)), counts, &mut lowest), -2.0);
    close(spread.score(spread.target(Some(1)), counts, &mut lowest), -2.0);
}

#[test]
fn even_spread_prefers_the_least_used_value() {
    let score = |here: u64, range: Option<(u64, u64)>| {
        let spread = desired(100, 100, &[], 10);
        spread.score(spread.target(None), Spreading { here, range, untargeted: 0 }, &mut -1.0)
    };
    close(score(0, None), 0.0);
    assert_eq!([score(2, Some((0, 2))), score(0, Some((0, 2)))], [-1.0, 1.0]);
    assert_eq!([score(2, Some((2, 3))), score(3, Some((2, 3)))], [0.5, -0.5]);
    assert_eq!([score(3, Some((0, 3))), score(0, Some((0, 3)))], [-1.0, 1.0]);
    assert_eq!([score(1, Some((1, 1))), score(0, Some((1, 1)))], [-1.0, 1.0]);
}
