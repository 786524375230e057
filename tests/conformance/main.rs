//! Replays recorded HTTP conversations against agents of the built binary and reports every difference.
//!
//! `cases/TOPIC/NAME.json` are the conversations. `known.txt` names those that do not pass yet, with the reason, and
//! `deliberate.txt` the steps that deliberately differ; the other steps of such a case are compared like any.
//! `defects.txt` names defects of the reference whose recordings are not among the cases. For each line of these two
//! files, `deliberate` has a test that shows that the line is true.
//! `CONFORMANCE_ONLY=jobs,events/live` replays only cases with these prefixes, to their end, and shows every
//! difference.
//! `UPDATE_KNOWN=1` rewrites `known.txt`. Not here: conversations with a cluster of several servers.

#[path = "../support/agent.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod agent;
mod answer;
mod case;
mod compare;
mod csi;
mod deliberate;
#[path = "../support/engine.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod engine;
mod exchange;
mod files;
mod fleet;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;
mod lists;
mod openapi;
mod player;
mod podman;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod process;
#[path = "../support/openapi.rs"]
mod shapes;
mod tests;
mod text;
mod token;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;

use case::{Case, Profile};
use csi::Plugin;
use engine::{Engine, Kind};
use files::Files;
use fleet::{Parts, Plan, Verdict};
use lists::Reasons;
use player::Until;

/// Held by a replay. Two at the same time would use the same static ports, and be slower than some cases allow.
static REPLAY: Mutex<()> = Mutex::new(());

#[test]
fn recorded_conversations_are_answered_as_recorded() -> Result<()> {
    let _alone = REPLAY.lock();
    let folder = folder();
    let mut known = lists::read(&folder.join("known.txt"))?;
    let masks = lists::read_masks(&folder.join("deliberate.txt"))?;
    let mut cases = case::load(&folder.join("cases"))?;
    let masked = Masked { steps: lists::mask(&mut cases, &masks)?, cases: masks.len() };
    // Cases that should pass come first, on agents that have not seen a failed case yet.
    cases.sort_by_key(|case| (known.contains_key(&case.name), case.name.clone()));
    let only = std::env::var("CONFORMANCE_ONLY").ok();
    if let Some(only) = &only {
        cases.retain(|case| only.split(',').any(|start| case.name.starts_with(start)));
    }
    leave_out_isolated(&mut cases, &mut known)?;
    let engine = engine_of(&mut cases, &mut known)?;
    let plugin = plugin_of(&mut cases, &mut known)?;
    let _files = files_of(&mut cases, &mut known)?;
    let parts = Parts { engine: engine.as_ref().map(Engine::host), plugin: plugin.as_ref() };
    match only {
        Some(_) => play_some(&cases, parts),
        None => play_all(&cases, &known, masked, &folder, parts),
    }
}

/// Prepares the plugin for the cases about CSI. On a machine that cannot run it they are left out.
fn plugin_of(cases: &mut Vec<Case>, known: &mut Reasons) -> Result<Option<Plugin>> {
    part_of(cases, known, |case| case.profile == Profile::Csi, Plugin::available)
}

/// Starts the server of files for the cases that download them. On a machine that cannot run it they are left out.
fn files_of(cases: &mut Vec<Case>, known: &mut Reasons) -> Result<Option<Files>> {
    part_of(cases, known, Case::needs_files, Files::available)
}

/// Starts the engine for the cases that run containers. On a machine without one they are left out.
fn engine_of(cases: &mut Vec<Case>, known: &mut Reasons) -> Result<Option<Engine>> {
    let begun = Instant::now();
    let engine = part_of(cases, known, Case::needs_engine, || Engine::available(Kind::Docker))?;
    if engine.is_some() {
        say(&format!("a container engine with its images is there after {:.0} s", begun.elapsed().as_secs_f64()));
    }
    Ok(engine)
}

/// Leaves out the cases whose tasks have a root of their own, on a machine that cannot isolate them.
fn leave_out_isolated(cases: &mut Vec<Case>, known: &mut Reasons) -> Result<()> {
    let isolates = || Ok(missing_isolation().map_or(Ok(()), |missing| Err(missing.to_owned())));
    part_of(cases, known, Case::needs_isolation, isolates).map(drop)
}

/// Why this machine cannot give a task a root of its own, if it cannot.
fn missing_isolation() -> Option<&'static str> {
    (!rustix::process::geteuid().is_root()).then_some("tasks of driver exec need root")
}

