//! Replays one case against one agent, step by step. Not here: the choice of the agent, and the meaning of a
//! difference for the test.

use std::collections::BTreeMap;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use crate::answer::{self, Content};
use crate::case::{Case, Step, StreamRules, Wanted};
use crate::compare::{Judge, Leniency, equal};
use crate::exchange::{self, Server};
use crate::http::{Answer, Connection, Head, Request};
use crate::text::shorten;

/// Delay between two requests of `until`.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Default timeout of `until` and of reading a stream, in seconds.
const UNTIL_WITHIN_S: f64 = 20.0;
const STREAM_WITHIN_S: f64 = 10.0;

/// Extent of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Stop at the first step that differs.
    FirstDifference,
    /// Replay to the end, for those who fix the case.
    End,
}

/// Result of a case.
#[derive(Debug, Default)]
pub struct Outcome {
    pub differences: Vec<String>,
    /// Whether a write of the case succeeded, so that the agent's state has changed.
    pub changed_something: bool,
}

/// A request that was sent and whose answer is read later.
enum Started {
    Answer(JoinHandle<Result<(Answer, Duration)>>),
    Stream(Box<Connection>, Head),
}

struct Player<'c> {
    case: &'c Case,
    server: Server,
    judge: Judge,
    saved: BTreeMap<String, Vec<u8>>,
    started: BTreeMap<String, Started>,
    changed_something: bool,
}

/// Replays `case` against the agent at `server`.
pub fn play(case: &Case, server: Server, env: &BTreeMap<String, String>, until: Until) -> Outcome {
    let mut player = Player {
        case,
        server,
        judge: Judge::default(),
        saved: BTreeMap::new(),
        started: BTreeMap::new(),
        changed_something: false,
    };
    player.judge.bindings.env = env.clone();
    player.play(until);
    Outcome { differences: player.judge.differences, changed_something: player.changed_something }
}

