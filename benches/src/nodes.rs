//! Simulated nodes against a running server, over the node RPC: as many as the machine can hold, until they are stopped.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use songline::model::{Dur, Str};
use songline::rpc::port::{Dialer, Tls, TlsSettings};
use songline_sim::fleet::{Behaviour, Counts, Delay, Fleet, FleetOptions, Lanes, Profile, RunFor, duration_of};
use tokio::signal::unix::{SignalKind, signal};

/// Nodes that share a connection unless `--connections` says otherwise.
const NODES_PER_CONNECTION: usize = 500;
/// Most connections unless `--connections` says otherwise: servers limit those of one address to 100.
const CONNECTIONS_MAX: usize = 64;
/// Most errors that are printed at a time.
const ERRORS_SHOWN: usize = 5;

#[derive(Args)]
pub struct Options {
    /// How many nodes.
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// `host:port` of the node RPC of a server; may be given several times.
    #[arg(long = "server", value_delimiter = ',', required = true)]
    servers: Vec<String>,
    /// Connections that the nodes share. Without it one for 500 nodes, at most 64.
    #[arg(long)]
    connections: Option<usize>,
    /// Use only the servers given here, not those that the servers name.
    #[arg(long)]
    fixed_servers: bool,
    /// Region of the servers.
    #[arg(long, default_value = "global")]
    region: String,
    #[command(flatten)]
    tls: Files,
    #[command(flatten)]
    nodes: Machines,
    #[command(flatten)]
    allocs: Allocs,
    #[command(flatten)]
    deaths: Deaths,
    /// Most registrations per second; 0 is no limit.
    #[arg(long, default_value_t = 0)]
    start_rate: u32,
    /// End after this time; without it on Ctrl-C.
    #[arg(long = "for", value_parser = span)]
    run_time: Option<Duration>,
    /// Time between two lines of progress.
    #[arg(long, default_value = "5s", value_parser = span)]
    every: Duration,
    /// Report the nodes as down at the end, instead of leaving that to missed heartbeats.
    #[arg(long)]
    deregister: bool,
}

/// Files for servers with TLS.
#[derive(Args)]
struct Files {
    /// Certificate of the authority, PEM. With it connections use TLS.
    #[arg(long, requires = "client_cert", requires = "client_key")]
    ca_cert: Option<PathBuf>,
    /// Certificate of the nodes, PEM.
    #[arg(long)]
    client_cert: Option<PathBuf>,
    /// Key of that certificate, PEM.
    #[arg(long)]
    client_key: Option<PathBuf>,
}

/// Description of the nodes.
#[derive(Args)]
struct Machines {
    /// Beginning of the nodes' names; their number follows.
    #[arg(long, default_value = "sim-")]
    name_prefix: String,
    /// Text from which ids follow, so that the next run has the same nodes.
    #[arg(long)]
    id_seed: Option<String>,
    /// Datacenters, used in turn.
    #[arg(long, value_delimiter = ',', default_value = "dc1")]
    datacenters: Vec<String>,
    /// Node classes, used in turn.
    #[arg(long, value_delimiter = ',')]
    node_classes: Vec<String>,
    /// Node pools, used in turn.
    #[arg(long, value_delimiter = ',', default_value = "default")]
    node_pools: Vec<String>,
    /// Capacity in MHz.
    #[arg(long, default_value_t = 20_000)]
    cpu: i64,
    /// Number of cores.
    #[arg(long, default_value_t = 8)]
    cores: u64,
    /// Memory in MB.
    #[arg(long, default_value_t = 32_768)]
    memory: i64,
    /// Disk in MB.
    #[arg(long, default_value_t = 102_400)]
    disk: i64,
    /// Drivers.
    #[arg(long, value_delimiter = ',', default_value = "mock_driver,raw_exec,exec,docker")]
    drivers: Vec<String>,
    /// Version of the nodes; servers gate features on it.
    #[arg(long, default_value = "1.6.5")]
    nomad_version: String,
    /// Further attributes, `key=value`.
    #[arg(long = "attribute", value_parser = pair)]
    attributes: Vec<(Str, Str)>,
    /// Metadata, `key=value`.
    #[arg(long = "meta", value_parser = pair)]
    meta: Vec<(Str, Str)>,
}