/// Refuses to leave anything out in CI.
fn may_leave_out(missing: &str) -> Result<()> {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    ensure!(!in_ci, "in CI no case may be left out: {missing}");
    Ok(())
}

/// Makes a part that some cases need, or leaves these cases out with the reason. In CI none may be left out.
fn part_of<T>(
    cases: &mut Vec<Case>,
    known: &mut Reasons,
    needs: impl Fn(&Case) -> bool,
    make: impl FnOnce() -> Result<std::result::Result<T, String>>,
) -> Result<Option<T>> {
    if !cases.iter().any(&needs) {
        return Ok(None);
    }
    let missing = match make()? {
        Ok(part) => return Ok(Some(part)),
        Err(missing) => missing,
    };
    may_leave_out(&missing)?;
    ensure!(std::env::var_os("UPDATE_KNOWN").is_none(), "known.txt is rewritten with all cases only: {missing}");
    for case in cases.extract_if(.., |case| needs(case)) {
        say(&format!("{} is left out: {missing}", case.name));
        known.remove(&case.name);
    }
    Ok(None)
}

/// Numbers of masked steps, and of cases with such steps.
struct Masked {
    steps: usize,
    cases: usize,
}

fn play_all(cases: &[Case], known: &Reasons, masked: Masked, folder: &Path, parts: Parts<'_>) -> Result<()> {
    let begun = Instant::now();
    let plan = Plan { until: Until::FirstDifference, again: &|case| !known.contains_key(&case.name), parts };
    let verdicts = fleet::run(cases, &plan);
    let (passed, failed) = sorted(&verdicts);
    say(&totals(cases, &verdicts));
    say(&format!(
        "{} of {} recorded cases pass, {} steps masked in {} cases, {} cases are known not to pass, in {:.0} s",
        passed.len(),
        cases.len(),
        masked.steps,
        masked.cases,
        known.len(),
        begun.elapsed().as_secs_f64()
    ));
    let mut second: Vec<&str> = Vec::new();
    for (case, verdict) in &verdicts {
        if let Verdict::PassedAtSecondTry(first) = verdict {
            say(&format!("{case} passed only at the second try, before:\n    {}", first.join("\n    ")));
            second.push(case);
        }
    }
    if std::env::var_os("UPDATE_KNOWN").is_some() {
        let text = lists::updated(known, &failed);
        return std::fs::write(folder.join("known.txt"), text).context("writing known.txt");
    }
    let complaints = lists::complaints(known, &failed, &passed, &second);
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("{} complaints\n{}", complaints.len(), complaints.join("\n"));
}

fn play_some(cases: &[Case], parts: Parts<'_>) -> Result<()> {
    let plan = Plan { until: Until::End, again: &|_| false, parts };
    let begun = Instant::now();
    let verdicts = fleet::run(cases, &plan);
    let (passed, failed) = sorted(&verdicts);
    for (case, differences) in &failed {
        say(&format!("{case}\n    {}", differences.join("\n    ")));
    }
    let seconds = begun.elapsed().as_secs_f64();
    say(&format!("{} of {} cases pass, in {seconds:.0} s", passed.len(), cases.len()));
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} cases differ", failed.len());
}

fn sorted(verdicts: &BTreeMap<String, Verdict>) -> (Vec<String>, BTreeMap<String, Vec<String>>) {
    let (mut passed, mut failed) = (Vec::new(), BTreeMap::new());
    for (case, verdict) in verdicts {
        match verdict {
            Verdict::Passed | Verdict::PassedAtSecondTry(_) => passed.push(case.clone()),
            Verdict::Failed(differences) => {
                failed.insert(case.clone(), differences.clone());
            }
        }
    }
    (passed, failed)
}

/// Totals, one line for each topic.
fn totals(cases: &[Case], verdicts: &BTreeMap<String, Verdict>) -> String {
    let mut topics: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for case in cases {
        let (passed, all) = topics.entry(case.topic()).or_default();
        let failed = matches!(verdicts.get(&case.name), Some(Verdict::Failed(_)) | None);
        *passed += usize::from(!failed);
        *all += 1;
    }
    let lines = topics.iter().map(|(topic, (passed, all))| format!("{topic:15} {passed:3} of {all:3}"));
    lines.collect::<Vec<String>>().join("\n")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Prints past the test harness, which captures the output of passing tests.
fn say(text: &str) {
    let _unheard = writeln!(std::io::stderr(), "{text}");
}
