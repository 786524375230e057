//! Tables of decisions: each line has the parts of all regions in order, the expectation has the step of each region.

use expect_test::{Expect, expect};
use songline_model::{DeploymentStatus, Multiregion, MultiregionRegion, MultiregionStrategy};

use super::{Part, Registered, Step, decide};

fn multiregion(max_parallel: i64, on_failure: &str, regions: usize) -> Multiregion {
    let region = |n: usize| MultiregionRegion { name: format!("r{n}").into(), ..MultiregionRegion::default() };
    Multiregion {
        strategy: Some(MultiregionStrategy { max_parallel, on_failure: on_failure.into() }),
        regions: Some((0..regions).map(region).collect()),
    }
}

/// A part by its word: the status of a deployment, or another state.
fn part(word: &str) -> Part {
    match word {
        "unheard" => Part::Unheard,
        "unregistered" => Part::Unregistered,
        "done" => Part::Done,
        "superseded" => Part::Superseded,
        "absent" => Part::Absent,
        "stopped" => Part::Stopped,
        status => Part::Deployment(DeploymentStatus::from_word(status).expect("a status")),
    }
}

fn word(step: Option<Step>) -> &'static str {
    match step {
        None => "-",
        Some(Step::Run) => "run",
        Some(Step::Unblock) => "unblock",
        Some(Step::Finish) => "finish",
        Some(Step::Fail) => "fail",
        Some(Step::GiveUp) => "give-up",
    }
}

/// Decides for every region of every line.
fn check(max_parallel: i64, on_failure: &str, table: &str, expected: Expect) {
    let mut told = String::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parts: Vec<Part> = line.split_whitespace().map(part).collect();
        let multiregion = multiregion(max_parallel, on_failure, parts.len());
        let steps: Vec<_> = (0..parts.len()).map(|own| word(decide(&multiregion, own, &parts))).collect();
        told.push_str(&format!("{line}: {}\n", steps.join(" ")));
    }
    expected.assert_eq(&told);
}