impl Player<'_> {
    fn play(&mut self, until: Until) {
        for (n, step) in self.case.steps.iter().enumerate() {
            let before = self.judge.differences.len();
            let req = self.judge.bindings.fill(&step.req);
            let played = self.step(step, &req);
            if step.masked {
                self.judge.differences.truncate(before);
            }
            // A dead or silent agent is a difference too, and never a deliberate one.
            if let Err(error) = played {
                self.judge.note(format!("$: {error:#}"));
            }
            let place = format!("step {n} {} {}", plain(&req["method"]), plain(&req["path"]));
            for difference in &mut self.judge.differences[before..] {
                *difference = format!("{place} {difference}");
            }
            let over = Instant::now() > self.server.deadline;
            let differs = !self.judge.differences.is_empty();
            if over || differs && until == Until::FirstDifference {
                if !differs {
                    self.judge.note(format!("{place} $: the case took too long"));
                }
                return;
            }
        }
    }

    fn step(&mut self, step: &Step, req: &Value) -> Result<()> {
        if let Some(seconds) = step.sleep {
            // The recording waited here for a change that no answer shows.
            thread::sleep(Duration::from_secs_f64(seconds));
        }
        let saved = match req.get("saved").and_then(Value::as_str) {
            Some(name) => Some(self.saved.get(name).with_context(|| format!("nothing was saved as {name}"))?),
            None => None,
        };
        let request = exchange::request(req, saved.map(Vec::as_slice))?;
        if let Some(name) = &step.start {
            self.changed_something |= request.method != "GET";
            let started = self.start(request, step.stream.is_some())?;
            self.started.insert(name.clone(), started);
            return Ok(());
        }
        let wanted = step.res.as_ref().context("the step has no res")?;
        if let Some(rules) = &step.stream {
            self.stream(step, rules, wanted, &request)
        } else if let Some(ws) = &step.ws {
            let messages: Vec<Value> = ws.send.iter().map(|m| self.judge.bindings.fill(m)).collect();
            let (status, content) = self.server.websocket(request, &messages)?;
            self.compare_status(wanted, status, &content.as_text());
            self.compare_content(step, wanted, &content);
            Ok(())
        } else {
            self.ask(step, wanted, &request)
        }
    }

    fn start(&self, request: Request, stream: bool) -> Result<Started> {
        if stream {
            let (connection, head) = self.server.open(&request)?;
            return Ok(Started::Stream(Box::new(connection), head));
        }
        let server = self.server;
        Ok(Started::Answer(thread::spawn(move || {
            let begun = Instant::now();
            let answer = server.call(&request)?;
            Ok((answer, begun.elapsed()))
        })))
    }

    fn ask(&mut self, step: &Step, wanted: &Wanted, request: &Request) -> Result<()> {
        let within = Duration::from_secs_f64(step.within.unwrap_or(UNTIL_WITHIN_S));
        let deadline = self.server.deadline.min(Instant::now() + within);
        let (head, data, content, took) = loop {
            let (answer, took) = self.answer_of(step, request)?;
            let data = answer::unpack(&answer.head, answer.body)?;
            let good = answer.head.status == 200;
            let content = if step.frames.is_some() && good {
                Content::Json(Value::Array(answer::frames(&data)))
            } else if step.archive && good {
                Content::Json(answer::archive(&answer.head, &data)?)
            } else {
                Content::decode(&data)
            };
            let last = step.join.is_some() || step.until.is_empty() || Instant::now() > deadline;
            if last || self.has_values(step, &content) {
                break (answer.head, data, content, took);
            }
            thread::sleep(ASK_AGAIN_AFTER);
        };
        self.changed_something |= head.status < 300 && request.method != "GET";
        if let Some((min, max)) = step.took {
            let took = took.as_secs_f64();
            if !(min..=max).contains(&took) {
                self.judge.note(format!("$: expected an answer after {min} to {max} s, got it after {took:.2} s"));
            }
        }
        self.compare_status(wanted, head.status, &String::from_utf8_lossy(&data));
        self.compare_headers(wanted, &head);
        self.compare_content(step, wanted, &content);
        if let Some(name) = &step.save {
            self.saved.insert(name.clone(), data);
        }
        Ok(())
    }

    fn answer_of(&mut self, step: &Step, request: &Request) -> Result<(Answer, Duration)> {
        if let Some(name) = &step.join {
            return match self.started.remove(name) {
                Some(Started::Answer(thread)) => thread.join().map_err(|_| anyhow!("the request {name} panicked"))?,
                _ => bail!("no request was started as {name}"),
            };
        }
        let begun = Instant::now();
        let answer = match step.frames.as_ref().map_or(0, |frames| frames.bytes) {
            0 => self.server.call(request)?,
            bytes => self.server.call_for_frames(request, bytes)?,
        };
        Ok((answer, begun.elapsed()))
    }

    fn has_values(&self, step: &Step, content: &Content) -> bool {
        let Content::Json(body) = content else {
            return false;
        };
        step.until.iter().all(|(path, value)| equal(path.look_up(body), &self.judge.bindings.fill(value)))
    }

    fn stream(&mut self, step: &Step, rules: &StreamRules, wanted: &Wanted, request: &Request) -> Result<()> {
        let (mut connection, head) = match &step.join {
            Some(name) => match self.started.remove(name) {
                Some(Started::Stream(connection, head)) => (*connection, head),
                _ => bail!("no stream was started as {name}"),
            },
            None => self.server.open(request)?,
        };
        if head.status != wanted.status {
            self.judge.note(format!("$: expected status {}, got {}", wanted.status, head.status));
            return Ok(());
        }
        self.compare_headers(wanted, &head);
        let mut rules = rules.clone();
        for (_, value) in &mut rules.only {
            *value = self.judge.bindings.fill(value);
        }
        let want = wanted.body.as_ref().context("a stream is compared with a body")?;
        let count = want.as_array().map_or(0, Vec::len);
        let within = Duration::from_secs_f64(step.within.unwrap_or(STREAM_WITHIN_S));
        let (frames, tail) = exchange::read_stream(&mut connection, &rules, count, within)?;
        ensure!(want.is_array(), "the frames of a stream are a list");
        self.judge.compare(want, &Value::Array(frames), &mut Vec::new(), lenient(step));
        if let Some(expected) = &rules.tail {
            let got = tail.map_or(Value::Null, Value::String);
            if !self.judge.bindings.same(expected, &got) {
                let expected = Value::String(expected.clone());
                self.judge.differ(&[], &expected, &got);
            }
        }
        Ok(())
    }

    fn compare_status(&mut self, wanted: &Wanted, status: u16, body: &str) {
        if wanted.status != status {
            let body = shorten(body, 200);
            self.judge.note(format!("$: expected status {}, got {status}: {body:?}", wanted.status));
        }
    }

    fn compare_headers(&mut self, wanted: &Wanted, head: &Head) {
        for (name, expected) in &wanted.headers {
            let said = match (expected, head.header(name)) {
                (None, None) => continue,
                (None, Some(got)) => format!("expected none, got {got:?}"),
                (Some(expected), None) => format!("expected {expected:?}, got none"),
                (Some(expected), Some(got)) => {
                    if self.judge.bindings.same_text(expected, got) {
                        continue;
                    }
                    format!("expected {expected:?}, got {got:?}")
                }
            };
            self.judge.note(format!("$ header {name}: {said}"));
        }
    }

    fn compare_content(&mut self, step: &Step, wanted: &Wanted, content: &Content) {
        if let Some(body) = &wanted.body {
            self.judge.compare(body, &content.as_value(), &mut Vec::new(), lenient(step));
        } else if let Some(text) = &wanted.text
            && !self.judge.bindings.same_text(text, &content.as_text())
        {
            let expected = Value::String(text.clone());
            self.judge.differ(&[], &expected, &content.as_value());
        }
    }
}

fn lenient(step: &Step) -> Leniency<'_> {
    Leniency { ignore: &step.ignore, unordered: &step.unordered }
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
