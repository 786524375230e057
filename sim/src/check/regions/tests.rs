//! Two or three regions with a job: steps as words, and regions at rest.

use expect_test::{Expect, expect};
use songline_model::{DeploymentStatus, OnFailure};

use super::{JobAtRest, Part, Registration, Rollouts, Step, Why, all_have_ended};

fn registration(id: &str, regions: &[&str], max_parallel: usize, on_failure: OnFailure) -> Registration {
    Registration {
        id: id.to_owned(),
        regions: regions.iter().map(|name| (*name).to_owned()).collect(),
        max_parallel: (max_parallel > 0).then_some(max_parallel),
        on_failure,
    }
}

/// Steps of version 1 of a job of the regions a, b and c: `a has`, `a is STATUS`, `a fails` with a peer, `a gives up`,
/// `a stops`.
fn check(max_parallel: usize, on_failure: OnFailure, story: &str, expected: &Expect) {
    let mut rollouts = Rollouts::default();
    let mut verdict = Ok(());
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let step = |status, why| Step { region: words[0].to_owned(), job: "j".to_owned(), version: 1, status, why };
        verdict = verdict.and(match words[1] {
            "has" => {
                let id = words.get(2).copied().unwrap_or("x");
                rollouts.registered(words[0], "j", 1, registration(id, &["a", "b", "c"], max_parallel, on_failure))
            }
            "stops" => {
                rollouts.stopped(words[0], "j", 1);
                Ok(())
            }
            "fails" => rollouts.moved(&step(DeploymentStatus::Failed, Why::Peer)),
            "gives" => rollouts.moved(&step(DeploymentStatus::Failed, Why::Incomplete)),
            _ => rollouts.moved(&step(DeploymentStatus::from_word(words[2]).unwrap(), Why::Own)),
        });
    }
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| "sound".to_owned()));
}

#[test]
fn regions_that_start_in_turn_and_finish_together_are_sound() {
    check(
        1,
        OnFailure::FailAll,
        "a has
         b has
         c has
         a is pending
         b is pending
         c is pending
         a is running
         a is blocked
         b is running
         b is blocked
         c is running
         c is blocked
         c is unblocking
         a is successful",
        &expect!["sound"],
    );
}

#[test]
fn one_version_is_one_job() {
    check(
        1,
        OnFailure::FailAll,
        "a has x
         b has y",
        &expect!["version 1 of j is x in one region and y in b"],
    );
}

#[test]
fn region_does_not_start_before_all_have_the_version() {
    let story = "a has
         b has
         a is pending
         a is running";
    check(0, OnFailure::FailAll, story, &expect!["a starts version 1 of j, and c does not have it"]);
}

#[test]
fn stopped_region_does_not_hold_the_others() {
    let story = "a has
         b has
         c stops
         a is pending
         a is running";
    check(0, OnFailure::FailAll, story, &expect!["sound"]);
}

