//! One server whose leader loses writes: each lost write is repeated and takes effect once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use songline_commands::{Actor, UpdateNodeDrain};
use songline_model::{DrainStrategy, Dur, EvalStatus, EvalTrigger, Evaluation, NodeId, PeriodicLaunch};
use songline_scheduler::leader::outbox::Subject;

use crate::Core;
use crate::config::ServerConfig;
use crate::leadership::tests::register_node;
use crate::testing::{Settings, TestServer, http_client};

/// Timeout of every step; the machine may be busy.
const WITHIN: Duration = Duration::from_secs(90);

/// A single server with one scheduler worker and a node that runs nothing.
pub(crate) struct Alone {
    server: TestServer,
    http: reqwest::Client,
}

impl Alone {
    pub async fn start() -> Self {
        let config = ServerConfig { num_schedulers: 1, ..ServerConfig::default() };
        let server = TestServer::start(Settings { server: config, ..Settings::default() }).await.expect("it starts");
        let alone = Self { server, http: http_client() };
        register_node(alone.core()).await;
        alone
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.server.core
    }

    /// Registers a service job of two allocations.
    pub async fn register(&self, name: &str) {
        let job = json!({"Job": {"ID": name, "Name": name, "Type": "service", "Datacenters": ["*"], "TaskGroups": [{
            "Name": "group", "Count": 2,
            "Tasks": [{"Name": "task", "Driver": "raw_exec", "Config": {"command": "/bin/true"}, "Resources": {"CPU": 20, "MemoryMB": 16}}],
        }]}});
        let sent =
            self.http.put(format!("{}/v1/jobs", self.server.http_addr())).json(&job).send().await.expect("it answers");
        assert!(sent.status().is_success(), "{:?}", sent.text().await);
    }

    /// Registers a batch job that is launched every second.
    pub async fn register_periodic(&self, name: &str) {
        let job = json!({"Job": {"ID": name, "Name": name, "Type": "batch", "Datacenters": ["*"],
            "Periodic": {"Specs": ["* * * * * * *"]},
            "TaskGroups": [{"Name": "group", "Tasks": [{"Name": "task", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}],
        }});
        let sent =
            self.http.put(format!("{}/v1/jobs", self.server.http_addr())).json(&job).send().await.expect("it answers");
        assert!(sent.status().is_success(), "{:?}", sent.text().await);
    }

    pub fn evals(&self, job: &str) -> Vec<Arc<Evaluation>> {
        self.core().view().evals_of_job("default", job).collect()
    }

    pub fn placed(&self, job: &str) -> usize {
        self.core().view().allocs_of_job("default", job).count()
    }

    pub async fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        let looked = async {
            loop {
                if let Some(found) = found(self) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WITHIN, looked).await.unwrap_or_else(|_| panic!("waited too long until {what}"))
    }

    /// Whether the leader has lost a write about a subject that matches.
    pub fn has_lost(&self, is: impl Fn(&Subject) -> bool) -> bool {
        self.core().hooks.lost.lock().iter().any(is)
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_migration_whose_write_was_lost_is_written_later_once() {
    let alone = Alone::start().await;
    alone.register("web").await;
    alone.until("it is placed", |it| (it.placed("web") == 2).then_some(())).await;

    alone.core().hooks.lost_effects.store(3, Ordering::Relaxed);
    let node_id = NodeId::from_bytes([7; 16]);
    let force_deadline = Some(alone.core().now());
    let drain_strategy =
        Some(DrainStrategy { deadline: Dur::from_secs(1), force_deadline, ..DrainStrategy::default() });
    let drain = UpdateNodeDrain { node_id, drain_strategy, ..UpdateNodeDrain::default() };
    alone.core().propose_as(Actor::Anonymous, None, drain).await.expect("it is written");

    let marked = |it: &Alone| {
        it.core().view().allocs_of_job("default", "web").all(|alloc| alloc.desired_transition.should_migrate())
    };
    alone.until("its allocations are to move", |it| marked(it).then_some(())).await;
    assert!(alone.has_lost(|subject| *subject == Subject::Migration));
    alone
        .until("the drain is over", |it| {
            it.core().view().node(node_id).is_some_and(|node| node.drain_strategy.is_none()).then_some(())
        })
        .await;
    let drained = alone.evals("web").iter().filter(|eval| eval.triggered_by == EvalTrigger::NodeDrain).count();
    assert_eq!(drained, 1, "{:?}", alone.evals("web"));
    alone.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn periodic_job_has_one_child_for_each_launch_time_when_writes_are_lost() {
    let alone = Alone::start().await;
    alone.core().hooks.lost_effects.store(2, Ordering::Relaxed);
    alone.register_periodic("cron").await;
    let children = |it: &Alone| {
        let view = it.core().view();
        view.jobs().filter(|job| job.parent_id == "cron").cloned().collect::<Vec<_>>()
    };
    let children = alone.until("it has four children", |it| Some(children(it)).filter(|found| found.len() >= 4)).await;
    assert!(alone.has_lost(|subject| matches!(subject, Subject::Launch(_))));
    let launches: Vec<i64> = children
        .iter()
        .map(|child| PeriodicLaunch::launch_of("cron", &child.id).expect("a launch time").secs())
        .collect();
    assert!(launches.is_sorted_by(|one, next| one + 1 == *next), "one each second: {launches:?}");
    for child in &children {
        let evals = alone.evals(&child.id);
        assert!(child.version == 0 && evals.len() == 1, "{} has {evals:?}", child.id);
        assert_eq!(evals[0].triggered_by, EvalTrigger::PeriodicJob);
    }
    alone.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eval_past_its_delivery_limit_is_acknowledged_when_its_rows_are_written() {
    let alone = Alone::start().await;
    alone.core().hooks.scheduling_panics.lock().insert("poison".into());
    alone.core().hooks.lost_effects.store(u32::MAX, Ordering::Relaxed);
    alone.register("poison").await;
    let given_up = |subject: &Subject| matches!(subject, Subject::GiveUp(_, _));
    alone
        .until("it is to be given up", |it| {
            hurry(it.core());
            it.has_lost(given_up).then_some(())
        })
        .await;
    assert_eq!(alone.core().queues().broker.stats().unacked, 1, "it is still the leader's");
    assert!(alone.evals("poison").iter().all(|eval| eval.status == EvalStatus::Pending));

    alone.core().hooks.lost_effects.store(0, Ordering::Relaxed);
    alone.until("it is acknowledged", |it| (it.core().queues().broker.stats().unacked == 0).then_some(())).await;
    let statuses: Vec<_> = alone.evals("poison").iter().map(|eval| (eval.status, eval.triggered_by)).collect();
    assert_eq!(statuses.len(), 2, "one follows it: {statuses:?}");
    assert!(statuses.contains(&(EvalStatus::Failed, EvalTrigger::JobRegister)), "{statuses:?}");
    assert!(statuses.contains(&(EvalStatus::Pending, EvalTrigger::FailedFollowUp)), "{statuses:?}");
    alone.stop().await;
}

/// Skips the delays between deliveries of an evaluation. The longest of them is 20 s; a given-up evaluation is
/// retried after a minute.
pub(crate) fn hurry(core: &Core) {
    core.queues().broker.on_time(core.pace().plus(Dur::from_secs(30)));
    core.leader.work.notify_waiters();
}