/// How allocations behave. Delays are `100ms`, or `50ms..500ms` for an even spread.
#[derive(Args)]
struct Allocs {
    /// Delay from the arrival of an allocation until it runs.
    #[arg(long, default_value = "50ms..500ms")]
    start_delay: Delay,
    /// Delay from a stop until the allocation is complete.
    #[arg(long, default_value = "0s..200ms")]
    stop_delay: Delay,
    /// Delay until healthy in deployments. Without it the group's `min_healthy_time`.
    #[arg(long, value_parser = duration_of)]
    health_delay: Option<Dur>,
    /// Run time. Without it `run_for` of `mock_driver` in batch jobs, else for ever. The meta `sim_run_for` of a job,
    /// group or task goes first.
    #[arg(long)]
    run_for: Option<Delay>,
    /// Share of allocations that fail, 0 to 1. The meta `sim_fail_ratio` goes first.
    #[arg(long, default_value_t = 0.0)]
    fail_ratio: f64,
    /// Delay until failure. Without it the run time, or 1 s.
    #[arg(long)]
    fail_after: Option<Delay>,
    /// Time for which a changed status waits for other updates of the node.
    #[arg(long, default_value = "200ms", value_parser = duration_of)]
    update_interval: Dur,
    /// Number of these intervals for which other updates wait.
    #[arg(long, default_value_t = 5)]
    typical_ticks: u32,
}

/// Death of nodes.
#[derive(Args)]
struct Deaths {
    /// Kill nodes at random after every such time.
    #[arg(long, value_parser = span)]
    kill_every: Option<Duration>,
    /// How many each time.
    #[arg(long, default_value_t = 1)]
    kill_count: usize,
    /// Time until a killed node returns; without it never.
    #[arg(long, value_parser = span, requires = "kill_every")]
    down_for: Option<Duration>,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    anyhow::ensure!((0.0..=1.0).contains(&options.allocs.fail_ratio), "--fail-ratio is from 0 to 1");
    anyhow::ensure!(!options.every.is_zero(), "--every is above 0");
    anyhow::ensure!(options.deaths.kill_every.is_none_or(|every| !every.is_zero()), "--kill-every is above 0");
    let connections =
        options.connections.unwrap_or_else(|| options.count.div_ceil(NODES_PER_CONNECTION).min(CONNECTIONS_MAX)).max(1);
    let servers: Vec<Str> = options.servers.iter().map(|server| server.as_str().into()).collect();
    let lanes = Lanes::any(&servers, connections, options.region.as_str().into(), &options.dialer()?);
    let lanes = if options.fixed_servers { lanes.fixed() } else { lanes };
    println!("nodes: {} nodes over {connections} connections to {}", options.count, options.servers.join(", "));
    let fleet = Fleet::over(options.fleet(), lanes);
    progress(&options, &fleet).await?;
    if options.deregister {
        tokio::select! {
            left = fleet.leave() => println!("nodes: {left} of {} nodes reported as down", options.count),
            _ = tokio::signal::ctrl_c() => println!("nodes: interrupted; the servers miss the other nodes' heartbeats"),
        }
    } else {
        fleet.stop();
    }
    summary(&fleet.counts());
    Ok(())
}

/// Prints progress, and kills nodes and brings them back, until the run is to end.
async fn progress(options: &Options, fleet: &Fleet<Lanes>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let started = Instant::now();
    let mut lines = tokio::time::interval(options.every);
    lines.tick().await;
    // An interval of a day stands for none.
    let mut kills = tokio::time::interval(options.deaths.kill_every.unwrap_or(Duration::from_hours(24)));
    kills.tick().await;
    let mut dead: VecDeque<(Instant, Vec<usize>)> = VecDeque::new();
    let mut before = fleet.counts();
    let mut all_ready = false;
    loop {
        let returns = dead.front().and_then(|(since, _)| Some(*since + options.deaths.down_for?));
        tokio::select! {
            _ = lines.tick() => {
                let now = fleet.counts();
                line(started.elapsed(), &before, &now, options);
                tell_errors(fleet);
                before = now;
            }
            _ = kills.tick(), if options.deaths.kill_every.is_some() => {
                let killed = fleet.kill(options.deaths.kill_count);
                if !killed.is_empty() {
                    println!("nodes: killed {}", names(options, &killed));
                    dead.push_back((Instant::now(), killed));
                }
            }
            () = until(returns) => {
                if let Some((_, numbers)) = dead.pop_front() {
                    println!("nodes: {} return", names(options, &numbers));
                    fleet.revive(&numbers);
                }
            }
            ready = fleet.all_ready(options.every), if !all_ready => {
                if ready.is_ok() {
                    all_ready = true;
                    println!("nodes: all are ready after {:.1} s", started.elapsed().as_secs_f64());
                }
            }
            () = until(options.run_time.map(|time| started + time)) => return Ok(()),
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    }
}

/// Waits until a time; `None` waits for ever.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn line(at: Duration, before: &Counts, now: &Counts, options: &Options) {
    let rate = |after: u64, before: u64| (after - before) as f64 / options.every.as_secs_f64();
    println!(
        "nodes: {:5.0} s, {} of {} ready, {} running, {} pending, {} complete, {} failed, {:.0} updates/s in {:.0} calls/s, \
         {:.0} heartbeats/s",
        at.as_secs_f64(),
        now.ready,
        options.count,
        now.running,
        now.pending,
        now.completed,
        now.failed,
        rate(now.updates, before.updates),
        rate(now.update_calls, before.update_calls),
        rate(now.heartbeats, before.heartbeats),
    );
}