#[test]
fn more_regions_than_max_parallel_are_found() {
    let story = "a has
         b has
         c has
         a is pending
         b is pending
         a is running
         b is running";
    check(2, OnFailure::FailAll, story, &expect!["sound"]);
    check(1, OnFailure::FailAll, story, &expect![[r#"["a", "b"] roll out version 1 of j at once, and 1 may"#]]);
}

#[test]
fn failure_with_a_peer_needs_a_failed_peer_and_a_strategy() {
    let alone = "a has
         b has
         a is pending
         a fails";
    let expected = expect!["a fails version 1 of j because of a peer, and none has failed"];
    check(0, OnFailure::FailAll, alone, &expected);
    let with_another = "a has
         b has
         a is pending
         b is failed
         a fails";
    check(0, OnFailure::FailAll, with_another, &expect!["sound"]);
    check(0, OnFailure::FailFollowing, with_another, &expect!["sound"]);
    let expected = expect!["a fails version 1 of j because of a peer, and its strategy lets it go on"];
    check(0, OnFailure::FailLocal, with_another, &expected);
    let started = "a has
         b has
         c has
         a is pending
         a is running
         b is failed
         a fails";
    let expected = expect!["a fails version 1 of j because of a peer, and it had started"];
    check(0, OnFailure::FailFollowing, started, &expected);
}

#[test]
fn region_does_not_finish_while_another_rolls_out() {
    let story = "a has
         b has
         c has
         b is pending
         a is successful";
    check(0, OnFailure::FailAll, story, &expect!["a finishes version 1 of j while b is pending"]);
}

/// Parts in the notation `region version status`; the statuses `peer` and `incomplete` are failures because of other
/// regions.
fn at_rest(on_failure: OnFailure, parts: &[&str], expected: &Expect) {
    let part = |words: &&str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let part = words.get(1).map(|version| {
            let (status, why) = match words[2] {
                "peer" => (Some(DeploymentStatus::Failed), Why::Peer),
                "incomplete" => (Some(DeploymentStatus::Failed), Why::Incomplete),
                status => (DeploymentStatus::from_word(status), Why::Own),
            };
            Part { version: version.parse().unwrap(), is_stopped: words[2] == "stopped", status, why }
        });
        (words[0].to_owned(), part)
    };
    let registration = registration("x", &["a", "b"], 1, on_failure);
    let job = JobAtRest { job: "j".to_owned(), registration, parts: parts.iter().map(part).collect() };
    expected.assert_eq(&all_have_ended(&[job]).map_or_else(|error| error.to_string(), |()| "ended".to_owned()));
}

#[test]
fn regions_have_the_same_version_or_none() {
    at_rest(OnFailure::FailAll, &["a 3 successful", "b 3 successful"], &expect!["ended"]);
    at_rest(OnFailure::FailAll, &["a 3 stopped", "b 2 stopped"], &expect!["ended"]);
    at_rest(
        OnFailure::FailAll,
        &["a 3 successful", "b 2 successful"],
        &expect!["j is not the same in all of its regions: a v3 successful, b v2 successful"],
    );
    at_rest(
        OnFailure::FailAll,
        &["a 3 pending", "b"],
        &expect!["j is not the same in all of its regions: a v3 pending, b has none"],
    );
}

#[test]
fn version_that_not_all_regions_have_has_failed_where_it_is() {
    at_rest(OnFailure::FailLocal, &["a 3 incomplete", "b 2 successful"], &expect!["ended"]);
    at_rest(OnFailure::FailLocal, &["a 3 incomplete", "b"], &expect!["ended"]);
    at_rest(OnFailure::FailLocal, &["a 3 incomplete", "b 3 peer", "c 2 stopped"], &expect!["ended"]);
    at_rest(
        OnFailure::FailLocal,
        &["a 3 failed", "b 2 successful"],
        &expect!["j is not the same in all of its regions: a v3 failed, b v2 successful"],
    );
    at_rest(
        OnFailure::FailLocal,
        &["a 3 incomplete", "b 2 pending"],
        &expect!["j is not the same in all of its regions: a v3 failed as incomplete, b v2 pending"],
    );
}

#[test]
fn region_gives_up_only_what_another_lacks() {
    let lacks = "a has
         b has
         a is pending
         a gives up";
    check(0, OnFailure::FailLocal, lacks, &expect!["sound"]);
    let complete = "a has
         b has
         c has
         a is pending
         a gives up";
    check(0, OnFailure::FailLocal, complete, &expect!["a gives version 1 of j up, and all regions have it"]);
}

#[test]
fn region_at_rest_waits_for_no_other() {
    at_rest(
        OnFailure::FailLocal,
        &["a 3 blocked", "b 3 successful"],
        &expect!["the deployment of j in a is still blocked: a v3 blocked, b v3 successful"],
    );
}

#[test]
fn failed_region_has_the_effect_of_the_strategy() {
    at_rest(OnFailure::FailAll, &["a 3 peer", "b 3 failed"], &expect!["ended"]);
    at_rest(
        OnFailure::FailAll,
        &["a 3 successful", "b 3 failed"],
        &expect![
            "the deployment of j in a is successful although its strategy is FailAll: a v3 successful, b v3 failed"
        ],
    );
    at_rest(OnFailure::FailLocal, &["a 3 successful", "b 3 failed"], &expect!["ended"]);
    at_rest(
        OnFailure::FailLocal,
        &["a 3 blocked", "b 3 failed"],
        &expect!["the deployment of j in a is still blocked: a v3 blocked, b v3 failed"],
    );
    at_rest(OnFailure::FailFollowing, &["a 3 blocked", "b 3 failed"], &expect!["ended"]);
    at_rest(
        OnFailure::FailFollowing,
        &["a 3 failed", "b 3 pending"],
        &expect!["the deployment of j in b is still pending: a v3 failed, b v3 pending"],
    );
    at_rest(
        OnFailure::FailAll,
        &["a 3 peer", "b 3 peer"],
        &expect![
            "the deployment of j in a is failed although its strategy is FailAll: a v3 failed with a peer, b v3 failed with a peer"
        ],
    );
}
