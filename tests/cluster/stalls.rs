//! Servers that freeze without dying, and networks that are bad without being cut.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::cluster::{Cluster, WITHIN};
use crate::http::{self, Request};
use crate::progress::Times;
use crate::switch::Faults;
use crate::trial::Trial;
use crate::{Run, say};

const WRITERS: usize = 12;
/// Time for which a frozen server stays frozen after the others have continued.
const FROZEN: Duration = Duration::from_millis(1500);
/// Duration of a bad network.
const BAD: Duration = Duration::from_secs(3);

#[test]
fn frozen_leader_is_replaced_and_serves_again_when_thawed() -> Result<()> {
    let Some(run) = Run::begin("frozen servers") else { return Ok(()) };
    let rounds = run.count("STALLS", 4, 100);
    let trial = Trial::start(Cluster::start(3, run.seed, &json!({}))?, WRITERS, run.seed)?;
    let mut gaps = Times::default();
    for round in 0..rounds {
        let leader = trial.cluster.leader()?;
        // Every fourth time a follower.
        let frozen = if round % 4 == 3 { trial.cluster.others(leader)[0] } else { leader };
        trial.progress().mark();
        trial.cluster.servers[frozen].freeze()?;
        let gap = trial.back(30).with_context(|| format!("round {round}"));
        trial.progress().over(FROZEN);
        trial.cluster.servers[frozen].thaw()?;
        gaps.add(gap?);
        trial.all_serve().with_context(|| format!("after round {round}"))?;
    }
    trial.finish(&format!("{rounds} servers stopped and continued"))?;
    say(&format!("without writes while one stood still: {gaps}"));
    Ok(())
}

#[test]
fn archive_restore_reaches_a_server_that_was_frozen() -> Result<()> {
    let Some(run) = Run::begin("restore beside a frozen server") else { return Ok(()) };
    let mut cluster = Cluster::start(3, run.seed, &json!({}))?;
    let leader = cluster.leader()?;
    let frozen = cluster.others(leader)[0];
    cluster.write_through(leader, "in-the-archive")?;
    let archive = cluster.servers[leader].call(&Request::new("GET", "/v1/operator/snapshot"))?;
    ensure!(archive.head.status == 200, "no archive: {}", archive.text());
    cluster.write_through(leader, "behind-the-archive")?;

    cluster.servers[frozen].freeze()?;
    let restore = Request { body: Some(archive.body), ..Request::new("PUT", "/v1/operator/snapshot") };
    let restored = http::call(cluster.servers[leader].http, &restore, Instant::now() + WITHIN);
    cluster.servers[frozen].thaw()?;
    let restored = restored.with_context(|| cluster.last_words())?;
    ensure!(restored.head.status == 200, "not restored: {} {}", restored.head.status, restored.text());

    // The server that was frozen gets the archive, too, and restores the same state.
    let last = cluster.write_through(frozen, "last")?;
    cluster.all_reach(last)?;
    for server in &cluster.servers {
        let (_, pools) = server.get("/v1/node/pools?stale")?;
        let names: Vec<_> = pools.as_array().into_iter().flatten().filter_map(|pool| pool["Name"].as_str()).collect();
        assert_eq!(names, ["all", "default", "in-the-archive", "last"], "{}", server.name);
    }
    cluster.digests_agree(last)?;
    Ok(())
}

#[test]
fn writes_go_on_while_packets_are_lost_and_late() -> Result<()> {
    let Some(run) = Run::begin("loss and delay") else { return Ok(()) };
    let rounds = run.count("BAD_NETWORKS", 1, 20);
    let trial = Trial::start(Cluster::start(3, run.seed, &json!({}))?, WRITERS, run.seed)?;
    let late = |ms| Duration::from_millis(ms);
    let bad = [
        ("a tenth of a second late", Faults { delay: late(50), jitter: late(10), ..Faults::default() }),
        ("2 % lost", Faults { lost_per_thousand: 20, ..Faults::default() }),
        (
            "5 % lost, late and out of order",
            Faults { lost_per_thousand: 50, delay: late(5), jitter: late(20), ..Faults::default() },
        ),
        ("15 % lost", Faults { lost_per_thousand: 150, ..Faults::default() }),
    ];
    for _ in 0..rounds {
        for (name, faults) in &bad {
            trial.cluster.set(faults.clone());
            trial.progress().mark();
            let gap = trial.back(10).with_context(|| (*name).to_owned())?;
            let count = trial.progress().over(BAD);
            say(&format!(
                "{name}: {count} writes in {} s; longest without before it settled: {} ms",
                BAD.as_secs(),
                gap.as_millis()
            ));
        }
        trial.cluster.set(Faults::default());
        trial.all_serve()?;
    }
    trial.finish(&format!("{} bad networks", rounds * 4))?;
    Ok(())
}