/// Prints errors since the last time, the most frequent first.
fn tell_errors(fleet: &Fleet<Lanes>) {
    let mut errors: Vec<_> = fleet.take_errors().into_iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (text, count) in errors.iter().take(ERRORS_SHOWN) {
        println!("nodes: {text} ({count} times)");
    }
    if let Some(more) = errors.len().checked_sub(ERRORS_SHOWN).filter(|more| *more > 0) {
        println!("nodes: and {more} other errors");
    }
}

fn names(options: &Options, numbers: &[usize]) -> String {
    let names: Vec<_> = numbers.iter().map(|n| format!("{}{n}", options.nodes.name_prefix)).collect();
    names.join(", ")
}

fn summary(counts: &Counts) {
    println!("| measured | value |\n|---|---|");
    println!("| registrations | {} |", counts.registered);
    println!("| heartbeats | {} |", counts.heartbeats);
    println!("| heartbeats that came too late | {} |", counts.missed);
    println!("| allocations that completed, and that failed | {}, {} |", counts.completed, counts.failed);
    let per_call = counts.updates as f64 / counts.update_calls.max(1) as f64;
    println!("| updates of allocations | {} in {} calls, {per_call:.1} each |", counts.updates, counts.update_calls);
    println!("| failed calls | {} |", counts.errors);
}

impl Options {
    fn fleet(&self) -> FleetOptions {
        let (nodes, allocs) = (&self.nodes, &self.allocs);
        let texts = |list: &[String]| list.iter().map(|text| Str::from(text.as_str())).collect();
        let pairs = |list: &[(Str, Str)]| list.iter().cloned().collect::<BTreeMap<_, _>>();
        let profile = Profile {
            name_prefix: nodes.name_prefix.clone(),
            id_seed: nodes.id_seed.clone(),
            datacenters: texts(&nodes.datacenters),
            node_classes: texts(&nodes.node_classes),
            node_pools: texts(&nodes.node_pools),
            cpu_mhz: nodes.cpu,
            cores: nodes.cores,
            memory_mb: nodes.memory,
            disk_mb: nodes.disk,
            drivers: texts(&nodes.drivers),
            nomad_version: nodes.nomad_version.as_str().into(),
            attributes: pairs(&nodes.attributes),
            meta: pairs(&nodes.meta),
        };
        let behaviour = Behaviour {
            start_delay: allocs.start_delay,
            stop_delay: allocs.stop_delay,
            health_delay: allocs.health_delay,
            run_for: allocs.run_for.map_or(RunFor::OfJob, RunFor::Span),
            fail_ratio: allocs.fail_ratio,
            fail_after: allocs.fail_after,
            update_interval: allocs.update_interval,
            typical_ticks: allocs.typical_ticks,
            ..Behaviour::real()
        };
        FleetOptions { count: self.count, start_rate: self.start_rate, profile, behaviour }
    }

    fn dialer(&self) -> anyhow::Result<Dialer> {
        let (Some(ca), Some(cert), Some(key)) = (&self.tls.ca_cert, &self.tls.client_cert, &self.tls.client_key) else {
            return Ok(Dialer::plain());
        };
        let settings = TlsSettings {
            ca_file: ca.clone(),
            cert_file: cert.clone(),
            key_file: key.clone(),
            region: self.region.clone(),
            verify_server_hostname: true,
            ..TlsSettings::default()
        };
        Ok(Dialer::secured(Tls::load(&settings)?))
    }
}

fn span(text: &str) -> Result<Duration, String> {
    duration_of(text).map(Dur::to_std)
}

fn pair(text: &str) -> Result<(Str, Str), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not key=value"))?;
    Ok((key.into(), value.into()))
}
