//! Dry runs: their results, and that the state stays unchanged.

use std::collections::BTreeMap;

use songline_model::Time;

use super::dry_run;
use crate::generic::tests::cluster::{Cluster, job};

fn words(text: &'static str) -> BTreeMap<&'static str, &'static str> {
    text.split_whitespace().map(|word| word.split_once('=').unwrap_or((word, ""))).collect()
}

fn cluster(story: &str) -> Cluster {
    let mut cluster = Cluster::new();
    story.lines().map(str::trim).for_each(|line| cluster.line(line));
    cluster
}

/// Runs a dry run of job `j` and compares the lines of its result; the state may not change.
#[track_caller]
fn check(story: &str, tried: &'static str, expected: &[&str]) {
    let cluster = cluster(story);
    let before = cluster.state.digest();
    let dry = dry_run(&cluster.state, job("j", &words(tried)), 5, Time::from_secs(1_000_000));
    assert_eq!(before, cluster.state.digest());
    let mut told = vec![format!("check index {}", dry.job_modify_index)];
    for (group, desired) in &dry.annotations.desired_tg_updates {
        let counts = [desired.ignore, desired.place, desired.stop, desired.in_place_update, desired.destructive_update];
        told.push(format!(
            "{group} ignore {} place {} stop {} in place {} destructive {}",
            counts[0], counts[1], counts[2], counts[3], counts[4]
        ));
    }
    told.extend(dry.preempted.iter().map(|alloc| format!("{} would be preempted", alloc.name)));
    told.extend(dry.failed.keys().map(|group| format!("{group} fails")));
    told.extend(
        dry.queued
            .iter()
            .filter(|(_, waiting)| **waiting > 0)
            .map(|(group, waiting)| format!("{group} waits for {waiting}")),
    );
    told.extend(dry.created_evals.iter().map(|eval| format!("eval {} {}", eval.triggered_by, eval.status)));
    assert_eq!(told, expected);
}

#[test]
fn dry_run_of_a_new_job_lists_placements() {
    check("node a", "count=2", &["check index 0", "web ignore 0 place 2 stop 0 in place 0 destructive 0"]);
}

#[test]
fn dry_run_of_a_job_without_room_shows_the_blocked_evaluation() {
    check(
        "node a cpu=100",
        "count=2",
        &[
            "check index 0",
            "web ignore 0 place 2 stop 0 in place 0 destructive 0",
            "web fails",
            "web waits for 2",
            "eval queued-allocs blocked",
        ],
    );
}

#[test]
fn dry_run_of_a_changed_job_lists_stops_and_updates() {
    let story = "node a\njob j count=3\nrun j";
    check(story, "count=2 kill=9", &["check index 2", "web ignore 0 place 0 stop 1 in place 2 destructive 0"]);
    check(story, "count=3 env=2", &["check index 2", "web ignore 0 place 0 stop 0 in place 0 destructive 3"]);
    check(story, "count=3", &["check index 2", "web ignore 3 place 0 stop 0 in place 0 destructive 0"]);
}

#[test]
fn dry_run_of_a_system_job_counts_only_the_nodes_that_may_run_it() {
    check(
        "node a meta.ssd=1\nnode b\nnode c meta.ssd=1",
        "system constraint=${meta.ssd},is_set,",
        &["check index 0", "web ignore 0 place 2 stop 0 in place 0 destructive 0"],
    );
}

#[test]
fn dry_run_of_a_system_job_without_room_shows_the_blocked_evaluation() {
    check(
        "node a cpu=100\nnode b\nnode c cpu=100",
        "system",
        &[
            "check index 0",
            "web ignore 0 place 3 stop 0 in place 0 destructive 0",
            "web fails",
            "web waits for 2",
            "eval queued-allocs blocked",
        ],
    );
}

#[test]
fn dry_run_of_a_changed_system_job_counts_every_replacement_of_a_rolling_update() {
    let story = "node a\nnode b\nnode c\njob j system\nrun j";
    let updates = "web ignore 0 place 0 stop 0 in place 0 destructive 3";
    check(story, "system env=2", &["check index 4", updates]);
    let rolling = &["check index 4", updates, "eval rolling-update pending"];
    check(story, "system env=2 parallel=2 stagger=30", rolling);
    check(story, "system kill=9", &["check index 4", "web ignore 0 place 0 stop 0 in place 3 destructive 0"]);
    check(story, "system", &["check index 4", "web ignore 3 place 0 stop 0 in place 0 destructive 0"]);
}

#[test]
fn dry_run_of_a_sysbatch_job_leaves_finished_allocs() {
    let story = "node a\njob j sysbatch\nrun j\nclient j.web[0] complete\nnode b";
    check(story, "sysbatch", &["check index 2", "web ignore 1 place 1 stop 0 in place 0 destructive 0"]);
    check(story, "sysbatch env=2", &["check index 2", "web ignore 0 place 1 stop 0 in place 0 destructive 1"]);
}

#[test]
fn dry_run_names_the_allocs_that_would_be_preempted() {
    check(
        "node n1 cpu=2500
         settings service_preempts
         job low priority=20 cpu=1500
         run low",
        "priority=70 cpu=2000",
        &["check index 0", "web ignore 0 place 1 stop 0 in place 0 destructive 0", "low.web[0] would be preempted"],
    );
}
