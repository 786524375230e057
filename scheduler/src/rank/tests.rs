//! Scores with the values of the reference.

use songline_model::SchedulerAlgorithm;

use super::{Scores, anti_affinity, fit_score};
use crate::fit::Amount;

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
    let scores = Scores { fit: -0.75, anti_affinity: -1.0, penalty: false };
    close(scores.total(), -0.875);
    close(Scores { fit: 0.5, anti_affinity: 0.0, penalty: true }.total(), -0.25);
    close(Scores { fit: 0.5, ..Scores::default() }.total(), 0.5);
}
