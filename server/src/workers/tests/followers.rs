//! Workers of servers that follow, in a cluster of three: deliveries, plans and answers over the servers' channel.

use std::sync::Arc;
use std::time::Duration;

use songline_api::Leader;
use songline_commands::{Actor, SetSchedulerConfig};
use songline_model::{Evaluation, JobType, Plan, SchedulerConfiguration};

use super::super::source::{Answer, DecisionClock, Delivered, Own, Source};
use super::super::{Failure, Remote, replace, serve, work};
use crate::Core;
use crate::lead::tests::hurry;
use crate::leadership::tests::{Cluster, fault, register_node};

/// A cluster with one ready node, whose workers are all taken away.
struct Idle {
    cluster: Cluster,
    leader: Arc<Core>,
    followers: Vec<Arc<Core>>,
}

impl Idle {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let (at, leader) = cluster.leader().await;
        cluster
            .until("all are members", |it| {
                it.cores().all(|(_, core)| core.members_count() == 3 && core.leader() != Leader::Unknown).then_some(())
            })
            .await;
        for (_, core) in cluster.cores() {
            replace(core, 0, None);
        }
        cluster
            .until("no worker is left", |it| {
                it.cores().all(|(_, core)| core.workers.shown().workers.is_empty()).then_some(())
            })
            .await;
        register_node(&leader).await;
        let followers = cluster.cores().filter(|(other, _)| *other != at).map(|(_, core)| Arc::clone(core)).collect();
        Self { cluster, leader, followers }
    }

    fn source_of(&self, follower: usize) -> Remote {
        Remote::new(&self.followers[follower], self.leader.cluster().address().into())
    }

    /// The next evaluation for a follower. Skips the delays between deliveries.
    async fn next(&self, source: &Remote) -> Delivered {
        let asked = async {
            loop {
                hurry(&self.leader);
                if let Some(delivered) = source.dequeue(&[JobType::Service]).await.expect("the leader answers") {
                    return delivered;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(90), asked).await.expect("an evaluation comes")
    }

    /// Has a follower do the work of a delivery.
    async fn serve(&self, follower: usize, source: &impl Source, delivered: &Delivered) {
        let core = &self.followers[follower];
        let worker = core.workers.replace(1, None, core.now(), || core.world().uuid()).remove(0);
        serve(core, &worker, source, delivered).await;
        core.workers.forget(&worker);
    }

    async fn placed(&self, n: usize) {
        self.cluster.until("the job has what it wants", |_| fault(&self.leader, n).is_none().then_some(())).await;
    }

    async fn stop(mut self) {
        drop((self.leader, self.followers));
        for at in 0..3 {
            self.cluster.stop(at).await;
        }
    }
}

/// Reasons for which the leader refuses everything that a delivery's worker says.
async fn refusals(source: &Remote, delivered: &Delivered) -> [String; 4] {
    let plan = Plan { eval_id: delivered.eval.id, ..Plan::default() };
    let failed = |failure: Failure| failure.to_string();
    [
        source.write(delivered, vec![Evaluation::clone(&delivered.eval)]).await.expect_err("a write is refused"),
        source.submit(delivered, plan).await.map_err(failed).expect_err("a plan is refused"),
        source.reblock(delivered, Arc::clone(&delivered.eval)).await.expect_err("a blocked evaluation is refused"),
        source.answer(delivered, Answer::Done).await.expect_err("an answer is refused"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn followers_place_what_their_leader_delivers() {
    let idle = Idle::start().await;
    for follower in &idle.followers {
        replace(follower, 2, None);
    }
    for n in 0..8 {
        idle.cluster.register(n % 3, n).await;
    }
    for n in 0..8 {
        idle.placed(n).await;
    }
    // An evaluation counts when its worker is through with it, after the allocations are there.
    let by_followers = || -> u64 { idle.followers.iter().map(|core| core.metrics.evals_processed()).sum() };
    idle.cluster.until("the followers have processed them all", |_| (by_followers() >= 8).then_some(())).await;
    idle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn evaluation_of_a_server_that_is_cut_off_goes_to_another_and_is_placed_once() {
    let idle = Idle::start().await;
    idle.cluster.register(0, 0).await;
    let (first, second) = (idle.source_of(0), idle.source_of(1));
    let lost = idle.next(&first).await;
    assert!(lost.needed >= idle.leader.view().eval(lost.eval.id).expect("it is written").modify_index);
    idle.followers[0].connections.pool.forget(idle.leader.cluster().address());

    let again = idle.next(&second).await;
    assert_eq!((again.eval.id, again.token == lost.token), (lost.eval.id, false));
    // The first server is back and knows nothing of its loss.
    for refusal in refusals(&first, &lost).await {
        assert!(refusal.ends_with("Token does not match for Evaluation ID"), "{refusal}");
    }
    idle.serve(0, &first, &lost).await;
    assert_eq!(idle.leader.view().allocs_of_job("default", "job-0").count(), 0, "a lost delivery places nothing");
    idle.serve(1, &second, &again).await;
    idle.placed(0).await;
    for refusal in refusals(&second, &again).await {
        assert!(refusal.ends_with("Evaluation ID not found"), "{refusal}");
    }
    idle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_to_a_leader_of_an_earlier_term_are_refused_by_the_next() {
    let idle = Idle::start().await;
    idle.cluster.register(0, 0).await;
    let delivered = idle.next(&idle.source_of(0)).await;
    idle.leader.hand_over(None).await.expect("leadership moves");
    let next = idle
        .cluster
        .until("another leads", |it| {
            it.cores()
                .find(|(_, core)| core.term().is_some_and(|term| term.raft_term() > delivered.raft_term))
                .map(|(_, core)| Arc::clone(core))
        })
        .await;
    let follower =
        idle.followers.iter().chain([&idle.leader]).find(|core| !Arc::ptr_eq(core, &next)).expect("one of three");
    idle.cluster
        .until("it knows the leader", |_| {
            (follower.leader() == Leader::At(next.cluster().address().into())).then_some(())
        })
        .await;
    let source = Remote::new(follower, next.cluster().address().into());
    for refusal in refusals(&source, &delivered).await {
        assert!(refusal.ends_with("Token does not match for Evaluation ID"), "{refusal}");
    }
    replace(follower, 1, None);
    idle.cluster.until("it is placed, once", |_| fault(&next, 0).is_none().then_some(())).await;
    drop(next);
    let idle = idle;
    idle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn paused_broker_delivers_nothing_until_it_is_resumed() {
    let idle = Idle::start().await;
    let pause = async |pause_eval_broker| {
        let config = SchedulerConfiguration { pause_eval_broker, ..SchedulerConfiguration::default() };
        let command = SetSchedulerConfig { config, cas: None };
        idle.leader.propose_as(Actor::Anonymous, None, command).await.expect("it is written");
        let is_so = |it: &Core| it.queues().broker.is_enabled() != pause_eval_broker;
        idle.cluster.until("the broker has followed", |_| is_so(&idle.leader).then_some(())).await;
    };
    pause(true).await;
    idle.cluster.register(0, 0).await;
    let term = idle.leader.term().expect("it leads");
    let own = Own::new(&idle.leader, term, Duration::from_millis(10));
    assert!(own.dequeue(&[JobType::Service]).await.expect("it answers").is_none());
    replace(&idle.followers[0], 1, None);
    pause(false).await;
    idle.placed(0).await;
    idle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn worker_waits_until_its_server_has_what_the_leader_has_applied() {
    let idle = Idle::start().await;
    idle.cluster.register(0, 0).await;
    let (source, core) = (idle.source_of(0), Arc::clone(&idle.followers[0]));
    let mut delivered = idle.next(&source).await;
    delivered.needed = idle.leader.view().applied_index() + 2;
    let worker = core.workers.replace(1, None, core.now(), || core.world().uuid()).remove(0);
    let doing = || core.workers.shown().workers.first().map(|worker| worker.doing);
    let working = work(&core, &source, &worker, &delivered);
    let watching = async {
        idle.cluster.until("it waits", |_| (doing() == Some("WaitingForRaft")).then_some(())).await;
        assert_eq!(idle.leader.view().allocs_of_job("default", "job-0").count(), 0);
        // Two entries, and the view is new enough.
        for pause_eval_broker in [false, false] {
            let config = SchedulerConfiguration { pause_eval_broker, ..SchedulerConfiguration::default() };
            let command = SetSchedulerConfig { config, cas: None };
            idle.leader.propose_as(Actor::Anonymous, None, command).await.expect("it is written");
        }
    };
    let (outcome, ()) = tokio::join!(working, watching);
    assert_eq!(outcome, Ok(()));
    source.answer(&delivered, Answer::Done).await.expect("the delivery is still this worker's");
    idle.placed(0).await;

    // A view that does not get there in time gives the evaluation back, and takes no other before.
    let late = Delivered {
        eval: Arc::default(),
        raft_term: 0,
        token: delivered.token,
        needed: core.view().applied_index() + 1_000_000,
        clock: DecisionClock::Own,
    };
    serve(&core, &worker, &source, &late).await;
    assert_eq!(core.workers.behind(), late.needed);
    core.workers.forget(&worker);
    drop((source, core));
    idle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_quarters_of_the_leaders_workers_rest_while_it_has_followers() {
    let idle = Idle::start().await;
    for core in idle.followers.iter().chain([&idle.leader]) {
        replace(core, 4, None);
    }
    let resting = |core: &Core| core.workers.shown().workers.iter().filter(|worker| worker.doing == "Paused").count();
    idle.cluster
        .until("three of four rest on the leader alone", |_| {
            (resting(&idle.leader) == 3 && idle.followers.iter().all(|core| resting(core) == 0)).then_some(())
        })
        .await;
    idle.stop().await;
}
