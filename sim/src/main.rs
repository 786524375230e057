//! Simulates clusters: `--seed N` replays one run and prints its digest, `--seeds A..B --jobs J` sweeps and ends with
//! one line of counts. A seed `rN` is that of several regions.

use std::fmt::{self, Display, Formatter};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use songline_sim::simulation::{Counts, Plan, Report, run, shrink};

/// Largest number of runs that shrink a failing plan.
const SHRINK_RUNS_MAX: u32 = 60;

/// Seed of a plan, by the kind of simulation.
#[derive(Debug, Clone, Copy)]
enum Seed {
    /// One cluster.
    Cluster(u64),
    /// Several regions.
    Regions(u64),
}

impl Seed {
    fn plan(self, length: Duration) -> Plan {
        match self {
            Self::Cluster(seed) => Plan::of_seed(seed, length),
            Self::Regions(seed) => Plan::of_regions(seed, length),
        }
    }

    /// Seeds in one of the forms `N`, `A..B`, `rN` and `rA..B`.
    fn parse(text: &str) -> Result<Vec<Self>> {
        let (of, numbers): (fn(u64) -> Self, &str) = match text.strip_prefix('r') {
            Some(numbers) => (Self::Regions, numbers),
            None => (Self::Cluster, text),
        };
        Ok(match numbers.split_once("..") {
            Some((from, to)) => (from.parse()?..to.parse()?).map(of).collect(),
            None => vec![of(numbers.parse()?)],
        })
    }
}

impl Display for Seed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(seed) => write!(f, "{seed}"),
            Self::Regions(seed) => write!(f, "r{seed}"),
        }
    }
}

struct Args {
    seeds: Vec<Seed>,
    length: Duration,
    jobs: usize,
    one: bool,
    shrinks: bool,
    /// Whether the end of the story is printed without a finding, too.
    tells: bool,
}

fn args() -> Result<Args> {
    let mut args =
        Args { seeds: Vec::new(), length: Duration::from_secs(600), jobs: 1, one: false, shrinks: true, tells: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seed" => {
                args.seeds = Seed::parse(&value()?).context("--seed wants a number, or r and a number")?;
                args.one = true;
            }
            "--seeds" => {
                for part in value()?.split(',') {
                    let seeds = Seed::parse(part);
                    args.seeds.extend(seeds.context("--seeds wants A..B, rA..B, N or rN, separated by commas")?);
                }
            }
            "--minutes" => args.length = Duration::from_secs_f64(value()?.parse::<f64>()? * 60.0),
            "--jobs" => args.jobs = value()?.parse::<usize>()?.max(1),
            "--no-shrink" => args.shrinks = false,
            "--story" => args.tells = true,
            _ => bail!(
                "usage: songline-sim --seed [r]N [--story] | --seeds A..B,N,rA..B,rN.. [--minutes M] [--jobs J] [--no-shrink]"
            ),
        }
    }
    if args.seeds.is_empty() {
        bail!("no seeds: --seed N or --seeds A..B");
    }
    Ok(args)
}

#[derive(Default)]
struct Sum {
    seeds: u64,
    simulated: Duration,
    counts: Counts,
    failed: Vec<String>,
}

impl Sum {
    fn add(&mut self, seed: Seed, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.counts.add(&report.counts);
        if report.violation.is_some() {
            self.failed.push(seed.to_string());
        }
    }
}

fn main() -> Result<ExitCode> {
    let args = args()?;
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                loop {
                    let Some(seed) = args.seeds.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    simulate(&args, *seed, &sum);
                }
            });
        }
    });
    let sum = sum.into_inner();
    let counts = sum.counts;
    say(&format!(
        "{} seeds, {:.0} simulated minutes, {} answered ops ({} acknowledged writes), {} entries, {} crashes, {} failed disks that came back, {} partitions, \
         {} terms with a leader, {} membership changes, {} joins, {} bit flips ({} refused starts), {} histories filled anew, {} nodes, {} allocs placed, \
         {} preempted, {} launches, {} dispatches, {} calls with few rights, {} promotions, \
         {} failed deployments, {} reconnects, {} moves to another server, {} registrations in several regions, \
         {} parts of them rolled out, {} objects replicated, {:.1} s to rest at most, {} failed {:?}, {:.1} s",
        sum.seeds,
        sum.simulated.as_secs_f64() / 60.0,
        counts.answered,
        counts.acknowledged,
        counts.entries,
        counts.crashes,
        counts.comebacks,
        counts.partitions,
        counts.terms,
        counts.memberships,
        counts.joins,
        counts.flips,
        counts.refusals,
        counts.refills,
        counts.nodes,
        counts.placed,
        counts.preempted,
        counts.launched,
        counts.dispatched,
        counts.calls,
        counts.promoted,
        counts.failed_deployments,
        counts.reconnects,
        counts.moves,
        counts.registered,
        counts.finished,
        counts.replicated,
        Duration::from_millis(counts.rest_ms).as_secs_f64(),
        sum.failed.len(),
        sum.failed,
        begun.elapsed().as_secs_f64(),
    ));
    Ok(if sum.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a line. A write error is ignored: the reader of the output may be gone.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn simulate(args: &Args, seed: Seed, sum: &Mutex<Sum>) {
    let plan = seed.plan(args.length);
    let report = run(&plan);
    if args.one {
        say(&format!("seed {seed}: trace {} {:?}", report.digest, report.counts));
    }
    sum.lock().add(seed, &report);
    if let Some((at, violation)) = &report.violation {
        say(&format!("seed {seed} fails at {:.3} s: {violation}", at.as_secs_f64()));
        if args.shrinks {
            say(&shrink(&plan, report.clone(), SHRINK_RUNS_MAX).to_string());
        }
    }
    let failed_alone = report.violation.is_some() && args.one && !args.shrinks;
    if args.tells || failed_alone {
        for line in &report.lines {
            say(&format!("  {line}"));
        }
    }
}
