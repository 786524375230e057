//! Servers, among them the leader, are killed under load and restart on their data.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::chance::Chance;
use crate::cluster::Cluster;
use crate::progress::Times;
use crate::trial::Trial;
use crate::{Run, say};

/// Number of writers in a short run; the second constant is for a long one.
const WRITERS: u64 = 12;
const WRITERS_LONG: u64 = 32;
/// Number of kills in one cluster. Then a new cluster is started, so that the disk need not hold all runs' data.
const KILLS_OF_ONE_CLUSTER: u64 = 100;

#[test]
fn killed_servers_lose_and_double_no_acknowledged_writes() -> Result<()> {
    let Some(run) = Run::begin("kills") else { return Ok(()) };
    let kills = run.count("KILLS", 20, 1000);
    // At least this many writes are acknowledged between two kills, plus a random number.
    let between = run.count("WRITES", 20, 5_000);
    let writers = usize::try_from(run.count("WRITERS", WRITERS, WRITERS_LONG))?;
    let (mut done, mut acknowledged, mut times) = (0, 0, Deaths::default());
    while done < kills {
        let more = KILLS_OF_ONE_CLUSTER.min(kills - done);
        acknowledged += kill_again_and_again(3, more, between, writers, run.seed.wrapping_add(done), &mut times)?;
        done += more;
    }
    say(&format!("{kills} kills in all, {acknowledged} writes acknowledged, 0 lost, 0 doubled; {times}"));
    Ok(())
}

#[test]
fn killed_single_server_loses_no_acknowledged_writes() -> Result<()> {
    let Some(run) = Run::begin("kills of one") else { return Ok(()) };
    kill_again_and_again(1, 3, 20, usize::try_from(WRITERS)?, run.seed, &mut Deaths::default())?;
    Ok(())
}

/// Times without acknowledged writes after kills.
#[derive(Default)]
struct Deaths {
    of_leader: Times,
    of_follower: Times,
}

impl std::fmt::Display for Deaths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "without writes after the death of a leader: {}; of a follower: {}", self.of_leader, self.of_follower)
    }
}

/// Returns the number of acknowledged writes.
fn kill_again_and_again(
    servers: usize,
    kills: u64,
    between: u64,
    writers: usize,
    seed: u64,
    times: &mut Deaths,
) -> Result<u64> {
    let mut chance = Chance::new(seed);
    let mut trial = Trial::start(Cluster::start(servers, seed, &json!({}))?, writers, seed)?;
    for kill in 0..kills {
        let leader = trial.cluster.leader()?;
        let followers = trial.cluster.others(leader);
        // The leader is chosen as often as all followers together.
        let follower = followers.get(usize::try_from(chance.below(2))?).copied();
        let victim = follower.filter(|_| chance.below(2) == 0).unwrap_or(leader);
        trial.progress().mark();
        trial.back(between + chance.below(200)).with_context(|| format!("before kill {kill}"))?;

        trial.progress().mark();
        trial.cluster.servers[victim].kill()?;
        if servers > 1 {
            let gap = trial
                .back(20)
                .with_context(|| format!("after kill {kill} of {}", trial.cluster.servers[victim].name))?;
            let times = if victim == leader { &mut times.of_leader } else { &mut times.of_follower };
            times.add(gap);
            // Sometimes the server stays down longer, so that it misses more entries.
            trial.progress().over(Duration::from_millis(chance.below(300)));
        }
        trial.cluster.start_again(victim)?;
        trial.all_serve().with_context(|| format!("after kill {kill}"))?;
        if kill % 10 == 9 {
            let acknowledged = trial.progress().acknowledged();
            say(&format!("{} kills, {acknowledged} writes acknowledged; {times}", kill + 1));
        }
    }
    Ok(trial.finish(&format!("{kills} kills"))?.acknowledged)
}
