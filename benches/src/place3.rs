//! Placement on three servers with one processor each: scheduled by the leader alone, then by all of them.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use songline::model::Str;
use songline::rpc::port::Dialer;
use songline_sim::fleet::{Behaviour, Fleet, FleetOptions, Lanes, Profile};

use crate::cluster::{Cluster, Program};
use crate::http::Connection;
use crate::place;

/// Longest time until all nodes have joined.
const JOIN_WITHIN: Duration = Duration::from_mins(10);

// The flattened options of `place` form a group of the same name.
#[derive(Args)]
#[group(skip)]
pub struct Options {
    #[command(flatten)]
    servers: Program,
    /// The processor of each server, as `taskset` numbers them; servers may share one.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2")]
    processors: Vec<usize>,
    #[command(flatten)]
    load: place::Options,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    for (label, all) in [("the leader alone schedules", false), ("all three servers schedule", true)] {
        println!("place3: {label}");
        let cluster = Cluster::start_on(&options.servers, &options.processors).await?;
        let leader = cluster.leader().await?;
        if !all {
            for (_, follower) in cluster.servers.iter().enumerate().filter(|(n, _)| *n != leader) {
                let none = json!({"num_schedulers": 0, "enabled_schedulers": ["_core"]}).to_string();
                let mut connection = Connection::open(&follower.http).await?;
                connection.ok("PUT", "/v1/agent/schedulers/config", none.as_bytes()).await?;
            }
        }
        let fleet = join(&cluster, options.load.nodes).await.context("letting simulated nodes join")?;
        let placed = place::place(&options.load, cluster.servers[leader].http.clone()).await;
        fleet.stop();
        placed?;
    }
    Ok(())
}

/// Lets nodes join, spread over the servers.
async fn join(cluster: &Cluster, nodes: usize) -> anyhow::Result<Fleet<Lanes>> {
    let addresses: Vec<Str> = cluster.servers.iter().map(|server| server.rpc.as_str().into()).collect();
    let lanes = Lanes::each(&addresses, "global".into(), &Dialer::plain());
    let options =
        FleetOptions { count: nodes, start_rate: 0, profile: Profile::default(), behaviour: Behaviour::at_once() };
    let fleet = Fleet::over(options, lanes);
    fleet.all_ready(JOIN_WITHIN).await?;
    Ok(fleet)
}
