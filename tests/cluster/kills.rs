//! Servers that die under load, the leader among them, and come back on what they had written.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::chance::Chance;
use crate::cluster::Cluster;
use crate::progress::Times;
use crate::trial::Trial;
use crate::{Run, say};

/// How many writers there are.
const WRITERS: usize = 12;

#[test]
fn nothing_acknowledged_is_lost_or_doubled_when_servers_are_killed() -> Result<()> {
    let Some(run) = Run::begin("kills") else { return Ok(()) };
    let kills = run.count("KILLS", 50, 1000);
    kill_again_and_again(3, kills, run.seed)
}

#[test]
fn one_server_alone_loses_nothing_either() -> Result<()> {
    let Some(run) = Run::begin("kills of one") else { return Ok(()) };
    kill_again_and_again(1, 3, run.seed)
}

fn kill_again_and_again(servers: usize, kills: u64, seed: u64) -> Result<()> {
    let mut chance = Chance::new(seed);
    let mut trial = Trial::start(Cluster::start(servers, seed, &json!({}))?, WRITERS, seed)?;
    let (mut of_leader, mut of_follower) = (Times::default(), Times::default());
    for kill in 0..kills {
        let leader = trial.cluster.leader()?;
        let followers = trial.cluster.others(leader);
        // The leader is as likely as all the others together.
        let follower = followers.get(usize::try_from(chance.below(2))?).copied();
        let victim = follower.filter(|_| chance.below(2) == 0).unwrap_or(leader);
        trial.progress().mark();
        trial.back(20 + chance.below(200)).with_context(|| format!("before kill {kill}"))?;

        trial.progress().mark();
        trial.cluster.servers[victim].kill()?;
        if servers > 1 {
            let gap = trial.back(20).with_context(|| format!("after kill {kill} of {}", trial.cluster.servers[victim].name))?;
            let times = if victim == leader { &mut of_leader } else { &mut of_follower };
            times.add(gap);
            // Sometimes it misses more than a little.
            trial.progress().over(Duration::from_millis(chance.below(300)));
        }
        trial.cluster.start_again(victim)?;
        trial.all_serve().with_context(|| format!("after kill {kill}"))?;
        if kill % 10 == 9 {
            let acknowledged = trial.progress().acknowledged();
            say(&format!("{} kills, {acknowledged} writes acknowledged; without writes after a leader's death {of_leader}", kill + 1));
        }
    }
    trial.finish(&format!("{kills} kills"))?;
    say(&format!("without writes after the death of a leader: {of_leader}; of a follower: {of_follower}"));
    Ok(())
}
