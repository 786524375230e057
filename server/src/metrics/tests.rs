//! Scrapes of tables and measurements, in both forms.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use songline_api::{RateOp, Served};
use songline_commands::{
    Actor, ApplyPlan, ClientAlloc, Command, DeregisterJob, DeregisterNodes, Envelope, Kind, RegisterJob, RegisterNode,
    UpdateAllocsFromClient, UpdateNodeStatus,
};
use songline_model::{
    AllocClientStatus, AllocId, Allocation, EvalId, Job, JobKey, Node, NodeId, NodeStatus, TaskGroup, Time,
};
use songline_projections::{State, apply};

use super::family::{Family, Labels, Rows};
use super::series::Measurement;
use super::{FOLLOWED, Metrics, json, prometheus};
use crate::machine::Reaction;

#[path = "../../../tests/support/exposition.rs"]
mod exposition;
use exposition::Exposition;

/// A state, and a registry that is updated by its changes only.
struct World {
    state: State,
    metrics: Metrics,
}

impl World {
    fn new() -> Self {
        Self { state: State::new(), metrics: Metrics::new(true) }
    }

    fn run(&mut self, command: impl Into<Command>) {
        let command = command.into();
        let kind = command.kind();
        let raft_index = self.state.raft_index().max(1) + 1;
        let applied = apply(
            &mut self.state,
            raft_index,
            &Envelope::new(Time::from_secs(1_700_000_000), Actor::Anonymous, command),
        );
        applied.result.unwrap();
        let batch = [Reaction { index: applied.index, kind, changes: Arc::new(applied.changes) }];
        self.metrics.follow(&self.state, &batch);
    }

    fn node(&mut self, n: u8) {
        let node = Node { id: node(n), datacenter: "dc1".into(), node_pool: "default".into(), ..Node::default() };
        self.run(RegisterNode { node, create_node_pool: false });
    }

    fn job(&mut self, id: &str) {
        let group = |name: &str| TaskGroup { name: name.into(), count: 2, ..TaskGroup::default() };
        let job = Job {
            id: id.into(),
            namespace: "default".into(),
            task_groups: Some(vec![group("web"), group("say \"hi\"\\\n")]),
            ..Job::default()
        };
        self.run(RegisterJob { job: Arc::new(job), ..RegisterJob::default() });
    }

    fn place(&mut self, n: u8, job: &str, on: u8) {
        let job = Arc::clone(self.state.job("default", job).unwrap());
        let alloc = Allocation {
            id: alloc(n),
            namespace: "default".into(),
            job_id: job.id.clone(),
            task_group: "web".into(),
            node_id: Some(node(on)),
            eval_id: Some(EvalId::from_bytes([9; 16])),
            job: Some(Arc::clone(&job)),
            ..Allocation::default()
        };
        self.run(ApplyPlan { job: Some(job), updated: vec![Arc::new(alloc)], ..ApplyPlan::default() });
    }

    fn report(&mut self, n: u8, on: u8, client_status: AllocClientStatus) {
        let report = ClientAlloc { id: alloc(n), node_id: node(on), client_status, ..ClientAlloc::default() };
        self.run(UpdateAllocsFromClient { allocs: vec![report], evals: Vec::new() });
    }

    /// Three nodes of which one is deregistered, four jobs of which one is purged, and allocations in several statuses.
    fn story() -> Self {
        let mut world = Self::new();
        (1..=3).for_each(|n| world.node(n));
        ["a", "b", "c/dispatch-1-2", "d/periodic-17"].iter().for_each(|id| world.job(id));
        for n in 1..=12 {
            world.place(n, ["a", "b", "c/dispatch-1-2"][usize::from(n % 3)], n % 2 + 1);
        }
        for (n, status) in [
            (1, AllocClientStatus::Running),
            (2, AllocClientStatus::Running),
            (3, AllocClientStatus::Failed),
            (4, AllocClientStatus::Complete),
            (1, AllocClientStatus::Complete),
            (5, AllocClientStatus::Running),
        ] {
            world.report(n, n % 2 + 1, status);
        }
        world.run(UpdateNodeStatus { node_id: node(1), status: NodeStatus::Ready, ..UpdateNodeStatus::default() });
        world.run(DeregisterNodes { node_ids: vec![node(3)] });
        world.run(DeregisterJob { job: JobKey::new("default", "b"), purge: true, ..DeregisterJob::default() });
        world
    }
}

fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}

fn alloc(n: u8) -> AllocId {
    AllocId::from_bytes([n; 16])
}

