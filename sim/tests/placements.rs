//! Replays recorded placements of the reference on a simulated cluster and reports every difference.
//!
//! `tests/conformance/placements/TOPIC_NAME.json` are the scenarios, and the README beside them says what they hold.
//! `known.txt` there names those that do not match yet, with the reason.
//! `SONGLINE_PLACEMENTS=affinity,batch/complete` replays only scenarios with these prefixes, and shows every difference.
//! `UPDATE_KNOWN=1` rewrites `known.txt`. Not here: the time that a decision takes, and clients that fail.

#[path = "placements/compare.rs"]
mod compare;
#[path = "placements/known.rs"]
mod known;
#[path = "placements/labels.rs"]
mod labels;
#[path = "placements/metrics.rs"]
mod metrics;
#[path = "placements/observe.rs"]
mod observe;
#[path = "placements/play.rs"]
mod play;
#[path = "placements/scenario.rs"]
mod scenario;
#[path = "placements/settle.rs"]
mod settle;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};

use scenario::Scenario;

/// Seeds that a scenario is played with, until one matches. Some answers of the reference are random, and the
/// recordings show only some of the random outcomes.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Differences of each scenario; empty for one that matches.
type Verdicts = BTreeMap<String, Vec<String>>;

#[test]
fn recorded_placements_are_repeated() -> Result<()> {
    let begun = Instant::now();
    let folder = folder();
    let all = scenario::load(&folder)?;
    let selected = std::env::var("SONGLINE_PLACEMENTS").ok();
    let (scenarios, count) = (chosen(all, selected.as_deref()), |verdicts: &Verdicts| {
        verdicts.values().filter(|differences| differences.is_empty()).count()
    });
    let path = folder.join("known.txt");
    let listed = known::read(&path)?;
    let aloud = selected.is_some();
    // A listed scenario counts by its first seed only, to save time.
    let verdicts =
        replay(&scenarios, aloud, &|name| if aloud || !listed.contains_key(name) { &SEEDS } else { &SEEDS[..1] });
    say(&format!(
        "{} of {} recorded placements match (seeds {SEEDS:?}), in {:.0} s",
        count(&verdicts),
        scenarios.len(),
        begun.elapsed().as_secs_f64()
    ));
    if selected.is_some() {
        return Ok(());
    }
    if std::env::var_os("UPDATE_KNOWN").is_some() {
        return Ok(std::fs::write(path, known::updated(&listed, &verdicts))?);
    }
    let complaints = known::complaints(&listed, &verdicts);
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("{} complaints\n{}", complaints.len(), complaints.join("\n"));
}

/// The scenarios whose names begin with one of the texts, which commas separate.
fn chosen(all: Vec<Scenario>, starts: Option<&str>) -> Vec<Scenario> {
    let Some(starts) = starts else { return all };
    let begins = |scenario: &Scenario| starts.split(',').any(|start| scenario.name.starts_with(start));
    all.into_iter().filter(begins).collect()
}

/// Plays all scenarios, on as many threads as the machine has processors. `aloud`: tells of each as soon as it is over.
fn replay<'s>(scenarios: &[Scenario], aloud: bool, seeds: &(dyn Fn(&str) -> &'s [u64] + Sync)) -> Verdicts {
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Verdicts::new()));
    let threads = std::thread::available_parallelism().map_or(1, |number| number.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let differences = differences(scenario, seeds(&scenario.name));
                    if aloud {
                        let took = begun.elapsed().as_secs_f64();
                        say(&format!("{}, in {took:.1} s", told(&scenario.name, &differences)));
                    }
                    verdicts.lock().expect("no thread panics with it").insert(scenario.name.clone(), differences);
                }
            });
        }
    });
    verdicts.into_inner().expect("no thread panics with it")
}

/// The differences under the first seed, if every seed has some.
fn differences(scenario: &Scenario, seeds: &[u64]) -> Vec<String> {
    let mut first = None;
    for seed in seeds {
        let differences = play::play(scenario, *seed);
        if differences.is_empty() {
            return differences;
        }
        first.get_or_insert(differences);
    }
    first.unwrap_or_default()
}

fn told(name: &str, differences: &[String]) -> String {
    const SHOWN_MAX: usize = 20;
    let shown: String = differences.iter().take(SHOWN_MAX).map(|line| format!("\n    {line}")).collect();
    match differences.len() {
        0 => format!("{name} matches"),
        number => format!("{name} has {number} differences{shown}"),
    }
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/placements"))
}

/// Prints past the test harness, which captures the output of passing tests.
fn say(text: &str) {
    let _unheard = writeln!(std::io::stderr(), "{text}");
}
