//! Placement on three servers with one processor each: scheduled by the leader alone, then by all of them.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use songline::rpc::RpcError;
use songline::rpc::net::{Pool, PoolLimits};
use songline::rpc::port::Dialer;
use songline::rpc::servers_wire::{RemoteServers, RpcClient};
use songline_sim::SimNode;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, Program};
use crate::http::Connection;
use crate::place;

#[derive(Args)]
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
        let stop = CancellationToken::new();
        join(&cluster, options.load.nodes, &stop).await.context("letting simulated nodes join")?;
        let placed = place::place(&options.load, cluster.servers[leader].http.clone()).await;
        stop.cancel();
        placed?;
    }
    Ok(())
}

/// Lets nodes join, spread over the servers.
async fn join(cluster: &Cluster, nodes: usize, stop: &CancellationToken) -> anyhow::Result<()> {
    let pool = Pool::new(Dialer::plain(), PoolLimits::default(), None);
    for n in 0..nodes {
        let address = cluster.servers[n % cluster.servers.len()].rpc.clone();
        let servers = RemoteServers::new(Calls { pool: pool.clone(), address }, "global");
        let node = SimNode::new(Arc::new(servers), n, stop.clone());
        node.join().await?;
        tokio::spawn(node.run());
    }
    Ok(())
}

/// Calls of nodes to one server.
struct Calls {
    pool: Pool,
    address: String,
}

impl RpcClient for Calls {
    async fn call(&self, method: &str, body: Vec<u8>) -> Result<Vec<u8>, RpcError> {
        self.pool.call(&self.address, method, &body).await.map(|answer| answer.to_vec())
    }
}
