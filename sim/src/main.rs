//! Simulates clusters: `--seed N` replays one run and prints its digest, `--seeds A..B --jobs J` sweeps and ends with
//! one line of counts.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use songline_sim::simulation::{Counts, Plan, Report, run, shrink};

/// Largest number of runs that shrink a failing plan.
const SHRINK_RUNS_MAX: u32 = 60;

struct Args {
    seeds: Vec<u64>,
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
                args.seeds = vec![value()?.parse()?];
                args.one = true;
            }
            "--seeds" => {
                for part in value()?.split(',') {
                    match part.split_once("..") {
                        Some((from, to)) => args.seeds.extend(from.parse::<u64>()?..to.parse()?),
                        None => {
                            args.seeds.push(part.parse().context("--seeds wants A..B or numbers, separated by commas")?)
                        }
                    }
                }
            }
            "--minutes" => args.length = Duration::from_secs_f64(value()?.parse::<f64>()? * 60.0),
            "--jobs" => args.jobs = value()?.parse::<usize>()?.max(1),
            "--no-shrink" => args.shrinks = false,
            "--story" => args.tells = true,
            _ => bail!(
                "usage: songline-sim --seed N [--story] | --seeds A..B,N.. [--minutes M] [--jobs J] [--no-shrink]"
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
    failed: Vec<u64>,
}

impl Sum {
    fn add(&mut self, seed: u64, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.counts.add(&report.counts);
        if report.violation.is_some() {
            self.failed.push(seed);
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
         {} failed deployments, {} reconnects, {} moves to another server, {:.1} s to rest at most, {} failed {:?}, {:.1} s",
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

fn simulate(args: &Args, seed: u64, sum: &Mutex<Sum>) {
    let plan = Plan::of_seed(seed, args.length);
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
