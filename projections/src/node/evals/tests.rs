//! Tests of the evaluations that follow from a change of a node.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::{Actor, Command, DeregisterJob, Envelope, RegisterJob, RegisterNode};
use songline_model::{EvalId, Job, JobKey, JobType, Node, NodeId, NodeStatus, Time};

use super::{node_evals, node_registration_needs_evals, node_transition_needs_evals};
use crate::story::{id, state_after};
use crate::{State, apply};

fn check(story: &str, node: &str, expected: Expect) {
    tell(&state_after(story), node, expected);
}

fn tell(state: &State, node: &str, expected: Expect) {
    let gone = Node { id: NodeId::from_bytes(id(node)), ..Node::default() };
    let row = state.node(gone.id).map_or(&gone, |row| row);
    let mut ids = 0_u8;
    let evals = node_evals(state, row, 77, Time::from_secs(5), || {
        ids += 1;
        EvalId::from_bytes([ids; 16])
    });
    let told: Vec<_> = evals
        .iter()
        .map(|eval| {
            format!("{} {} {} {} {}", eval.job_id, eval.kind, eval.priority, eval.triggered_by, eval.node_modify_index)
        })
        .collect();
    expected.assert_eq(&told.join("\n"));
}

#[test]
fn each_job_with_an_alloc_on_the_node_is_evaluated_even_a_terminal_alloc() {
    check(
        "node register n1
         job register web groups=g:2
         job register work type=batch groups=g
         job register other groups=g
         plan job=web create=3 place=a1@n1:g,a2@n1:g
         plan job=work create=4 place=a3@n1:g
         plan job=other create=5 place=a4@n2:g
         client a3@n1 complete",
        "n1",
        expect![[r#"
            web service 50 node-update 77
            work batch 50 node-update 77"#]],
    );
}

#[test]
fn purged_job_with_an_alloc_on_the_node_is_evaluated() {
    check(
        "node register n1
         job register work type=batch groups=g
         plan job=work create=3 place=a1@n1:g
         job purge work",
        "n1",
        expect!["work batch 50 node-update 77"],
    );
}

#[test]
fn system_jobs_that_match_the_node_are_evaluated() {
    let mut state = State::new();
    let mut register = |command: Command| {
        let index = state.raft_index() + 1;
        apply(&mut state, index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command)).result.unwrap();
    };
    let id = NodeId::from_bytes(id("n1"));
    let node = Node { id, datacenter: "eu-1".into(), node_pool: "gpu".into(), ..Node::default() };
    register(RegisterNode { node, create_node_pool: true }.into());
    for (name, kind, pool, datacenter, stop) in [
        ("everywhere", "system", "all", "*", false),
        ("here", "system", "gpu", "eu-*", false),
        ("other-pool", "system", "default", "*", false),
        ("other-datacenter", "system", "gpu", "us-*", false),
        ("stopped", "system", "gpu", "*", true),
        ("no-system-job", "service", "gpu", "*", false),
        ("swept", "sysbatch", "gpu", "*", false),
    ] {
        let job = Job {
            id: name.into(),
            namespace: "default".into(),
            kind: JobType::from(kind),
            priority: 70,
            node_pool: pool.into(),
            datacenters: Some(vec![datacenter.into()]),
            stop,
            ..Job::default()
        };
        register(RegisterJob { job: Arc::new(job), versions_max: 6, ..RegisterJob::default() }.into());
    }
    tell(
        &state,
        "n1",
        expect![[r#"
        everywhere system 70 node-update 77
        here system 70 node-update 77"#]],
    );
}

#[test]
fn stopped_and_purged_system_jobs_are_not_evaluated_until_they_are_registered_again() {
    let mut state = state_after("node register n1");
    let mut run = |command: Command| {
        let index = state.raft_index() + 1;
        apply(&mut state, index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command)).result.unwrap();
        let evals =
            node_evals(&state, state.node(NodeId::from_bytes(id("n1"))).unwrap(), 77, Time::from_secs(5), || {
                EvalId::from_bytes([1; 16])
            });
        evals.iter().map(|eval| eval.job_id.to_string()).collect::<Vec<_>>()
    };
    let register = |name: &str| {
        let job = Job {
            id: name.into(),
            namespace: "default".into(),
            kind: JobType::System,
            node_pool: "all".into(),
            datacenters: Some(vec!["*".into()]),
            ..Job::default()
        };
        RegisterJob { job: Arc::new(job), versions_max: 6, ..RegisterJob::default() }.into()
    };
    let deregister = |name: &str, purge| {
        let job = JobKey::new("default", name);
        DeregisterJob { job, purge, versions_max: 6, ..DeregisterJob::default() }.into()
    };
    assert_eq!(run(register("net")), ["net"]);
    assert_eq!(run(register("logs")), ["logs", "net"]);
    assert_eq!(run(deregister("net", false)), ["logs"]);
    assert_eq!(run(deregister("logs", true)), [""; 0]);
    assert_eq!(run(register("net")), ["net"]);
}

#[test]
fn jobs_of_a_deregistered_node_are_evaluated() {
    check(
        "node register n1
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         node deregister n1",
        "n1",
        expect!["web service 50 node-update 77"],
    );
}

#[test]
fn node_status_change_needs_evaluations_when_allocs_can_come_or_must_go() {
    use NodeStatus::{Disconnected, Down, Initializing, Ready};
    let all = [Initializing, Ready, Down, Disconnected];
    let needed: Vec<_> = all
        .iter()
        .flat_map(|before| all.iter().map(move |after| (*before, *after)))
        .filter(|(before, after)| node_transition_needs_evals(*before, *after))
        .map(|(before, after)| format!("{before} -> {after}"))
        .collect();
    expect![[r#"
        initializing -> ready
        initializing -> down
        initializing -> disconnected
        ready -> down
        ready -> disconnected
        down -> ready
        down -> down
        down -> disconnected
        disconnected -> initializing
        disconnected -> ready
        disconnected -> down"#]]
    .assert_eq(&needed.join("\n"));
}

#[test]
fn node_registration_needs_evaluations_when_placement_attributes_change() {
    let node = || Node { name: "a".into(), status: NodeStatus::Ready, ..Node::default() };
    let after = |change: fn(&mut Node)| {
        let mut after = node();
        change(&mut after);
        node_registration_needs_evals(Some(&node()), &after)
    };
    assert!(!after(|_| ()));
    assert!(!after(|node| node.node_pool = "gpu".into()), "a pool alone is not looked at");
    assert!(after(|node| node.datacenter = "dc2".into()));
    assert!(after(|node| node.meta = Some([("k".into(), "v".into())].into())));
    assert!(after(|node| node.status = NodeStatus::Down));
    assert!(node_registration_needs_evals(None, &node()), "a new node that is ready");
    assert!(!node_registration_needs_evals(None, &Node::default()), "a new node that is not");
}
