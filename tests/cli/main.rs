//! Replays recorded sessions of the reference's command line with this program under its name, and reports every
//! difference in exit status and texts.
//!
//! `transcripts/NAME.json` are the sessions. `known.txt` names those that do not pass yet, with the reason: the test fails
//! when an unlisted one differs and when a listed one passes. `deliberate.txt` names those that are not replayed, because
//! this program means to differ. `CLI_ONLY=job_,var_more` replays those with these prefixes and shows every difference;
//! `UPDATE_KNOWN=1` rewrites `known.txt`.

#[path = "../support/agent.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod agent;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;
mod normal;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod process;
mod session;
mod transcript;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use agent::{Agent, Setup};
use http::Request;
use session::{Extent, Place, Verdict, replay};
use transcript::{Transcript, load};

/// Secret of the first management token, as recorded.
const MANAGEMENT: &str = "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a";
/// Longest wait of a session that is known not to pass: most of its waits are for nothing.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);
/// Longest time until an agent has a ready node.
const READY_WITHIN: Duration = Duration::from_secs(60);
const KNOWN_HEAD: &str = "\
# Recorded sessions that do not pass yet: `session: the command that differs first`.
# A listed session that passes fails the test, so this list only shrinks. UPDATE_KNOWN=1 rewrites it.
";

#[test]
fn recorded_sessions_print_as_recorded() -> Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let (mut known, deliberate) = (listed(&folder.join("known.txt"))?, listed(&folder.join("deliberate.txt"))?);
    let mut all = load(&folder.join("transcripts"))?;
    for name in known.keys().chain(deliberate.keys()) {
        ensure!(all.iter().any(|transcript| transcript.name == *name), "{name} is listed and no session");
    }
    all.retain(|transcript| !deliberate.contains_key(&transcript.name));
    let only = std::env::var("CLI_ONLY").ok();
    if let Some(only) = &only {
        all.retain(|transcript| only.split(',').any(|start| transcript.name.starts_with(start)));
    }
    // Sessions that should pass come first, on an agent that has not seen a failed one yet.
    all.sort_by_key(|transcript| (known.contains_key(&transcript.name), transcript.name.clone()));
    let (acl, dev): (Vec<_>, Vec<_>) = all.iter().partition(|transcript| transcript.profile == "acl");
    let extent = |name: &str| Extent {
        to_the_end: only.is_some(),
        until_within: if only.is_none() && known.contains_key(name) { KNOWN_WITHIN } else { Duration::MAX },
    };
    let verdicts = std::thread::scope(|scope| {
        let of_acl = scope.spawn(|| play(&acl, true, &extent));
        let mut verdicts = play(&dev, false, &extent)?;
        verdicts.extend(of_acl.join().map_err(|_| anyhow::anyhow!("a replay panicked"))??);
        Ok::<_, anyhow::Error>(verdicts)
    })?;
    let (compared, right) =
        verdicts.values().fold((0, 0), |(all, good), verdict| (all + verdict.compared, good + verdict.right));
    let passed = verdicts.values().filter(|verdict| verdict.differences.is_empty()).count();
    say(&format!(
        "{passed} of {} recorded sessions of the command line pass; {right} of {compared} compared steps",
        verdicts.len()
    ));
    if only.is_some() {
        for (name, verdict) in verdicts.iter().filter(|(_, verdict)| !verdict.differences.is_empty()) {
            say(&format!("{name}\n    {}", verdict.differences.join("\n    ")));
        }
        known.retain(|name, _| verdicts.contains_key(name));
    }
    if std::env::var_os("UPDATE_KNOWN").is_some() {
        return updated(&folder.join("known.txt"), &verdicts);
    }
    let mut complaints = Vec::new();
    for (name, verdict) in &verdicts {
        match (known.contains_key(name), verdict.differences.first()) {
            (false, Some(first)) => complaints.push(format!("{name} differs:\n    {first}")),
            (true, None) => complaints.push(format!("{name} passes: take it out of known.txt")),
            (true, Some(_)) | (false, None) => {}
        }
    }
    ensure!(complaints.is_empty(), "{} complaints\n{}", complaints.len(), complaints.join("\n"));
    Ok(())
}

/// Replays sessions one after another on one agent.
fn play(transcripts: &[&Transcript], acl: bool, extent: &impl Fn(&str) -> Extent) -> Result<BTreeMap<String, Verdict>> {
    if transcripts.is_empty() {
        return Ok(BTreeMap::new());
    }
    let agent = Agent::start(&Setup { acl, ..Setup::dev() })?;
    let place = place(&agent, acl)?;
    let mut verdicts = BTreeMap::new();
    for transcript in transcripts {
        verdicts.insert(transcript.name.clone(), replay(transcript, &place, extent(&transcript.name))?);
    }
    Ok(verdicts)
}

/// Waits until the agent's node is ready, with the management token that the recordings expect.
fn place(agent: &Agent, acl: bool) -> Result<Place> {
    let deadline = Instant::now() + READY_WITHIN;
    let token = if acl { MANAGEMENT } else { "" };
    let mut last = String::new();
    while Instant::now() < deadline {
        if acl {
            let body = json!({"BootstrapSecret": MANAGEMENT});
            let request = Request::new("POST", "/v1/acl/bootstrap").json(&body);
            let answer = http::call(agent.http, &request, deadline)?;
            let is_done = answer.head.status == 200 || answer.text().contains("already");
            ensure!(is_done || answer.head.status == 500, "{}", answer.text());
        }
        let get = |path: &str| -> Result<Value> {
            let answer = http::call(agent.http, &Request::new("GET", path).header("X-Nomad-Token", token), deadline)?;
            ensure!(answer.head.status == 200, "{path}: {}", answer.text());
            Ok(answer.json()?)
        };
        match get("/v1/nodes") {
            Ok(nodes) if nodes[0]["Status"] == "ready" => {
                let node = nodes[0]["Name"].as_str().context("a node has a name")?.to_owned();
                return Ok(Place { address: format!("http://{}", agent.http), token: token.to_owned(), node });
            }
            other => last = format!("{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the agent's node is not ready: {last}")
}

/// Sessions of a list, with their reasons.
fn listed(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, reason) = line.split_once(": ").with_context(|| format!("not `session: reason`: {line}"))?;
            Ok((name.to_owned(), reason.to_owned()))
        })
        .collect()
}

fn updated(path: &Path, verdicts: &BTreeMap<String, Verdict>) -> Result<()> {
    let mut text = KNOWN_HEAD.to_owned();
    for (name, verdict) in verdicts {
        if let Some(first) = verdict.differences.first() {
            let step = first.lines().next().unwrap_or_default();
            let command = step.split_once(" nomad ").map_or(step, |(_, command)| command);
            let reason: String = command.chars().take(100).collect();
            text.push_str(&format!("{name}: {}\n", reason.trim_end()));
        }
    }
    Ok(std::fs::write(path, text)?)
}

/// Prints past the capture of the test harness.
fn say(text: &str) {
    let _closed = writeln!(std::io::stdout(), "{text}");
}
