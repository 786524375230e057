//! Reports of nodes: accepted or dropped, and the evaluations that follow.

use expect_test::{Expect, expect};
use songline_commands::ClientAlloc;
use songline_model::{AllocClientStatus, EvalId, Node, NodeId, NodeStatus};

use super::{entry, refusal, refused_at};
use crate::generic::tests::cluster::Cluster;

/// After the story, these reports come in one batch, each `ALLOC NODE STATUS`. Prints the entry.
fn check(story: &str, said: &str, expected: Expect) {
    let mut cluster = Cluster::new();
    story.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| cluster.line(line));
    let state = &cluster.state;
    let report = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let alloc = state.allocs().find(|alloc| alloc.name == *words[0]).unwrap();
        let node = state.nodes().find(|node| node.name == *words[1]).unwrap();
        let client_status = AllocClientStatus::from_word(words[2]).unwrap();
        ClientAlloc { id: alloc.id, node_id: node.id, client_status, ..ClientAlloc::default() }
    };
    let reports: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).map(report).collect();
    let mut ids = 100;
    let (entry, dropped) = entry(state, reports, cluster.now, || {
        ids += 1;
        EvalId::from_bytes([ids; 16])
    });
    assert!(entry.allocs.iter().all(|alloc| alloc.modify_time == cluster.now), "times are the server's");
    let evals: Vec<_> = entry.evals.iter().map(|eval| format!(", {} {}", eval.job_id, eval.triggered_by)).collect();
    expected.assert_eq(&format!("{} taken, {dropped} dropped{}", entry.allocs.len(), evals.join("")));
}

#[test]
fn completed_alloc_needs_no_evaluation() {
    check("node a\n job j count=1\n run j", "j.web[0] a running\n j.web[0] a complete", expect!["2 taken, 0 dropped"]);
}

#[test]
fn reschedulable_failures_of_a_job_need_one_evaluation_per_batch() {
    check(
        "node a\n job j count=2\n run j",
        "j.web[0] a failed\n j.web[1] a failed",
        expect!["2 taken, 0 dropped, j alloc-failure"],
    );
}

#[test]
fn failed_alloc_without_attempts_needs_no_evaluation() {
    check("node a\n job j count=1 attempts=0\n run j", "j.web[0] a failed", expect!["1 taken, 0 dropped"]);
}

#[test]
fn any_report_of_an_unknown_alloc_triggers_a_reconnect_evaluation() {
    let story = "node a
         job j count=2 disconnect=300 delay=60
         run j
         client j.web[0] running
         client j.web[1] running
         disconnect a
         run j
         connect a";
    check(story, "j.web[0] a running", expect!["1 taken, 0 dropped, j reconnect"]);
    check(story, "j.web[0] a failed\n j.web[1] a running", expect!["2 taken, 0 dropped, j reconnect"]);
}

#[test]
fn alloc_report_of_a_purged_job_triggers_a_deregister_evaluation() {
    check(
        "node a\n job j count=1\n run j\n purge j",
        "j.web[0] a complete",
        expect!["1 taken, 0 dropped, j job-deregister"],
    );
}

#[test]
fn node_can_report_only_its_own_allocs() {
    check(
        "node a\n job j count=1\n run j\n node b",
        "j.web[0] b failed\n j.web[0] a running",
        expect!["1 taken, 1 dropped"],
    );
}

#[test]
fn report_of_a_down_or_disconnected_node_is_refused_with_the_reason() {
    let node = |status| Node { id: NodeId::from_bytes([0x11; 16]), status, ..Node::default() };
    let told: Vec<_> =
        NodeStatus::ALL.iter().map(|status| format!("{status}: {:?}", refusal(&node(*status)))).collect();
    expect![[r#"
        initializing: None
        ready: None
        down: Some("node 11111111-1111-1111-1111-111111111111 is not allowed to update allocs while in status down")
        disconnected: Some("node 11111111-1111-1111-1111-111111111111 is not allowed to update allocs while in status disconnected")"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn report_dropped_by_its_entry_is_refused_afterwards() {
    let mut cluster = Cluster::new();
    for line in ["node a", "job j count=1", "run j", "client j.web[0] running"] {
        cluster.line(line);
    }
    let id = cluster.state.nodes().next().unwrap().id;
    let index = cluster.state.applied_index();
    assert_eq!(refused_at(&cluster.state, id, index), None);
    cluster.line("disconnect a");
    cluster.line("client j.web[0] running");
    let refused = refused_at(&cluster.state, id, cluster.state.applied_index()).unwrap();
    assert!(refused.ends_with("is not allowed to update allocs while in status disconnected"), "{refused}");
    let gone = NodeId::from_bytes([9; 16]);
    assert_eq!(refused_at(&cluster.state, gone, index), Some(format!("node {gone} not found")));
}
