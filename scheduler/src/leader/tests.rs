//! Stories of the leader's machines on a real state: each line is a command or a time, the expected text lists the
//! proposals.

mod draining;

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::{ClientAlloc, Command, RegisterJob, UpdateAllocsFromClient};
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, Allocation, Dur, EvalId, EvalStatus, Evaluation, Job, NodeId, Task,
    TaskCsiPluginConfig, TaskGroup, Time,
};
use songline_projections::Change;

use super::digests::Digests;
use super::evals::EvalQueues;
use super::{deployments, drains, gc, heartbeats};
use crate::generic::tests::cluster::Cluster;

/// Adds to the language of [`Cluster`]: `health NAME true|false`, `deployments SECS` (proposals at that time), `gc` (rows
/// that a forced collection deletes; `gc evals` deletes no jobs), `missed NODE` (its next status), `unlooked NODE`
/// (whether the evaluations of its absence are missing), and the lines of [`draining::line`].
fn check(story: &str, expected: Expect) {
    let mut cluster = Cluster::new();
    let start = Time::from_secs(1_000_000);
    let mut said = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        let at = |word: &str| start.plus(Dur::from_secs(word.parse().unwrap()));
        let answer = match words[..] {
            ["health", name, healthy] => {
                health(&mut cluster, name, healthy == "true", start);
                continue;
            }
            ["deployments", secs] => {
                let mut machine = deployments::Deployments::new();
                machine.restore(&cluster.state, start);
                machine.on_time(&cluster.state, at(secs)).iter().map(deployment_effect).collect::<Vec<_>>()
            }
            ["gc"] => gc::collect(&cluster.state, &gc::Cutoffs::ALL, start, 6).iter().map(garbage).collect(),
            ["gc", "evals"] => {
                let mut times = gc::TimeTable::default();
                times.witness(cluster.state.applied_index(), start);
                let zero = Dur::ZERO;
                let (job, node) = (Dur::from_secs(3600), zero);
                let ages = gc::GcAges {
                    eval: zero,
                    batch_eval: zero,
                    job,
                    node,
                    deployment: zero,
                    acl_token: zero,
                    ..gc::GcAges::default()
                };
                let cutoffs = times.cutoffs(&ages, start);
                gc::collect(&cluster.state, &cutoffs, start, 6).iter().map(garbage).collect()
            }
            ["missed", node] => {
                let node = cluster.state.node(node_of(&cluster, node)).unwrap();
                vec![heartbeats::status_after_miss(&cluster.state, node, cluster.now).to_string()]
            }
            ["unlooked", node] => {
                let node = cluster.state.node(node_of(&cluster, node)).unwrap();
                vec![heartbeats::was_not_looked_at(&cluster.state, node).to_string()]
            }
            _ => match draining::line(&mut cluster, &words) {
                draining::Line::Told(answer) => answer,
                draining::Line::Done => continue,
                draining::Line::Other => {
                    cluster.line(line);
                    continue;
                }
            },
        };
        said.push_str(&format!("{line}: {}\n", if answer.is_empty() { "nothing".into() } else { answer.join("; ") }));
    }
    expected.assert_eq(&said);
}

fn node_of(cluster: &Cluster, name: &str) -> NodeId {
    cluster.state.nodes().find(|node| node.name == *name).unwrap().id
}

fn named(cluster: &Cluster, name: &str) -> std::sync::Arc<Allocation> {
    cluster.state.allocs().find(|alloc| alloc.name == *name && !alloc.terminal()).unwrap().clone()
}

fn health(cluster: &mut Cluster, name: &str, healthy: bool, now: Time) {
    let alloc = named(cluster, name);
    let deployment_status = Some(AllocDeploymentStatus {
        healthy: Some(healthy),
        timestamp: Some(now),
        ..AllocDeploymentStatus::default()
    });
    let said = ClientAlloc {
        id: alloc.id,
        node_id: alloc.node_id.unwrap(),
        client_status: AllocClientStatus::Running,
        deployment_status,
        modify_time: now,
        ..ClientAlloc::default()
    };
    cluster.commit(UpdateAllocsFromClient { allocs: vec![said], evals: Vec::new() });
}

fn deployment_effect(effect: &deployments::Effect) -> String {
    match effect {
        deployments::Effect::Advance { transitions, .. } => format!("evaluate, {} may be replaced", transitions.len()),
        deployments::Effect::Promote { .. } => "promote".to_owned(),
        deployments::Effect::Fail { update, .. } => format!("fail: {}", update.status_description),
        deployments::Effect::Move { update, .. } => format!("move: {}", update.status_description),
    }
}

