//! A server that has lost all its data, and returns to a cluster that, in a release build, no longer has the first
//! entries of its log.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::cluster::{Cluster, WITHIN};
use crate::filler::Filler;
use crate::trial::Trial;
use crate::wait::until;
use crate::{Run, say};

const WRITERS: usize = 8;
/// Retained size of the log, as a configuration value.
const KEPT: &str = "64MiB";
/// Amount that is written before, in bytes. In a release build the first entries are gone after that; a debug build
/// is too slow for so much.
const WRITTEN: u64 = if cfg!(debug_assertions) { 8 << 20 } else { 300 << 20 };

#[test]
fn wiped_server_receives_the_state_from_the_others() -> Result<()> {
    let Some(run) = Run::begin("a wiped server") else { return Ok(()) };
    let config = json!({"server": {"log_retention_bytes": KEPT}});
    let mut trial = Trial::start(Cluster::start(3, run.seed, &config)?, WRITERS, run.seed)?;
    let filler = Filler::start(&trial.cluster.addresses())?;
    filler.written(WRITTEN).with_context(|| trial.cluster.last_words())?;
    filler.finish()?;
    let leader = trial.cluster.leader()?;
    let victim = trial.cluster.others(leader)[0];
    let first = || std::fs::read_dir(trial.cluster.servers[leader].data.join("server/log")).map(|dir| dir.count());
    let segments = first().context("counting segments")?;
    say(&format!("the leader's log has {segments} files after {} MiB", WRITTEN >> 20));

    trial.cluster.servers[victim].kill()?;
    trial.cluster.servers[victim].wipe()?;
    trial.progress().mark();
    trial.back(50)?;
    let (index, _) = trial.cluster.servers[leader].get("/v1/node/pools?stale")?;
    trial.cluster.start_again(victim)?;
    let server = &trial.cluster.servers[victim];
    let mut at = 0;
    let reached = until(std::time::Instant::now() + WITHIN, || {
        at = server.get("/v1/node/pools?stale").map_or(0, |(index, _)| index);
        at >= index
    });
    ensure!(reached, "{} came to {at} and not to {index}: {}", server.name, trial.cluster.last_words());
    // The wiped server has no history of earlier entries.
    trial.tells_since(victim, index);
    trial.all_serve()?;
    trial.finish("a wiped server")?;
    Ok(())
}
