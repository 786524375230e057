//! Event sinks of a running agent: every event arrives in order, through failures of the receiver and kills of the
//! server. Not here: the routes and their refusals, and the bytes of files.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ring::hmac;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::Request;
use crate::story::{Story, WITHIN};

const SECRET: &str = "planted-signature-key";
const HEADER: &str = "planted-header-value";

/// A server without a node, which would add events of its own.
fn server(data: &Path) -> Result<Story> {
    let config = json!({
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0, "rpc": 0, "serf": 0},
        "data_dir": data.join("data"),
        "server": {"enabled": true, "bootstrap_expect": 1, "event_sink_dir": data.join("sinks")},
    });
    Ok(Story { agent: Agent::start_as(&config)? })
}

fn make_pools(story: &Story, numbers: std::ops::Range<u32>) -> Result<()> {
    numbers.into_iter().try_for_each(|n| story.put("/v1/node/pools", &json!({"Name": format!("pool-{n}")})).map(drop))
}

/// One request that came to the receiver.
#[derive(Debug, Clone)]
struct Came {
    headers: Vec<(String, String)>,
    body: String,
    accepted: bool,
}

impl Came {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// A webhook in this process.
#[derive(Default)]
struct Inbox {
    state: Mutex<(bool, Vec<Came>)>,
    news: Condvar,
}

impl Inbox {
    /// Starts a receiver that accepts everything until it is told to refuse.
    fn open() -> Result<(Arc<Self>, SocketAddr)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let inbox = Arc::new(Self::default());
        let own = Arc::clone(&inbox);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = Arc::clone(&own);
                thread::spawn(move || own.serve(stream));
            }
        });
        Ok((inbox, address))
    }

    fn refuses(&self, refuses: bool) {
        self.state.lock().expect("no test panics here").0 = refuses;
    }

    /// Waits until what came satisfies a condition, and returns it.
    fn wait(&self, good: impl Fn(&[Came]) -> bool) -> Result<Vec<Came>> {
        let deadline = Instant::now() + WITHIN;
        let mut state = self.state.lock().expect("no test panics here");
        while !good(&state.1) {
            let left = deadline.checked_duration_since(Instant::now()).context("what was awaited never came")?;
            state = self.news.wait_timeout(state, left).expect("no test panics here").0;
        }
        Ok(state.1.clone())
    }

    /// Answers requests of one connection until it is closed.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut read = Vec::new();
        loop {
            let head = loop {
                if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                    break at + 4;
                }
                take(&mut stream, &mut read)?;
            };
            let text = String::from_utf8_lossy(&read[..head]).into_owned();
            let headers: Vec<(String, String)> = text
                .lines()
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let came = Came { headers, body: String::new(), accepted: false };
            let length: usize = came.header("content-length").parse().ok()?;
            while read.len() < head + length {
                take(&mut stream, &mut read)?;
            }
            let body = String::from_utf8_lossy(&read[head..head + length]).into_owned();
            read.drain(..head + length);
            let accepted = {
                let mut state = self.state.lock().expect("no test panics here");
                let accepted = !state.0;
                state.1.push(Came { body, accepted, ..came });
                accepted
            };
            let status = if accepted { "204 No Content" } else { "500 Internal Server Error" };
            stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).ok()?;
            self.news.notify_all();
        }
    }
}

fn take(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<()> {
    let mut piece = [0; 16 * 1024];
    let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
    read.extend_from_slice(&piece[..count]);
    Some(())
}

/// The accepted lines in their order, each once. A line that comes after a later one is an error.
fn accepted(came: &[Came]) -> Result<Vec<String>> {
    let (mut lines, mut known, mut last) = (Vec::new(), BTreeSet::new(), 0);
    for line in came.iter().filter(|one| one.accepted).flat_map(|one| one.body.lines()) {
        let index = serde_json::from_str::<Value>(line)?["Index"].as_u64().context("a frame has an index")?;
        if known.insert(index) {
            ensure!(index > last, "{index} came after {last}");
            last = index;
            lines.push(line.to_owned());
        }
    }
    Ok(lines)
}

/// Whether some accepted line has this text.
fn has(came: &[Came], text: &str) -> bool {
    came.iter().any(|one| one.accepted && one.body.contains(text))
}

/// The frames of the event stream with these parameters, until it has caught up.
fn stream(story: &Story, query: &str) -> Result<Vec<String>> {
    let mut stream = story.subscribe(&format!("after_index=1&{query}"), "application/json")?;
    let (deadline, mut read) = (Instant::now() + WITHIN, Vec::new());
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if text.contains("\"CaughtUp\":true") {
            return Ok(text.lines().filter(|line| line.starts_with("{\"Events\"")).map(str::to_owned).collect());
        }
        read.extend(stream.read_some(deadline)?.context("the stream ended")?);
    }
}

