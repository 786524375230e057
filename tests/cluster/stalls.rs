//! Servers that fall silent without dying, and networks that are bad without being cut.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cluster::Cluster;
use crate::progress::Times;
use crate::switch::Faults;
use crate::trial::Trial;
use crate::{Run, say};

const WRITERS: usize = 12;
/// How long a frozen server stays frozen after the others went on without it.
const FROZEN: Duration = Duration::from_millis(1500);
/// How long a bad network stays bad.
const BAD: Duration = Duration::from_secs(3);

#[test]
fn a_leader_that_stood_still_finds_that_others_went_on() -> Result<()> {
    let Some(run) = Run::begin("frozen servers") else { return Ok(()) };
    let rounds = run.count("STALLS", 4, 100);
    let trial = Trial::start(Cluster::start(3, run.seed, &json!({}))?, WRITERS, run.seed)?;
    let mut gaps = Times::default();
    for round in 0..rounds {
        let leader = trial.cluster.leader()?;
        // Every fourth time it is one that follows.
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
fn writes_go_on_while_packets_are_lost_and_late() -> Result<()> {
    let Some(run) = Run::begin("loss and delay") else { return Ok(()) };
    let rounds = run.count("BAD_NETWORKS", 1, 20);
    let trial = Trial::start(Cluster::start(3, run.seed, &json!({}))?, WRITERS, run.seed)?;
    let late = |ms| Duration::from_millis(ms);
    let bad = [
        ("a tenth of a second late", Faults { delay: late(50), jitter: late(10), ..Faults::default() }),
        ("2 % lost", Faults { lost_per_thousand: 20, ..Faults::default() }),
        ("5 % lost, late and out of order", Faults { lost_per_thousand: 50, delay: late(5), jitter: late(20), ..Faults::default() }),
        ("15 % lost", Faults { lost_per_thousand: 150, ..Faults::default() }),
    ];
    for _ in 0..rounds {
        for (name, faults) in &bad {
            trial.cluster.set(faults.clone());
            trial.progress().mark();
            let gap = trial.back(10).with_context(|| (*name).to_owned())?;
            let count = trial.progress().over(BAD);
            say(&format!("{name}: {count} writes in {} s; longest without before it settled: {} ms", BAD.as_secs(), gap.as_millis()));
        }
        trial.cluster.set(Faults::default());
        trial.all_serve()?;
    }
    trial.finish(&format!("{} bad networks", rounds * 4))?;
    Ok(())
}
