//! What a server counts of itself, in the two forms that are asked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use songline_api::Served;
use songline_model::{AllocClientStatus, JobStatus, NodeStatus, PlanResult, Time};
use songline_projections::Table;

use super::{Core, lock};

/// How many requests are told apart by endpoint, operation and caller.
const SERVED_MAX: usize = 4096;

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    plans: AtomicU64,
    plan_nodes_rejected: AtomicU64,
    allocs_placed: AtomicU64,
    evals_processed: AtomicU64,
    alloc_updates_dropped: AtomicU64,
    scheduling_panics: AtomicU64,
    served: Mutex<BTreeMap<Served, u64>>,
}

/// One measured value.
struct Gauge {
    name: &'static str,
    value: f64,
    labels: BTreeMap<&'static str, String>,
}

impl Metrics {
    pub(crate) fn count_plan(&self, result: &PlanResult, rejected: usize) {
        self.plans.fetch_add(1, Ordering::Relaxed);
        self.plan_nodes_rejected.fetch_add(rejected as u64, Ordering::Relaxed);
        let placed: usize = result.node_allocation.values().map(Vec::len).sum();
        self.allocs_placed.fetch_add(placed as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_dropped_updates(&self, dropped: u64) {
        self.alloc_updates_dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// Work on an evaluation panicked, in a scheduler worker or in the plan applier.
    pub(crate) fn count_panic(&self) {
        self.scheduling_panics.fetch_add(1, Ordering::Relaxed);
    }

    /// How often work on an evaluation has panicked.
    #[cfg(test)]
    pub(crate) fn panics(&self) -> u64 {
        self.scheduling_panics.load(Ordering::Relaxed)
    }

    /// Counts a request. Beyond `SERVED_MAX` different ones, callers are no longer told apart.
    pub(crate) fn count_served(&self, served: Served, labels: bool) {
        let mut all = lock(&self.served);
        let room = labels && (all.len() < SERVED_MAX || all.contains_key(&served));
        let key = if room { served } else { Served { identity: None, ..served } };
        *all.entry(key).or_insert(0) += 1;
    }

    pub(crate) fn count_eval(&self) {
        self.evals_processed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Core {
    /// The reference's JSON form.
    pub(crate) fn metrics_json(&self) -> Value {
        let gauges: Vec<_> =
            self.gauges().into_iter().map(|gauge| json!({ "Name": gauge.name, "Value": gauge.value, "Labels": gauge.labels })).collect();
        let shown = |name: &str, count: u64, labels: Value| {
            let sum = count as f64;
            json!({ "Name": name, "Count": count, "Rate": 0.0, "Sum": sum, "Min": 1.0, "Max": 1.0, "Mean": 1.0, "Stddev": 0.0, "Labels": labels })
        };
        let mut counters: Vec<_> = self.counters().into_iter().map(|(name, count)| shown(name, count, json!({}))).collect();
        counters.extend(self.served().into_iter().map(|(served, count)| {
            let labels = served.identity.as_ref().map_or_else(|| json!({}), |identity| json!({ "identity": identity }));
            shown(&rate_name(&served), count, labels)
        }));
        json!({ "Timestamp": timestamp(self.now()), "Gauges": gauges, "Points": [], "Counters": counters, "Samples": [] })
    }

    /// The Prometheus text form.
    pub(crate) fn metrics_text(&self) -> String {
        let mut text = String::new();
        for gauge in self.gauges() {
            let name = gauge.name.replace(['.', '-'], "_");
            let labels: Vec<_> = gauge.labels.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            // Writing to a String does not fail.
            let _ = writeln!(text, "# TYPE {name} gauge\n{name}{labels} {}", gauge.value);
        }
        for (name, count) in self.counters() {
            let name = name.replace(['.', '-'], "_");
            let _ = writeln!(text, "# TYPE {name} counter\n{name} {count}");
        }
        for (served, count) in self.served() {
            let name = rate_name(&served).replace('.', "_");
            let labels = served.identity.map_or_else(String::new, |identity| format!("{{identity={identity:?}}}"));
            let _ = writeln!(text, "# TYPE {name} counter\n{name}{labels} {count}");
        }
        text
    }

    fn served(&self) -> BTreeMap<Served, u64> {
        lock(&self.metrics.served).clone()
    }

    fn counters(&self) -> [(&'static str, u64); 8] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("nomad.nomad.plan.evaluated", read(&self.metrics.plans)),
            ("nomad.nomad.plan.node_rejected", read(&self.metrics.plan_nodes_rejected)),
            ("nomad.nomad.plan.allocs_placed", read(&self.metrics.allocs_placed)),
            ("nomad.nomad.worker.evals_processed", read(&self.metrics.evals_processed)),
            ("songline.alloc_updates.dropped", read(&self.metrics.alloc_updates_dropped)),
            ("songline.scheduler.panics", read(&self.metrics.scheduling_panics)),
            ("songline.disk.failures", self.disk.failures()),
            ("songline.disk.returns", self.disk.returns()),
        ]
    }

    fn gauges(&self) -> Vec<Gauge> {
        let view = self.view();
        let (broker, (blocked, escaped)) = {
            let queues = self.queues();
            (queues.broker.stats(), queues.blocked.stats())
        };
        let plain = |name, value: usize| Gauge { name, value: value as f64, labels: BTreeMap::new() };
        let mut gauges = vec![
            plain("nomad.nomad.broker.total_ready", broker.ready),
            plain("nomad.nomad.broker.total_unacked", broker.unacked),
            plain("nomad.nomad.broker.total_pending", broker.pending),
            plain("nomad.nomad.broker.total_waiting", broker.waiting),
            plain("nomad.nomad.broker.total_cancelable", broker.cancelable),
            plain("nomad.nomad.blocked_evals.total_blocked", blocked),
            plain("nomad.nomad.blocked_evals.total_escaped", escaped),
            plain("nomad.raft.applied_index", usize::try_from(view.applied_index()).unwrap_or(usize::MAX)),
            plain("nomad.raft.unapplied", usize::try_from(self.log().unapplied()).unwrap_or(usize::MAX)),
            plain("songline.disk.failed", usize::from(self.disk_trouble().is_some())),
            plain("songline.disk.full", usize::from(self.room.check().is_err())),
            plain("nomad.state.evals", view.table_len(Table::Evals)),
            plain("nomad.state.allocs", view.table_len(Table::Allocs)),
        ];
        for &status in JobStatus::ALL {
            let jobs = view.jobs().filter(|job| job.status == status).count();
            gauges.push(Gauge { name: "nomad.nomad.job_status", value: jobs as f64, labels: [("status", status.to_string())].into() });
        }
        for &status in NodeStatus::ALL {
            let nodes = view.nodes().filter(|node| node.status == status).count();
            gauges.push(Gauge { name: "nomad.nomad.node_status", value: nodes as f64, labels: [("status", status.to_string())].into() });
        }
        for &status in AllocClientStatus::ALL {
            let allocs = view.allocs().filter(|alloc| alloc.client_status == status).count();
            gauges.push(Gauge { name: "nomad.client.allocations", value: allocs as f64, labels: [("status", status.to_string())].into() });
        }
        gauges
    }
}

fn rate_name(served: &Served) -> String {
    format!("nomad.nomad.rpc.{}.{}", served.endpoint, served.op)
}

/// As the reference prints the end of an interval: `2026-11-21 20:00:00 +0000 UTC`.
fn timestamp(now: Time) -> String {
    let whole = Time::from_secs(now.secs() / 10 * 10).to_string();
    format!("{} +0000 UTC", whole.trim_end_matches('Z').replace('T', " "))
}
