//! Leadership transfers under load: repeated requests, and a rolling restart of all servers.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::cluster::{Cluster, WITHIN};
use crate::http::Request;
use crate::progress::Times;
use crate::trial::Trial;
use crate::wait::until;
use crate::{Run, say};

const WRITERS: usize = 12;

#[test]
fn repeated_leadership_transfers_lose_no_writes() -> Result<()> {
    let Some(run) = Run::begin("transfers") else { return Ok(()) };
    let transfers = run.count("TRANSFERS", 15, 500);
    let trial = Trial::start(Cluster::start(3, run.seed, &json!({}))?, WRITERS, run.seed)?;
    let mut gaps = Times::default();
    for transfer in 0..transfers {
        let leader = trial.cluster.leader()?;
        let next = trial.cluster.others(leader)[usize::try_from(transfer % 2)?];
        let address = &trial.cluster.servers[next].rpc;
        let request = Request::new("PUT", &format!("/v1/operator/raft/transfer-leadership?address={address}"));
        trial.progress().mark();
        let answer = trial.cluster.servers[leader].call(&request)?;
        ensure!(answer.head.status == 200, "transfer {transfer}: {} {}", answer.head.status, answer.text());
        let led = until(std::time::Instant::now() + WITHIN, || {
            trial.cluster.servers[next].leader().as_ref() == Some(address)
        });
        ensure!(
            led,
            "transfer {transfer}: {} does not lead: {}",
            trial.cluster.servers[next].name,
            trial.cluster.last_words()
        );
        gaps.add(trial.back(10).with_context(|| format!("after transfer {transfer}"))?);
    }
    trial.all_serve()?;
    trial.finish(&format!("{transfers} transfers of leadership"))?;
    say(&format!("without writes while leadership was handed on: {gaps}"));
    Ok(())
}

#[test]
fn rolling_restarts_lose_no_writes() -> Result<()> {
    let Some(run) = Run::begin("rolling restarts") else { return Ok(()) };
    let rounds = run.count("RESTARTS", 1, 30);
    let mut trial = Trial::start(Cluster::start(3, run.seed, &json!({}))?, WRITERS, run.seed)?;
    let mut gaps = Times::default();
    for _ in 0..rounds {
        // The leader last, as in an upgrade.
        let leader = trial.cluster.leader()?;
        let mut order = trial.cluster.others(leader);
        order.push(leader);
        for n in order {
            trial.progress().mark();
            trial.cluster.servers[n].stop()?;
            gaps.add(trial.back(20)?);
            trial.cluster.start_again(n)?;
            trial.all_serve().with_context(|| format!("after the restart of {}", trial.cluster.servers[n].name))?;
        }
    }
    trial.finish(&format!("{rounds} rolling restarts"))?;
    say(&format!("without writes while one was away: {gaps}"));
    Ok(())
}
