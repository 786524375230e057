//! Stories of clusters: each line is a look of the leader, `seconds: name state ..`, with the resulting effect.

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::*;

/// Parses a server: `voter` or `new`, and its state.
fn peer(words: &str, last_index: u64) -> Peer {
    let voter = words.contains("voter");
    let silence = if words.contains("gone") {
        Dur::from_mins(2)
    } else if words.contains("silent") {
        Dur::from_secs(3)
    } else {
        Dur::from_millis(100)
    };
    let matched = if words.contains("behind") { last_index.saturating_sub(10_000) } else { last_index };
    Peer { voter, wants_vote: !words.contains("reader"), silence, matched }
}

fn check(config: &AutopilotConfig, expected: usize, story: &str, expect: Expect) {
    let mut autopilot = Autopilot::new();
    let mut out = String::new();
    for (turn, line) in story.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let (at, servers) = line.split_once(':').expect("seconds come first");
        let last_index = 100_000 + 1_000 * turn as u64;
        let peers = servers.split(',').map(str::trim).filter(|text| !text.is_empty()).map(|text| {
            let (id, words) = text.split_once(' ').expect("a number and words");
            (id.parse().expect("a number"), peer(words, last_index))
        });
        let look = Look {
            now: Time::from_secs(at.parse().expect("seconds")),
            leader: 1,
            last_index,
            peers: peers.collect(),
            expected,
        };
        let effect = match autopilot.on_look(&look, config) {
            None => "nothing".to_owned(),
            Some(effect) => format!("{effect:?}"),
        };
        let health = autopilot.health();
        let unwell: Vec<_> = health.servers.iter().filter(|(_, server)| !server.healthy).map(|(id, _)| *id).collect();
        writeln!(out, "{line} -> {effect}; tolerates {}, unwell {unwell:?}", health.failure_tolerance())
            .expect("a string takes all");
    }
    expect.assert_eq(&out);
}

#[test]
fn new_server_is_promoted_after_its_stabilization_time() {
    check(
        &AutopilotConfig::initial(),
        3,
        "0: 2 voter, 3 new behind
         5: 2 voter, 3 new
         14: 2 voter, 3 new
         15: 2 voter, 3 new
         16: 2 voter, 3 voter",
        expect![[r#"
            0: 2 voter, 3 new behind -> nothing; tolerates 0, unwell [3]
            5: 2 voter, 3 new -> nothing; tolerates 0, unwell []
            14: 2 voter, 3 new -> nothing; tolerates 0, unwell []
            15: 2 voter, 3 new -> Promote(3); tolerates 0, unwell []
            16: 2 voter, 3 voter -> nothing; tolerates 1, unwell []
        "#]],
    );
}

#[test]
fn unhealthy_server_restarts_its_stabilization_time() {
    check(
        &AutopilotConfig::initial(),
        3,
        "0: 2 voter, 3 new
         9: 2 voter, 3 new silent
         11: 2 voter, 3 new
         20: 2 voter, 3 new
         21: 2 voter, 3 new",
        expect![[r#"
            0: 2 voter, 3 new -> nothing; tolerates 0, unwell []
            9: 2 voter, 3 new silent -> nothing; tolerates 0, unwell [3]
            11: 2 voter, 3 new -> nothing; tolerates 0, unwell []
            20: 2 voter, 3 new -> nothing; tolerates 0, unwell []
            21: 2 voter, 3 new -> Promote(3); tolerates 0, unwell []
        "#]],
    );
}

#[test]
fn non_voting_server_is_never_promoted() {
    check(
        &AutopilotConfig::initial(),
        3,
        "0: 2 voter, 3 voter, 4 new reader
         60: 2 voter, 3 voter, 4 new reader",
        expect![[r#"
            0: 2 voter, 3 voter, 4 new reader -> nothing; tolerates 1, unwell []
            60: 2 voter, 3 voter, 4 new reader -> nothing; tolerates 1, unwell []
        "#]],
    );
}

#[test]
fn dead_voter_is_removed_only_after_a_replacement_has_joined() {
    check(
        &AutopilotConfig::initial(),
        3,
        "0: 2 voter, 3 voter
         10: 2 voter, 3 voter silent
         100: 2 voter, 3 voter gone
         200: 2 voter, 3 voter gone, 4 new behind
         201: 2 voter, 4 new",
        expect![[r#"
            0: 2 voter, 3 voter -> nothing; tolerates 1, unwell []
            10: 2 voter, 3 voter silent -> nothing; tolerates 0, unwell [3]
            100: 2 voter, 3 voter gone -> nothing; tolerates 0, unwell [3]
            200: 2 voter, 3 voter gone, 4 new behind -> Remove(3); tolerates 0, unwell [3, 4]
            201: 2 voter, 4 new -> nothing; tolerates 0, unwell []
        "#]],
    );
}

#[test]
fn min_quorum_promotes_the_new_server_before_removing_the_dead_one() {
    let config = AutopilotConfig { min_quorum: 3, ..AutopilotConfig::initial() };
    check(
        &config,
        3,
        "0: 2 voter, 3 voter gone, 4 new
         10: 2 voter, 3 voter gone, 4 new
         11: 2 voter, 3 voter gone, 4 voter",
        expect![[r#"
            0: 2 voter, 3 voter gone, 4 new -> nothing; tolerates 0, unwell [3]
            10: 2 voter, 3 voter gone, 4 new -> Promote(4); tolerates 0, unwell [3]
            11: 2 voter, 3 voter gone, 4 voter -> Remove(3); tolerates 0, unwell [3]
        "#]],
    );
}

#[test]
fn dead_servers_stay_without_a_live_majority_or_with_cleanup_disabled() {
    check(
        &AutopilotConfig::initial(),
        0,
        "0: 2 voter gone, 3 voter gone, 4 voter gone, 5 voter
         1: 2 voter, 3 voter gone, 4 voter gone, 5 voter",
        expect![[r#"
            0: 2 voter gone, 3 voter gone, 4 voter gone, 5 voter -> nothing; tolerates 0, unwell [2, 3, 4]
            1: 2 voter, 3 voter gone, 4 voter gone, 5 voter -> Remove(3); tolerates 0, unwell [3, 4]
        "#]],
    );
    let config = AutopilotConfig { cleanup_dead_servers: false, ..AutopilotConfig::initial() };
    check(
        &config,
        0,
        "0: 2 voter gone, 3 voter, 4 new gone",
        expect![[r#"
        0: 2 voter gone, 3 voter, 4 new gone -> nothing; tolerates 0, unwell [2, 4]
    "#]],
    );
}

#[test]
fn dead_non_voter_is_removed() {
    check(
        &AutopilotConfig::initial(),
        3,
        "0: 2 voter, 3 voter, 4 new gone",
        expect![[r#"
        0: 2 voter, 3 voter, 4 new gone -> Remove(4); tolerates 1, unwell [4]
    "#]],
    );
}

#[test]
fn peer_at_the_last_index_of_the_previous_look_is_healthy_under_load() {
    let mut autopilot = Autopilot::new();
    let mut look = Look { now: Time::from_secs(0), leader: 1, last_index: 1_000, peers: BTreeMap::new(), expected: 3 };
    for second in 0..5 {
        look.now = Time::from_secs(second);
        look.peers.insert(2, Peer { voter: true, wants_vote: true, silence: Dur::ZERO, matched: look.last_index });
        look.last_index += 15_000;
        autopilot.on_look(&look, &AutopilotConfig::initial());
        let server = autopilot.health().servers[&2];
        // The first look has no previous index to compare with.
        assert_eq!(server.healthy, second > 0, "at {second}");
    }
}