/// Waits until a sink has delivered everything, and returns its row.
fn settled(story: &Story, name: &str, events: u64) -> Result<Value> {
    story.wait(&format!("/v1/event-sink/{name}"), |sink| {
        sink["Delivered"].as_u64() >= Some(events) && sink["Status"] == "delivering" && sink["Lag"] == 0
    })
}

#[test]
fn a_webhook_gets_every_event_in_order_through_its_failures_and_kills_of_the_server() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (inbox, address) = Inbox::open()?;
    let story = server(dir.path())?;
    let sink = json!({
        "Type": "webhook", "Address": format!("http://{address}/events"), "Topics": {"NodePool": []}, "Position": 1,
        "Secret": SECRET, "Headers": {"Authorization": HEADER}, "BatchSize": 2,
    });
    story.put("/v1/event-sink/hook", &sink)?;
    make_pools(&story, 0..5)?;
    inbox.wait(|came| has(came, "pool-4"))?;

    inbox.refuses(true);
    make_pools(&story, 5..8)?;
    let failing = story.wait("/v1/event-sink/hook", |sink| sink["Status"] == "failing")?;
    ensure!(failing["LastError"] == "the receiver answered 500 Internal Server Error", "{failing}");
    let log = String::from_utf8_lossy(&story.agent.log()?).into_owned();
    story.agent.kill()?;
    let story = server(dir.path())?;
    let before = inbox.wait(|_| true)?.len();
    inbox.wait(|came| came.len() > before)?;
    make_pools(&story, 8..9)?;
    inbox.refuses(false);
    make_pools(&story, 9..10)?;
    let came = inbox.wait(|came| has(came, "pool-9"))?;

    ensure!(accepted(&came)? == stream(&story, "topic=NodePool")?);
    for one in &came {
        let (at, signature) = (one.header("x-songline-timestamp"), one.header("x-songline-signature"));
        let digits = signature.strip_prefix("v1=").context("a signature")?;
        let bytes: Vec<u8> = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16))
            .collect::<Result<_, _>>()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        hmac::verify(&key, format!("{at}.{}", one.body).as_bytes(), &bytes).ok().context("the signature is right")?;
        let last = one.body.lines().last().context("a line")?;
        let index = serde_json::from_str::<Value>(last)?["Index"].to_string();
        ensure!(one.header("x-songline-index") == index && one.header("authorization") == HEADER);
        ensure!(one.header("x-songline-sink") == "hook" && one.header("idempotency-key").ends_with(&index));
        ensure!(one.body.lines().count() <= 2, "a delivery has at most BatchSize entries");
    }
    let settled = settled(&story, "hook", 10)?;
    let last = came.iter().rev().find(|one| one.accepted).context("something came")?;
    let last: u64 = last.header("x-songline-index").parse()?;
    ensure!(settled["Position"].as_u64() >= Some(last), "{settled}");
    ensure!(settled["Delivered"] == 10 && settled["Gaps"] == 0, "{settled}");

    // The secret and the header are in no answer, event or line of the log.
    let told = [
        story.get("/v1/event-sinks")?.to_string(),
        story.get("/v1/audit")?.to_string(),
        stream(&story, "full=true")?.concat(),
        story.call(&Request::new("GET", "/v1/metrics"))?.text(),
        log + &String::from_utf8_lossy(&story.agent.log()?),
    ];
    for text in &told {
        ensure!(!text.contains(SECRET) && !text.contains(HEADER), "{text}");
    }
    ensure!(told[2].contains("\"EventSinkUpserted\"") && told[3].contains("songline.event_sinks.lag"), "{told:?}");
    Ok(())
}

#[test]
fn deliveries_cause_no_deliveries_and_a_position_can_be_set_back() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (inbox, address) = Inbox::open()?;
    let story = server(dir.path())?;
    let sink = json!({"Type": "webhook", "Address": format!("http://{address}"), "Namespace": "*", "Full": true});
    story.put("/v1/event-sink/all", &sink)?;
    for n in 0..3 {
        make_pools(&story, n..n + 1)?;
        inbox.wait(|came| has(came, &format!("pool-{n}")))?;
        settled(&story, "all", u64::from(n) + 1)?;
    }
    let lines = accepted(&inbox.wait(|_| true)?)?;
    ensure!(lines.iter().filter(|line| line.contains("\"NodePoolUpserted\"")).count() == 3, "{lines:?}");
    ensure!(!lines.iter().any(|line| line.contains("EventSink")), "{lines:?}");

    story.put("/v1/event-sink/all/reset", &json!({"Position": 1}))?;
    inbox.wait(|again| again.iter().filter(|one| one.body.contains("pool-2")).count() > 1)?;
    story.call(&Request::new("DELETE", "/v1/event-sink/all"))?;
    ensure!(story.get("/v1/event-sinks")? == json!([]));
    Ok(())
}

