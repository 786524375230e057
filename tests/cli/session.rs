//! Runs the steps of a transcript: the program under the name `nomad`, in a directory of its own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::normal::{Known, normal, own_expression};
use crate::transcript::{Step, Transcript};

/// Longest time of a command that has an end.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);
/// Interval of repetitions.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Default of `within`, in seconds.
const UNTIL_WITHIN: f64 = 20.0;

/// An agent that commands are run against.
#[derive(Debug, Clone)]
pub struct Place {
    pub address: String,
    /// Management token; empty without ACLs.
    pub token: String,
    /// Name of the agent's node.
    pub node: String,
}

/// Numbers of the compared steps of a transcript, and the first difference.
#[derive(Debug, Default)]
pub struct Verdict {
    pub compared: usize,
    pub right: usize,
    pub differences: Vec<String>,
}

struct Session<'t> {
    place: &'t Place,
    dir: tempfile::TempDir,
    program: PathBuf,
    _links: tempfile::TempDir,
    until_within: Duration,
    names: BTreeMap<String, String>,
    ids: BTreeMap<String, usize>,
}

struct Output {
    /// `None`: it was killed.
    exit: Option<i32>,
    stdout: String,
    stderr: String,
}

/// How long and how far a transcript is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Whether it goes on after a difference.
    pub to_the_end: bool,
    /// Longest time of a repetition.
    pub until_within: Duration,
}

/// Replays a transcript.
pub fn replay(transcript: &Transcript, place: &Place, extent: Extent) -> Result<Verdict> {
    let mut session = Session::begin(transcript, place, extent.until_within)?;
    let mut verdict = Verdict::default();
    for (number, step) in transcript.steps.iter().enumerate() {
        let has_failed = !verdict.differences.is_empty();
        if has_failed && !extent.to_the_end {
            // The hidden steps that are left clean up.
            if step.hide && step.until.is_none() && step.learn.is_empty() {
                session.run_once(step)?;
            }
            continue;
        }
        verdict.compared += usize::from(!step.hide);
        let before = verdict.differences.len();
        let head = format!("step {number} nomad {}", step.cmd.join(" "));
        match session.outcome(step) {
            Ok(differences) => {
                verdict.differences.extend(differences.into_iter().map(|difference| format!("{head}: {difference}")));
            }
            Err(error) => verdict.differences.push(format!("{head}: {error:#}")),
        }
        verdict.right += usize::from(!step.hide && verdict.differences.len() == before);
    }
    Ok(verdict)
}

impl<'t> Session<'t> {
    fn begin(transcript: &Transcript, place: &'t Place, until_within: Duration) -> Result<Self> {
        let (dir, links) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let program = links.path().join("nomad");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_songline"), &program)?;
        let session =
            Self { place, dir, program, _links: links, until_within, names: BTreeMap::new(), ids: BTreeMap::new() };
        transcript.files.iter().try_for_each(|(name, text)| session.write(name, text))?;
        Ok(session)
    }

    /// Replaces `@name@` by what an earlier step has learned.
    fn fill(&self, text: &str) -> String {
        filled(&self.names, text)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        Ok(std::fs::write(path, self.fill(text))?)
    }