fn garbage(command: &Command) -> String {
    match command {
        Command::EvalReap(reap) => format!("{} evals, {} allocs", reap.evals.len(), reap.allocs.len()),
        Command::JobBatchDeregister(jobs) => format!("{} jobs", jobs.jobs.len()),
        Command::DeploymentDelete(delete) => format!("{} deployments", delete.ids.len()),
        Command::NodeBatchDeregister(nodes) => format!("{} nodes", nodes.node_ids.len()),
        other => other.kind().name().to_owned(),
    }
}

#[test]
fn a_healthy_allocation_asks_for_the_next_evaluation() {
    check(
        "node n1
         job web count=2 parallel=1
         run web
         deployments 1
         health web.web[0] true
         deployments 2",
        expect![[r#"
            deployments 1: nothing
            deployments 2: evaluate, 0 may be replaced
        "#]],
    );
}

#[test]
fn an_unhealthy_allocation_that_may_be_rescheduled_is_replaced() {
    check(
        "node n1
         job web count=1 parallel=1 progress=600
         run web
         health web.web[0] false
         deployments 2",
        expect![[r#"
            deployments 2: evaluate, 1 may be replaced
        "#]],
    );
}

#[test]
fn a_deployment_fails_at_its_progress_deadline() {
    check(
        "node n1
         job web count=1 parallel=1 progress=600
         run web
         deployments 599
         deployments 100000",
        expect![[r#"
            deployments 599: nothing
            deployments 100000: fail: Failed due to progress deadline
        "#]],
    );
}

#[test]
fn drain_completes_when_no_alloc_runs_on_the_node() {
    check(
        "node n1
         empty n1 3600
         drains 1",
        expect![[r#"
            drains 1: Node drain complete
        "#]],
    );
}

#[test]
fn drain_that_stops_the_last_allocs_at_its_deadline_says_so_when_they_have_ended() {
    check(
        "node n1
         job once batch
         run once
         empty n1 0
         drains 0
         moved 0
         client once.web[0] complete
         drains 1",
        expect![[r#"
            drains 0: migrate {"once": 1}
            drains 1: Node drain complete by its deadline
        "#]],
    );
}

#[test]
fn drain_is_checked_at_once_also_while_the_deadline_of_another_one_is_awaited() {
    let mut cluster = Cluster::new();
    for line in ["node n1", "job once batch", "run once", "node n2", "empty n1 3600"] {
        let words: Vec<_> = line.split_whitespace().collect();
        if let draining::Line::Other = draining::line(&mut cluster, &words) {
            cluster.line(line);
        }
    }
    let start = Time::from_secs(1_000_000);
    let mut machine = drains::Drains::new();
    machine.restore(&cluster.state, start);
    assert_eq!(machine.on_time(&cluster.state, start), []);
    assert_eq!(machine.next_deadline(), Some(start.plus(Dur::from_secs(3600))), "a batch job runs to the deadline");
    let before = cluster.state.nodes().find(|node| node.name == *"n2").cloned();
    draining::line(&mut cluster, &["empty", "n2", "7200"]);
    let after = cluster.state.nodes().find(|node| node.name == *"n2").cloned();
    let now = start.plus(Dur::from_secs(10));
    machine.on_changes(&[Change::Node { before, after }], now);
    assert_eq!(machine.next_deadline(), Some(now));
    assert_eq!(machine.on_time(&cluster.state, now).len(), 1, "the drain of n2 is complete");
}

#[test]
fn gc_keeps_the_latest_allocs_of_a_sysbatch_job_that_is_done() {
    check(
        "node n1
         job once sysbatch
         run once
         client once.web[0] complete
         gc evals
         gc",
        expect![[r#"
            gc evals: nothing
            gc: 1 evals, 1 allocs; 1 jobs
        "#]],
    );
}

#[test]
fn gc_collects_the_evals_of_a_system_job_whose_allocs_have_ended() {
    check(
        "node n1
         job net system
         run net
         run net
         gc evals
         client net.web[0] failed
         gc evals",
        expect![[r#"
            gc evals: 1 evals, 0 allocs
            gc evals: 2 evals, 1 allocs
        "#]],
    );
}

#[test]
fn gc_collects_a_dead_job_with_its_evals_and_allocs() {
    check(
        "node n1
         job web count=1
         run web
         gc
         stop web
         run web
         client web.web[0] complete
         gc",
        expect![[r#"
            gc: nothing
            gc: 2 evals, 1 allocs; 1 jobs
        "#]],
    );
}

#[test]
fn gc_deletes_a_plugin_that_has_no_instances_and_expects_none() {
    let mut cluster = Cluster::new();
    let config = TaskCsiPluginConfig { id: "p".into(), kind: "monolith".into(), ..TaskCsiPluginConfig::default() };
    let task = Task { csi_plugin_config: Some(config), ..Task::default() };
    for (count, deleted) in [(1, [].as_slice()), (0, &["CSIPluginDelete"])] {
        let tasks = Some(vec![task.clone()]);
        let group = TaskGroup { name: "g".into(), count, tasks, ..TaskGroup::default() };
        let job =
            Job { id: "plugin".into(), namespace: "default".into(), task_groups: Some(vec![group]), ..Job::default() };
        cluster.commit(RegisterJob { job: Arc::new(job), ..RegisterJob::default() });
        let commands = gc::collect(&cluster.state, &gc::Cutoffs::ALL, Time::from_secs(1), 6);
        assert_eq!(commands.iter().map(garbage).collect::<Vec<_>>(), deleted);
    }
}

#[test]
fn silent_node_without_max_client_disconnect_allocs_is_down() {
    check(
        "node n1
         missed n1",
        expect![[r#"
            missed n1: down
        "#]],
    );
}

#[test]
fn silent_node_is_disconnected_while_max_client_disconnect_lasts() {
    check(
        "node n1
         job web count=1 disconnect=300
         run web
         missed n1
         client web.web[0] running
         missed n1
         disconnect n1
         missed n1
         unlooked n1
         run web
         unlooked n1
         missed n1
         wait 299
         missed n1
         wait 1
         missed n1",
        expect![[r#"
            missed n1: disconnected
            missed n1: disconnected
            missed n1: disconnected
            unlooked n1: true
            unlooked n1: false
            missed n1: disconnected
            missed n1: disconnected
            missed n1: down
        "#]],
    );
}

#[test]
fn node_that_misses_heartbeats_while_initializing_or_down_is_down() {
    check(
        "node n1
         job web count=1 disconnect=300
         run web
         client web.web[0] running
         disconnect n1
         connect n1
         missed n1
         down n1
         missed n1",
        expect![[r#"
            missed n1: down
            missed n1: down
        "#]],
    );
}

#[test]
fn silent_node_whose_max_client_disconnect_allocs_were_stopped_is_down() {
    check(
        "node n1
         job web count=1 disconnect=300
         run web
         stop web
         run web
         missed n1",
        expect![[r#"
            missed n1: down
        "#]],
    );
}

#[test]
fn state_digest_is_proposed_once_per_interval_of_entries() {
    let mut cluster = Cluster::new();
    let mut digests = Digests::new(5, &cluster.state);
    let mut compared = Vec::new();
    for n in 0..20 {
        cluster.line(&format!("node n{n}"));
        for _ in 0..2 {
            compared.extend(digests.take_due(&cluster.state).map(|digest| (digest.through, digest.total.0.len())));
        }
    }
    let through: Vec<u64> = compared.iter().map(|(through, _)| *through).collect();
    assert!(through.len() >= 3 && through.windows(2).all(|pair| pair[0] / 5 < pair[1] / 5), "{through:?}");
    assert!(compared.iter().all(|(_, bytes)| *bytes == 16));
}

#[test]
fn older_blocked_evaluations_of_a_job_are_canceled_with_the_reason() {
    let (now, mut queues) = (Time::from_secs(1_000_000), EvalQueues::new());
    queues.set_enabled(true, &Cluster::new().state, now);
    for n in 1..=2 {
        let eval = Evaluation {
            id: EvalId::from_bytes([n; 16]),
            job_id: "web".into(),
            status: EvalStatus::Blocked,
            create_index: n.into(),
            modify_index: n.into(),
            snapshot_index: n.into(),
            ..Evaluation::default()
        };
        queues.blocked.block(eval.into(), None);
    }
    let tended = queues.on_time(now, now);
    let told: Vec<_> = tended
        .canceled
        .iter()
        .map(|eval| (eval.id.as_bytes()[0], eval.status, eval.status_description.as_str()))
        .collect();
    assert_eq!(told, [(1, EvalStatus::Canceled, "existing blocked evaluation exists for job \"web\"")]);
    assert!(tended.failed.is_empty());
}
