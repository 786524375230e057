//! Stories of what-if questions: changes and what would become of jobs and nodes; the state stays as it is.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_model::{AllocOutcome, JobKey, PreemptionConfig, SchedulerConfiguration, Time};

use super::*;
use crate::generic::tests::cluster::{Cluster, job};

const NOW: Time = Time::from_secs(1_000_000);

/// Builds a cluster by the lines of `story`, and asks: `register j WORDS`, `stop j`, `drain n`, `lose n`, `add 2 n`,
/// `preempt` (services may).
fn ask(story: &str, question: &str) -> (Result<WhatIf, WhatIfError>, bool) {
    let mut cluster = Cluster::new();
    story.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| cluster.line(line));
    let state = &cluster.state;
    let node = |name: &str| {
        let found = state.nodes().find(|node| node.name == *name).map(|node| node.id);
        found.unwrap_or(NodeId::from_bytes([0xee; 16]))
    };
    let supposition = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["register", id, ..] => {
                let words: BTreeMap<_, _> =
                    words[2..].iter().map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
                Supposition::Register(Arc::new(job(id, &words)))
            }
            ["stop", id] => Supposition::Deregister(JobKey::new("default", id)),
            ["drain", name] => Supposition::Drain(node(name)),
            ["lose", name] => Supposition::Lose(node(name)),
            ["add", count, name] => Supposition::Add { like: node(name), count: count.parse().unwrap() },
            ["preempt"] => {
                let preemption_config = PreemptionConfig { service_scheduler_enabled: true, ..Default::default() };
                Supposition::Configure(SchedulerConfiguration { preemption_config, ..Default::default() })
            }
            _ => panic!("no such line: {line}"),
        }
    };
    let changes: Vec<_> = question.lines().map(str::trim).filter(|line| !line.is_empty()).map(supposition).collect();
    let before = state.digest();
    let answer = what_if(state, &changes, 7, NOW);
    assert_eq!(what_if(state, &changes, 7, NOW), answer, "the same question has the same answer");
    (answer, before == state.digest())
}

fn check(story: &str, question: &str, expected: Expect) {
    let (answer, unchanged) = ask(story, question);
    assert!(unchanged, "nothing is written");
    let answer = answer.unwrap().shown(|_| true);
    let mut told = String::new();
    for job in &answer.jobs {
        let lists = [("place", &job.placed), ("move", &job.moved), ("stop", &job.stopped), ("preempt", &job.preempted)];
        for (what, allocs) in lists {
            for AllocOutcome { name, from, to, reason, preempted, .. } in allocs {
                let way = [("from", from), ("to", to)].map(|(word, node)| match node.is_empty() {
                    true => String::new(),
                    false => format!(" {word} {node}"),
                });
                let why = if reason.is_empty() || *preempted { String::new() } else { format!(": {reason}") };
                let how = if *preempted && what == "move" { ", preempted" } else { "" };
                writeln!(told, "{what} {name}{}{}{how}{why}", way[0], way[1]).unwrap();
            }
        }
        for (group, blocked) in &job.blocked {
            let dimensions: Vec<_> = blocked
                .metric
                .dimension_exhausted
                .as_deref()
                .into_iter()
                .flatten()
                .map(|(d, n)| format!("{d}: {n}"))
                .collect();
            writeln!(told, "blocked {}.{group}: {} wait, {}", job.id, blocked.queued, dimensions.join(", ")).unwrap();
        }
    }
    for node in &answer.nodes {
        writeln!(told, "node {}: {} come, {} leave", node.name, node.comes, node.leaves).unwrap();
    }
    expected.assert_eq(&told);
}

#[test]
fn lost_node_moves_its_allocs_and_what_has_no_room_is_blocked_with_the_dimension() {
    check(
        "settings
         node a cpu=1000
         node b cpu=1500
         job j count=4 cpu=500
         run j
         client j.web[0] running
         client j.web[1] running
         client j.web[2] running
         client j.web[3] running",
        "lose a",
        expect![[r#"
            move j.web[0] from a to b: alloc is lost since its node is down
            stop j.web[2] from a: alloc is lost since its node is down
            blocked j.web: 1 wait, cpu: 1
            node a: 0 come, 2 leave
            node b: 1 come, 0 leave
        "#]],
    );
}

#[test]
fn added_nodes_take_what_was_blocked() {
    check(
        "settings
         node a cpu=1000
         job j count=4 cpu=500
         run j",
        "add 1 a",
        expect![[r#"
            place j.web[2] to a+1
            place j.web[3] to a+1
            node a+1: 2 come, 0 leave
        "#]],
    );
}

#[test]
fn drained_node_is_empty_once_its_allocs_have_moved() {
    check(
        "settings
         node a
         job j count=2 cpu=500
         run j
         client j.web[0] running
         client j.web[1] running
         node b",
        "drain a",
        expect![[r#"
            move j.web[0] from a to b: alloc is being migrated
            move j.web[1] from a to b: alloc is being migrated
            node a: 0 come, 2 leave
            node b: 2 come, 0 leave
        "#]],
    );
}

#[test]
fn registered_job_preempts_when_the_settings_allow_it() {
    let story = "settings
         node a cpu=1000
         node b cpu=500
         job low count=1 cpu=1000 priority=10
         run low
         client low.web[0] running";
    check(
        story,
        "register j count=1 cpu=1000 priority=90",
        expect![[r#"
        blocked j.web: 1 wait, cpu: 2
    "#]],
    );
    check(
        story,
        "preempt
         register j count=1 cpu=1000 priority=90",
        expect![[r#"
            place j.web[0] to a
            preempt low.web[0] from a
            blocked low.web: 1 wait, cpu: 2
            node a: 1 come, 1 leave
        "#]],
    );
}

#[test]
fn stopped_job_makes_room_for_blocked_ones() {
    check(
        "settings
         node a cpu=1000
         job old count=1 cpu=1000
         run old
         client old.web[0] running
         job new count=1 cpu=1000
         run new",
        "stop old",
        expect![[r#"
            place new.web[0] to a
            stop old.web[0] from a: alloc not needed due to job update
            node a: 1 come, 1 leave
        "#]],
    );
}

#[test]
fn question_with_too_much_work_or_unknown_objects_is_refused() {
    let refusal = |question: &str| ask("node a", question).0.unwrap_err().to_string();
    assert_eq!(refusal(""), "what-if: the list of changes is empty");
    assert_eq!(
        refusal(&"stop j\n".repeat(CHANGES_MAX + 1)),
        "what-if: 101 changes are more than 100; ask for fewer at once"
    );
    assert_eq!(refusal("add 600 a\nadd 600 a"), "what-if: 1200 new nodes are more than 1000; ask for fewer at once");
    assert_eq!(refusal("stop j"), "what-if: there is no job \"j\" in namespace \"default\"");
    assert_eq!(refusal("lose x"), "what-if: there is no node eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee");
}

#[test]
fn caller_sees_only_the_jobs_that_he_may_read_and_their_part_of_the_nodes() {
    let story = "settings
         node a
         job j count=2 cpu=500
         run j
         client j.web[0] running
         client j.web[1] running
         node b";
    let answer = ask(story, "drain a").0.unwrap();
    assert_eq!(answer.clone().shown(|_| true).nodes.len(), 2);
    let hidden = answer.shown(|namespace| namespace != "default");
    assert!(hidden.jobs.is_empty() && hidden.nodes.is_empty(), "{hidden:?}");
}