    fn run_once(&self, step: &Step) -> Result<Output> {
        step.write.iter().try_for_each(|(name, text)| self.write(name, text))?;
        let mut command = Command::new(&self.program);
        command.args(step.cmd.iter().map(|arg| self.fill(arg))).current_dir(self.dir.path());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("NOMAD_")) {
            command.env_remove(name);
        }
        command.env("HOME", self.dir.path()).env("TZ", "UTC").env("NOMAD_ADDR", &self.place.address);
        command.env("NOMAD_CLI_NO_COLOR", "1");
        if !self.place.token.is_empty() {
            command.env("NOMAD_TOKEN", &self.place.token);
        }
        command.envs(step.env.iter().map(|(name, value)| (name, self.fill(value))));
        let stdin = step.stdin.as_ref().map(|text| self.fill(text));
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("starting the program")?;
        if let Some(text) = stdin {
            // A command that reads nothing closes its end.
            let _ = child.stdin.take().context("it is a pipe")?.write_all(text.as_bytes());
        }
        let (out, err) = (collected(child.stdout.take()), collected(child.stderr.take()));
        let within = step.kill.map_or(COMMAND_WITHIN, Duration::from_secs_f64);
        let deadline = Instant::now() + within;
        let exit = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status.code().unwrap_or(-1));
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = |thread: std::thread::JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned()
        };
        Ok(Output { exit, stdout: text(out), stderr: text(err) })
    }

    /// Runs a step as often as it asks for.
    fn run(&mut self, step: &Step) -> Result<Output> {
        let within = Duration::from_secs_f64(step.within.unwrap_or(UNTIL_WITHIN)).min(self.until_within);
        let deadline = Instant::now() + within;
        let output = loop {
            let output = self.run_once(step)?;
            let Some(until) = &step.until else { break output };
            if own_expression(&self.fill(until))?.is_match(&output.stdout)? {
                break output;
            }
            if Instant::now() > deadline {
                bail!("{until:?} never came: {}{}", output.stdout, output.stderr);
            }
            std::thread::sleep(AGAIN_AFTER);
        };
        for (name, expression) in &step.learn {
            let found = own_expression(expression)?
                .captures(&output.stdout)?
                .and_then(|found| found.get(1).map(|it| it.as_str().to_owned()));
            let Some(found) = found else {
                bail!("{expression:?} is not in {}{}", output.stdout, output.stderr);
            };
            self.names.insert(name.clone(), found);
        }
        Ok(output)
    }

    /// Differences of a step from its recording.
    fn outcome(&mut self, step: &Step) -> Result<Vec<String>> {
        let output = self.run(step)?;
        if step.hide {
            return Ok(Vec::new());
        }
        let dir = self.dir.path().to_string_lossy().into_owned();
        let known = Known { dir: &dir, address: &self.place.address, token: &self.place.token, node: &self.place.node };
        let names = self.names.clone();
        let fill = |text: &str| filled(&names, text);
        let stdout = normal(&output.stdout, step, &fill, &known, &mut self.ids)?;
        let stderr = normal(&output.stderr, &Step { sort: false, ..again(step) }, &fill, &known, &mut self.ids)?;
        let exit = if step.kill.is_some() { json!("killed") } else { output.exit.map_or(Value::Null, Value::from) };
        let mut differences = Vec::new();
        if exit != step.exit {
            differences.push(format!("exit: expected {}, got {exit}", step.exit));
        }
        for (name, expected, got) in [("stdout", &step.stdout, &stdout), ("stderr", &step.stderr, &stderr)] {
            if expected != got {
                differences.push(format!("{name}:\n{}", difference(expected, got)));
            }
        }
        Ok(differences)
    }
}

/// The rules of a step for its other stream.
fn again(step: &Step) -> Step {
    Step {
        keep: step.keep.clone(),
        drop: step.drop.clone(),
        after: step.after.clone(),
        norm: step.norm.clone(),
        ..Step::default()
    }
}

fn filled(names: &BTreeMap<String, String>, text: &str) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

fn collected(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A killed command leaves what it has printed.
        let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
        bytes
    })
}

/// The lines that differ: common lines at the begin and at the end are left out.
fn difference(expected: &str, got: &str) -> String {
    let (expected, got): (Vec<&str>, Vec<&str>) = (expected.split('\n').collect(), got.split('\n').collect());
    let same = expected.iter().zip(&got).take_while(|(a, b)| a == b).count();
    let end = expected[same..].iter().rev().zip(got[same..].iter().rev()).take_while(|(a, b)| a == b).count();
    let shown =
        |mark: &str, lines: &[&str]| lines.iter().map(|line| format!("          {mark}{line}\n")).collect::<String>();
    shown("-", &expected[same..expected.len() - end]) + &shown("+", &got[same..got.len() - end])
}
