//! Twelve partitions of a network between three servers, each under load.
//!
//! In the notation `l` is the leader when the fault begins, `f` and `g` are followers. `l=f` cuts both directions;
//! `l>f` cuts messages from `l` to `f`, while `l` still hears `f`. Semicolons separate consecutive steps.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::cluster::Cluster;
use crate::progress::Times;
use crate::switch::Faults;
use crate::trial::Trial;
use crate::{Run, say};

const WRITERS: usize = 12;
/// Duration of one step of a moving fault.
const STEP: Duration = Duration::from_millis(400);
/// Duration of a fault without a working majority, in which nothing may be acknowledged.
const SILENT: Duration = Duration::from_secs(3);

/// One partition.
struct Topology {
    name: &'static str,
    cuts: &'static str,
}

const TOPOLOGIES: [Topology; 12] = [
    Topology { name: "leader alone", cuts: "l=f l=g" },
    Topology { name: "follower alone", cuts: "f=l f=g" },
    Topology { name: "all apart", cuts: "l=f l=g f=g" },
    Topology { name: "leader and follower apart, a bridge between them", cuts: "l=f" },
    Topology { name: "deaf leader", cuts: "f>l g>l" },
    Topology { name: "mute leader", cuts: "l>f l>g" },
    Topology { name: "deaf follower", cuts: "l>f g>f" },
    Topology { name: "mute follower", cuts: "f>l f>g" },
    Topology { name: "leader not heard by one follower", cuts: "l>f" },
    Topology { name: "each hears only one other, in a ring", cuts: "l>f f>g g>l" },
    Topology { name: "a cut that walks round the ring", cuts: "l=f; f=g; g=l; l=f; f=g; g=l" },
    Topology { name: "flapping leader", cuts: "l=f l=g; ; l=f l=g; ; l=f l=g; ; l=f l=g" },
];

#[test]
fn partitions_do_not_split_the_cluster_and_writes_resume() -> Result<()> {
    let Some(run) = Run::begin("partitions") else { return Ok(()) };
    let rounds = run.count("PARTITIONS", 1, 20);
    let trial = Trial::start(Cluster::start(3, run.seed, &json!({}))?, WRITERS, run.seed)?;
    let (mut all_cut, mut all_healed) = (Times::default(), Times::default());
    for topology in &TOPOLOGIES {
        let (mut cut, mut healed) = (Times::default(), Times::default());
        for round in 0..rounds {
            fall_apart(&trial, topology, &mut cut, &mut healed)
                .with_context(|| format!("{}, round {round}", topology.name))?;
        }
        say(&format!("{} ({}): without writes while cut: {cut}; after: {healed}", topology.name, topology.cuts));
        all_cut.extend(&cut);
        all_healed.extend(&healed);
    }
    trial.finish(&format!("12 topologies, {rounds} times each"))?;
    say(&format!("without writes where a majority could go on: {all_cut}; after healing: {all_healed}"));
    Ok(())
}

fn fall_apart(trial: &Trial, topology: &Topology, cut: &mut Times, healed: &mut Times) -> Result<()> {
    trial.all_serve()?;
    let leader = trial.cluster.leader()?;
    let steps: Vec<&str> = topology.cuts.split(';').collect();
    let moving = steps.len() > 1;
    for step in steps {
        let links = links(step, leader);
        trial.cluster.set(Faults { cut: links.clone(), ..Faults::default() });
        trial.progress().mark();
        let counts = || trial.progress().since_mark();
        if moving {
            trial.progress().over(STEP);
        } else if can_write(&links) {
            cut.add(trial.back(30)?);
        } else {
            trial.progress().over(SILENT);
            ensure!(counts().iter().sum::<u64>() == 0, "written without a majority: by server {:?}", counts());
        }
        for alone in (0..3).filter(|n| talks_to(*n, &links).is_empty()) {
            ensure!(
                counts()[alone] == 0,
                "{} wrote while it was alone: {:?}",
                trial.cluster.servers[alone].name,
                counts()
            );
        }
    }
    trial.cluster.set(Faults::default());
    trial.progress().mark();
    healed.add(trial.back(30)?);
    trial.all_serve()
}

/// The directed links that a step cuts.
fn links(step: &str, leader: usize) -> BTreeSet<(usize, usize)> {
    let server = |letter: &str| match letter {
        "l" => leader,
        "f" => (leader + 1) % 3,
        "g" => (leader + 2) % 3,
        other => panic!("{other} is no server"),
    };
    let mut links = BTreeSet::new();
    for word in step.split_whitespace() {
        let both = word.split_once('=');
        let (from, to) = both.or_else(|| word.split_once('>')).expect("a cut between two servers");
        links.insert((server(from), server(to)));
        if both.is_some() {
            links.insert((server(to), server(from)));
        }
    }
    links
}

/// Servers with a working connection to `n` in both directions.
fn talks_to(n: usize, cut: &BTreeSet<(usize, usize)>) -> Vec<usize> {
    (0..3).filter(|other| *other != n && !cut.contains(&(n, *other)) && !cut.contains(&(*other, n))).collect()
}

/// Whether two servers can still talk to each other, so that a majority remains.
fn can_write(cut: &BTreeSet<(usize, usize)>) -> bool {
    (0..3).any(|n| !talks_to(n, cut).is_empty())
}
