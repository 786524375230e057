//! The recorded conversations with containers once more, with Podman's service in place of Docker's engine.
//! `podman.txt` has the steps whose answers are other ones then. `CONFORMANCE_ONLY` chooses
//! others. Not here: what no recording asks for.

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::case::{self, Case};
use crate::engine::{Engine, Kind};
use crate::fleet::{self, Parts, Plan};
use crate::lists::{self, Reasons};
use crate::player::Until;
use crate::{REPLAY, folder, part_of, say, sorted};

/// Cases that are replayed each time: one of each thing that an engine does. The others take two minutes more, and of
/// them docker/resources needs `catatonit` and a root that may raise limits.
const CASES: &[&str] = &[
    "bridge/hostname",
    "bridge/reach",
    "docker/env",
    "docker/host_volume",
    "docker/logging",
    "docker/network_mode",
    "docker/run",
    "docker/user",
    "docker/vanished",
];

/// The case that knows the network of the host by the bridge of Docker's engine, which is made when that starts.
const SEES_DOCKER: &str = "docker/network_mode";

#[test]
fn recorded_conversations_with_containers_are_answered_the_same_with_podman() -> Result<()> {
    let _alone = REPLAY.lock();
    let folder = folder();
    let mut cases = case::load(&folder.join("cases"))?;
    let only = std::env::var("CONFORMANCE_ONLY").ok();
    let chosen = |case: &Case| match &only {
        Some(only) => only.split(',').any(|start| case.name.starts_with(start)),
        None => CASES.contains(&case.name.as_str()),
    };
    cases.retain(|case| case.needs_engine() && chosen(case));
    for list in ["deliberate.txt", "podman.txt"] {
        let mut masks = lists::read_masks(&folder.join(list))?;
        masks.retain(|name, _| cases.iter().any(|case| case.name == *name));
        lists::mask(&mut cases, &masks)?;
    }
    let begun = Instant::now();
    let mut known = Reasons::new();
    let _docker = part_of(&mut cases, &mut known, |case| case.name == SEES_DOCKER, || Engine::available(Kind::Docker))?;
    let engine = part_of(&mut cases, &mut known, Case::needs_engine, || Engine::available(Kind::Podman))?;
    let Some(engine) = engine else { return Ok(()) };
    say(&format!("Podman's service with its images is there after {:.0} s", begun.elapsed().as_secs_f64()));
    let plan = Plan {
        until: if only.is_some() { Until::End } else { Until::FirstDifference },
        again: &|_| only.is_none(),
        parts: Parts { engine: Some(engine.host()), plugin: None },
    };
    let verdicts = fleet::run(&cases, &plan);
    let (passed, failed) = sorted(&verdicts);
    let seconds = begun.elapsed().as_secs_f64();
    say(&format!("{} of {} cases pass with Podman, in {seconds:.0} s", passed.len(), cases.len()));
    let failed: Vec<String> =
        failed.iter().map(|(case, differences)| format!("{case}\n    {}", differences.join("\n    "))).collect();
    ensure!(failed.is_empty(), "{} cases differ\n{}", failed.len(), failed.join("\n"));
    Ok(())
}