#[test]
fn a_restored_archive_is_a_gap_after_which_deliveries_go_on() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (inbox, address) = Inbox::open()?;
    let story = server(dir.path())?;
    let sink = json!({"Type": "webhook", "Address": format!("http://{address}"), "Topics": {"NodePool": []}});
    story.put("/v1/event-sink/hook", &sink)?;
    make_pools(&story, 0..1)?;
    settled(&story, "hook", 1)?;
    let mut restore = Request::new("PUT", "/v1/operator/snapshot");
    restore.body = Some(story.call(&Request::new("GET", "/v1/operator/snapshot"))?.body);
    make_pools(&story, 1..2)?;
    inbox.wait(|came| has(came, "pool-1"))?;
    story.call(&restore)?;
    make_pools(&story, 2..3)?;
    let came = inbox.wait(|came| has(came, "pool-2"))?;
    let all: String = came.iter().map(|one| one.body.as_str()).collect();
    let at = |text: &str| all.rfind(text).with_context(|| format!("{text} came"));
    ensure!(at("pool-1")? < at("\"Gap\"")? && at("\"Gap\"")? < at("pool-2")?, "{all}");
    // The receiver has the frames before their number is written.
    story.wait("/v1/event-sink/hook", |sink| sink["Gaps"].as_u64() >= Some(1))?;
    Ok(())
}

#[test]
fn a_file_has_every_event_once_through_kills_of_the_server() -> Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::create_dir(dir.path().join("sinks"))?;
    let mut story = server(dir.path())?;
    let sink = json!({"Type": "file", "Address": "pools.jsonl", "Topics": {"NodePool": []}, "Position": 1});
    story.put("/v1/event-sink/file", &sink)?;
    let mut numbers = 0..0;
    for _ in 0..3 {
        numbers = numbers.end..numbers.end + 20;
        make_pools(&story, numbers.clone())?;
        story.agent.kill()?;
        story = server(dir.path())?;
    }
    settled(&story, "file", 60)?;
    let text = std::fs::read_to_string(dir.path().join("sinks/pools.jsonl"))?;
    ensure!(text.lines().eq(stream(&story, "topic=NodePool")?), "{text}");
    Ok(())
}

#[test]
fn a_file_needs_a_directory_in_the_configuration() -> Result<()> {
    let story = Story::begin()?;
    let sink = json!({"Type": "file", "Address": "audit.jsonl"});
    let answer = story.ask(&Request::new("PUT", "/v1/event-sink/file").json(&sink))?;
    ensure!(answer.head.status == 400 && answer.text().contains("server.event_sink_dir"), "{}", answer.text());
    Ok(())
}

#[test]
fn event_sinks_are_made_shown_and_deleted_on_the_command_line() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (inbox, address) = Inbox::open()?;
    let story = server(dir.path())?;
    let file = dir.path().join("sink.json");
    let sink = json!({"ID": "hook", "Type": "webhook", "Address": format!("http://{address}"), "Secret": SECRET});
    std::fs::write(&file, sink.to_string())?;
    let songline = |words: &[&str]| -> Result<String> {
        let done = Command::new(env!("CARGO_BIN_EXE_songline"))
            .args(words)
            .env("NOMAD_ADDR", format!("http://{}", story.http()))
            .output()
            .context("running the command line")?;
        Ok(String::from_utf8(done.stdout)? + &String::from_utf8(done.stderr)?)
    };
    ensure!(songline(&["event", "sink", "list"])? == "No event sinks found\n");
    let registered = songline(&["event", "sink", "register", &file.display().to_string()])?;
    ensure!(registered == "Successfully registered event sink \"hook\"!\n", "{registered}");
    make_pools(&story, 0..1)?;
    inbox.wait(|came| has(came, "pool-0"))?;
    settled(&story, "hook", 1)?;
    let list = songline(&["event", "sink", "list"])?;
    ensure!(list.contains("hook  webhook  delivering"), "{list}");
    let status = songline(&["event", "sink", "status", "hook"])?;
    ensure!(status.contains("Delivered") && status.contains("redacted") && !status.contains(SECRET), "{status}");
    let gone = songline(&["event", "sink", "deregister", "hook"])?;
    ensure!(gone == "Successfully deregistered event sink \"hook\"!\n", "{gone}");
    let missing = songline(&["event", "sink", "status", "hook"])?;
    ensure!(missing.contains("event sink \"hook\" not found"), "{missing}");
    Ok(())
}