#[test]
fn regions_start_in_order_and_the_last_one_lets_all_finish() {
    check(
        1,
        "",
        "initializing pending      pending
         pending      initializing pending
         running      pending      pending
         paused       pending      pending
         blocked      pending      pending
         blocked      running      pending
         blocked      blocked      pending
         blocked      blocked      running
         blocked      blocked      blocked
         blocked      blocked      unblocking
         successful   blocked      unblocking
         successful   successful   unblocking
         successful   successful   successful",
        expect![[r#"
            initializing pending      pending: - - -
            pending      initializing pending: run - -
            running      pending      pending: - - -
            paused       pending      pending: - - -
            blocked      pending      pending: - run -
            blocked      running      pending: - - -
            blocked      blocked      pending: - - run
            blocked      blocked      running: - - -
            blocked      blocked      blocked: - - unblock
            blocked      blocked      unblocking: finish finish -
            successful   blocked      unblocking: - finish -
            successful   successful   unblocking: - - finish
            successful   successful   successful: - - -
        "#]],
    );
}

#[test]
fn max_parallel_bounds_the_regions_that_roll_out() {
    let table = "pending pending pending pending
                 running pending pending pending
                 running blocked pending pending
                 blocked running running pending
                 blocked blocked pending running";
    check(
        2,
        "",
        table,
        expect![[r#"
            pending pending pending pending: run run - -
            running pending pending pending: - run - -
            running blocked pending pending: - - run -
            blocked running running pending: - - - -
            blocked blocked pending running: - - run -
        "#]],
    );
    check(
        0,
        "",
        table,
        expect![[r#"
            pending pending pending pending: run run run run
            running pending pending pending: - run run run
            running blocked pending pending: - - run run
            blocked running running pending: - - - run
            blocked blocked pending running: - - run -
        "#]],
    );
}

#[test]
fn region_starts_only_when_every_region_has_accepted_the_version() {
    check(
        0,
        "",
        "pending unheard
         pending unregistered
         pending superseded
         pending initializing
         pending done
         pending stopped
         pending cancelled
         pending successful",
        expect![[r#"
            pending unheard: - -
            pending unregistered: - -
            pending superseded: - -
            pending initializing: run -
            pending done: run -
            pending stopped: run -
            pending cancelled: run -
            pending successful: run -
        "#]],
    );
}

#[test]
fn region_that_waits_for_one_that_never_gets_the_version_gives_up() {
    let table = "pending absent pending
                 initializing absent pending
                 failed absent pending
                 blocked absent running";
    check(
        0,
        "fail_local",
        table,
        expect![[r#"
            pending absent pending: give-up - give-up
            initializing absent pending: - - give-up
            failed absent pending: - - give-up
            blocked absent running: - - -
        "#]],
    );
}

#[test]
fn by_default_regions_that_have_not_started_fail_with_another_and_the_others_stay_blocked() {
    check(
        1,
        "",
        "blocked failed  pending pending
         blocked failed  failed  failed
         running failed  pending pending
         blocked blocked blocked failed",
        expect![[r#"
            blocked failed  pending pending: - - fail fail
            blocked failed  failed  failed: - - - -
            running failed  pending pending: - - fail fail
            blocked blocked blocked failed: - - - -
        "#]],
    );
}

#[test]
fn fail_all_fails_every_region_that_is_not_over() {
    check(
        1,
        "fail_all",
        "blocked    failed     pending
         paused     running    failed
         unblocking failed     successful
         initializing failed   cancelled",
        expect![[r#"
            blocked    failed     pending: fail - fail
            paused     running    failed: fail fail -
            unblocking failed     successful: fail - -
            initializing failed   cancelled: - - -
        "#]],
    );
}

#[test]
fn fail_local_lets_the_others_go_on_and_finish() {
    check(
        1,
        "fail_local",
        "failed  pending pending
         failed  blocked pending
         blocked failed  blocked
         blocked blocked failed
         blocked unblocking failed
         blocked failed  failed",
        expect![[r#"
            failed  pending pending: - run -
            failed  blocked pending: - - run
            blocked failed  blocked: - - unblock
            blocked blocked failed: - unblock -
            blocked unblocking failed: finish - -
            blocked failed  failed: finish - -
        "#]],
    );
}

#[test]
fn complete_region_waits_for_the_regions_that_take_part_and_for_no_others() {
    check(
        0,
        "",
        "blocked unheard
         blocked done
         blocked stopped
         blocked unregistered
         blocked superseded
         blocked successful
         successful blocked
         blocked
         pending",
        expect![[r#"
            blocked unheard: - -
            blocked done: finish -
            blocked stopped: finish -
            blocked unregistered: finish -
            blocked superseded: finish -
            blocked successful: finish -
            successful blocked: - finish
            blocked: finish
            pending: run
        "#]],
    );
}

#[test]
fn part_of_a_region_follows_from_its_deployment_or_else_from_its_job() {
    use DeploymentStatus::{Cancelled, Failed, Running};
    let job = |version, stop| Some(Registered { version, stop });
    let rows = [
        (Some(Running), job(3, false), Part::Deployment(Running)),
        (Some(Failed), job(4, false), Part::Deployment(Failed)),
        (Some(Cancelled), job(4, false), Part::Superseded),
        (Some(Cancelled), job(4, true), Part::Stopped),
        (Some(Cancelled), None, Part::Stopped),
        (None, None, Part::Unregistered),
        (None, job(2, false), Part::Unregistered),
        (None, job(3, false), Part::Done),
        (None, job(4, true), Part::Stopped),
        (None, job(4, false), Part::Superseded),
    ];
    for (deployment, job, expected) in rows {
        assert_eq!(Part::of(3, deployment, job), expected, "{deployment:?} {job:?}");
    }
}

/// Regions that see each other late: each looks at the others now and then, and decides on what it saw last.
#[test]
fn regions_with_old_views_never_exceed_max_parallel_and_all_finish() {
    for seed in 0..300_u64 {
        let (count, max) = (2 + (seed % 4) as usize, 1 + (seed / 4 % 3) as usize);
        let multiregion = multiregion(max as i64, "", count);
        let mut state = vec![DeploymentStatus::Pending; count];
        let mut seen = vec![vec![Part::Unheard; count]; count];
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut throw = |sides: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            (dice % sides as u64) as usize
        };
        let mut steps = 0;
        while state.iter().any(|status| *status != DeploymentStatus::Successful) {
            steps += 1;
            assert!(steps < 100_000, "seed {seed}: {state:?}");
            let (own, other) = (throw(count), throw(count));
            match throw(3) {
                0 => seen[own][other] = Part::Deployment(state[other]),
                // The scheduler finds that the region is complete.
                1 if state[own] == DeploymentStatus::Running => state[own] = DeploymentStatus::Blocked,
                _ => {
                    seen[own][own] = Part::Deployment(state[own]);
                    match decide(&multiregion, own, &seen[own]) {
                        None => {}
                        Some(Step::Run) => state[own] = DeploymentStatus::Running,
                        Some(Step::Unblock) => state[own] = DeploymentStatus::Unblocking,
                        Some(Step::Finish) => {
                            let complete = |status: &DeploymentStatus| {
                                Part::Deployment(*status).is_waiting() || *status == DeploymentStatus::Successful
                            };
                            assert!(state.iter().all(complete), "seed {seed}: {state:?}");
                            state[own] = DeploymentStatus::Successful;
                        }
                        Some(Step::Fail | Step::GiveUp) => panic!("seed {seed}: nothing failed"),
                    }
                }
            }
            let running = state.iter().filter(|status| **status == DeploymentStatus::Running).count();
            assert!(running <= max, "seed {seed}: {state:?}");
        }
    }
}
