//! Tests of distances and scores. The choice of victims has stories in `generic` and `system`.

use super::*;

fn amount(cpu: i64, memory: i64, disk: i64) -> Amount {
    Amount { cpu, memory, disk }
}

#[test]
fn distance_is_relative_to_what_is_needed() {
    let needed = amount(2048, 512, 4096);
    let cases = [(1024, 400, 1024, 0.928), (8192, 200, 1024, 3.152), (2048, 500, 4096, 0.023)];
    for (cpu, memory, disk, expected) in cases {
        let found = distance(needed, amount(cpu, memory, disk));
        assert!((found - expected).abs() < 0.001, "{found} is not {expected}");
    }
}

#[test]
fn dimension_that_is_not_needed_has_no_distance() {
    assert_eq!(distance(amount(100, 0, -5), amount(100, 900, 900)), 0.0);
}

#[test]
fn score_falls_with_the_highest_priority_and_the_number_of_allocs() {
    let told: Vec<String> = [&[50][..], &[10, 10, 30], &[90, 90]]
        .iter()
        .map(|priorities| format!("{:.6}", score(priorities).unwrap()))
        .collect();
    assert_eq!(told, ["0.999931", "0.999937", "0.999916"]);
    assert_eq!(score(&[]), None);
}