/// All families of the registry, sorted as in a scrape.
fn families(metrics: &Metrics, leads: bool) -> Vec<Family> {
    let mut out = Vec::new();
    metrics.tell([0; FOLLOWED], leads, &mut out);
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

fn scrape(metrics: &Metrics) -> Exposition {
    Exposition::read(&prometheus::text(&families(metrics, true))).unwrap()
}

#[test]
fn gauges_kept_from_changes_equal_gauges_computed_from_the_tables() {
    let World { state, metrics } = World::story();
    let kept = prometheus::text(&families(&metrics, true));
    let walked = Metrics::new(true);
    walked.replaced(&state);
    // Summaries of a purged job are gone, in the table and in the gauges.
    assert_eq!(kept, prometheus::text(&families(&walked, true)));
    let told = Exposition::read(&kept).unwrap();
    let group = [("job", "a"), ("task_group", "web"), ("namespace", "default")];
    let summary = |what: &str| told.value(&format!("nomad_nomad_job_summary_{what}"), &group);
    let summary = ["starting", "running", "failed", "complete", "lost", "unknown", "queued"].map(summary);
    assert_eq!(summary, [Some(3.0), Some(0.0), Some(1.0), Some(0.0), Some(0.0), Some(0.0), Some(0.0)]);
    assert_eq!(told.value("songline_nodes", &[("status", "ready")]), Some(1.0));
}

#[test]
fn a_scrape_reads_no_table() {
    let World { state, metrics } = World::story();
    let with_state = prometheus::text(&families(&metrics, true));
    // Without the state there is no table that a scrape could walk.
    drop(state);
    assert_eq!(prometheus::text(&families(&metrics, true)), with_state);
    let told = scrape(&metrics);
    let on = |n: u8, what: &str| {
        let id = node(n).to_string();
        let labels = [("node_id", &*id), ("datacenter", "dc1"), ("node_class", "none"), ("node_pool", "default")];
        told.value(&format!("nomad_client_allocations_{what}"), &labels)
    };
    assert_eq!(
        [on(1, "pending"), on(1, "running"), on(1, "terminal"), on(1, "unknown")],
        [Some(4.0), Some(1.0), Some(1.0), Some(0.0)]
    );
    assert_eq!([on(2, "pending"), on(2, "running"), on(2, "terminal")], [Some(3.0), Some(1.0), Some(2.0)]);
    assert_eq!(on(3, "pending"), None, "the node is gone");
}

#[test]
fn child_job_metrics_name_the_parent_and_dispatched_children_can_be_omitted() {
    let World { state, metrics } = World::story();
    let labels = |kind, id| {
        [("job", "c/dispatch-1-2"), ("task_group", "web"), ("namespace", "default"), ("parent_id", "c"), (kind, id)]
    };
    let name = "nomad_nomad_job_summary_starting";
    assert!(scrape(&metrics).value(name, &labels("dispatch_id", "1-2")).is_some());
    let without = Metrics::new(false);
    without.replaced(&state);
    let told = scrape(&without);
    assert_eq!(told.value(name, &labels("dispatch_id", "1-2")), None);
    let periodic = [
        ("job", "d/periodic-17"),
        ("task_group", "web"),
        ("namespace", "default"),
        ("parent_id", "d"),
        ("periodic_id", "17"),
    ];
    assert_eq!(told.value(name, &periodic), Some(0.0));
}

#[test]
fn leader_only_metrics_are_omitted_by_other_servers() {
    let World { metrics, .. } = World::story();
    let names =
        |leads| families(&metrics, leads).into_iter().map(|family| family.name.into_owned()).collect::<BTreeSet<_>>();
    let of_leader: Vec<_> = names(true).difference(&names(false)).cloned().collect();
    let expected =
        |name: &String| ["nomad.client.allocations.", "nomad.nomad.job_s"].iter().any(|start| name.starts_with(start));
    assert!(of_leader.len() == 14 && of_leader.iter().all(expected), "{of_leader:?}");
}

#[test]
fn metric_families_have_unique_names_and_valid_text() {
    let World { metrics, .. } = World::story();
    for kind in Kind::ALL {
        metrics.measure_entry(*kind, Duration::from_micros(7));
    }
    for identity in [None, Some("token:a\"b\\c\nd"), Some(":10.0.0.1")] {
        metrics.count_served(Served { endpoint: "job", op: RateOp::List, identity: identity.map(str::to_owned) });
    }
    let families = families(&metrics, true);
    let mut names = BTreeSet::new();
    for family in &families {
        assert!(names.insert(family.name.replace(['.', '-'], "_")), "{} twice", family.name);
    }
    let told = Exposition::read(&prometheus::text(&families)).unwrap();
    assert_eq!(told.value("nomad_nomad_rpc_job_list", &[("identity", "token:a\"b\\c\nd")]), Some(1.0));
    assert_eq!(told.value("nomad_nomad_rpc_job_list", &[]), Some(1.0));
    assert_eq!(told.families["nomad_raft_fsm_apply"], "summary");
    assert_eq!(told.value("nomad_raft_fsm_apply_count", &[]), Some(Kind::ALL.len() as f64));
}

#[test]
fn prometheus_text_escapes_names_labels_and_special_values() {
    let labels = Labels::new(&[("a", "\\ \" \n ä")]);
    let rows = [f64::INFINITY, f64::NEG_INFINITY, 0.1, -3.0, 1e300].into_iter();
    let rows = rows
        .enumerate()
        .map(|(n, value)| (if n == 0 { Arc::clone(&labels) } else { Labels::new(&[("n", &n.to_string())]) }, value));
    let family =
        Family { name: "9.odd-name%".into(), help: "Two\nlines and a \\.".into(), rows: Rows::Gauges(rows.collect()) };
    let empty = Family { name: "empty".into(), help: "Nothing.".into(), rows: Rows::Counters(Vec::new()) };
    let told = Exposition::read(&prometheus::text(&[family, empty])).unwrap();
    assert_eq!(told.families.len(), 1);
    assert_eq!(told.value("__odd_name_", &[("a", "\\ \" \n ä")]), Some(f64::INFINITY));
    assert_eq!(told.value("__odd_name_", &[("n", "4")]), Some(1e300));
}

#[test]
fn metrics_json_covers_one_interval_only() {
    let metrics = Metrics::new(true);
    for took in [2, 4, 6] {
        metrics.at.plan_apply.record(Duration::from_millis(took));
        metrics.count_served(Served { endpoint: "job", op: RateOp::List, identity: Some("token:\"x\"".to_owned()) });
    }
    let told = |metrics: &Metrics| -> serde_json::Value {
        serde_json::from_str(&json::object(&families(metrics, true), "2026-11-21 20:00:00 +0000 UTC", 10.0)).unwrap()
    };
    let find =
        |list: &serde_json::Value, name: &str| list.as_array().unwrap().iter().find(|row| row["Name"] == name).cloned();
    metrics.rotate(Time::from_secs(1_700_000_010), [0; FOLLOWED]);
    metrics.at.plan_apply.record(Duration::from_secs(100));
    let first = told(&metrics);
    assert_eq!(
        find(&first["Samples"], "nomad.nomad.plan.apply").unwrap(),
        serde_json::json!({
            "Name": "nomad.nomad.plan.apply", "Count": 3, "Rate": 1.2, "Sum": 12, "Min": 2, "Max": 6, "Mean": 4, "Stddev": 2,
            "Labels": {},
        })
    );
    assert_eq!(
        find(&first["Counters"], "nomad.nomad.rpc.job.list").unwrap(),
        serde_json::json!({
            "Name": "nomad.nomad.rpc.job.list", "Count": 3, "Rate": 0.3, "Sum": 3, "Min": 1, "Max": 1, "Mean": 1, "Stddev": 0,
            "Labels": {"identity": "token:\"x\""},
        })
    );
    assert_eq!(first["Timestamp"], "2026-11-21 20:00:00 +0000 UTC");
    metrics.rotate(Time::from_secs(1_700_000_020), [0; FOLLOWED]);
    let second = told(&metrics);
    assert_eq!(find(&second["Samples"], "nomad.nomad.plan.apply").unwrap()["Max"], 100_000);
    assert_eq!(find(&second["Counters"], "nomad.nomad.rpc.job.list"), None);
    // Totals continue across intervals.
    assert_eq!(scrape(&metrics).value("nomad_nomad_rpc_job_list", &[("identity", "token:\"x\"")]), Some(3.0));
}

#[test]
fn callers_beyond_the_label_bound_are_counted_without_a_name() {
    let metrics = Metrics::new(true);
    for n in 0..5_000 {
        metrics.count_served(Served { endpoint: "node", op: RateOp::Write, identity: Some(format!("client:{n}")) });
    }
    let told = scrape(&metrics);
    let rows: Vec<f64> = told
        .samples
        .iter()
        .filter(|((name, _), _)| name == "nomad_nomad_rpc_node_write")
        .map(|(_, value)| *value)
        .collect();
    assert_eq!((rows.len(), rows.iter().sum::<f64>()), (4097, 5000.0));
    assert_eq!(told.value("nomad_nomad_rpc_node_write", &[]), Some(904.0));
}

#[test]
fn concurrent_measurements_are_all_counted() {
    let metrics = Metrics::new(true);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let metrics = &metrics;
            scope.spawn(move || {
                for n in 0..1_000 {
                    metrics.measure_proposal(Duration::from_micros(n), Duration::ZERO);
                    metrics.count_served(Served {
                        endpoint: "job",
                        op: RateOp::Read,
                        identity: Some(format!("token:{}", n % 7)),
                    });
                    if thread == 0 && n % 100 == 0 {
                        metrics.rotate(Time::from_secs(1_700_000_000), [0; FOLLOWED]);
                    }
                }
            });
        }
    });
    let told = scrape(&metrics);
    assert_eq!(told.value("nomad_raft_apply", &[]), Some(4000.0));
    assert_eq!(told.value("nomad_raft_commitTime_count", &[]), Some(4000.0));
    let sum: f64 =
        (0..7).filter_map(|n| told.value("nomad_nomad_rpc_job_read", &[("identity", &format!("token:{n}"))])).sum();
    assert_eq!(sum, 4000.0);
}

#[test]
fn external_total_is_exposed_as_a_counter() {
    let told = Exposition::read(&prometheus::text(&[Family {
        name: "x".into(),
        help: "X.".into(),
        rows: Rows::Counters(vec![(Labels::none(), Measurement::total(2.5))]),
    }]));
    assert_eq!(told.unwrap().value("x", &[]), Some(2.5));
}
