//! Sends a step's request and receives its answer: whole, as frames up to a size, as a stream of lines, or over a
//! websocket. Not here: the expected answer.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use crate::answer::{self, Content};
use crate::case::StreamRules;
use crate::compare::equal;
use crate::http::{Answer, Connection, Head, Request};
use crate::text::dump;

/// Timeout of one request.
const REQUEST_WITHIN: Duration = Duration::from_secs(60);

/// An agent's address and the case's deadline.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    pub http: SocketAddr,
    /// Deadline of the whole case.
    pub deadline: Instant,
}

impl Server {
    fn request_deadline(&self) -> Instant {
        self.deadline.min(Instant::now() + REQUEST_WITHIN)
    }

    pub fn call(&self, request: &Request) -> io::Result<Answer> {
        let deadline = self.request_deadline();
        Connection::open(self.http, deadline)?.call(request, deadline)
    }

    /// Sends a request. Returns the connection, to read the body from, and the head of the answer.
    pub fn open(&self, request: &Request) -> io::Result<(Connection, Head)> {
        let deadline = self.request_deadline();
        let mut connection = Connection::open(self.http, deadline)?;
        let head = connection.send(request, deadline)?;
        Ok((connection, head))
    }

    /// Sends a request and hangs up once the frames of the answer hold `bytes` bytes of data.
    pub fn call_for_frames(&self, request: &Request, bytes: usize) -> Result<Answer> {
        let deadline = self.request_deadline();
        let (mut connection, head) = self.open(request)?;
        let mut body = Vec::new();
        while answer::data_bytes(&answer::frames(&body))? < bytes {
            match connection.read_some(deadline)? {
                Some(part) => body.extend_from_slice(&part),
                None => break,
            }
        }
        Ok(Answer { head, body })
    }

    /// Performs the handshake, sends the messages, and returns everything received until the server closes.
    pub fn websocket(&self, mut request: Request, messages: &[Value]) -> Result<(u16, Content)> {
        let deadline = self.request_deadline();
        for (name, value) in [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", &STANDARD.encode("conformance-test")),
        ] {
            request.headers.push((name.to_string(), value.to_string()));
        }
        let (mut connection, head) = self.open(&request)?;
        if head.status != 101 {
            let mut body = Vec::new();
            while let Some(part) = connection.read_some(deadline)? {
                body.extend_from_slice(&part);
            }
            return Ok((head.status, Content::decode(&body)));
        }
        for message in messages {
            let text = match message {
                Value::String(text) => text.clone(),
                other => dump(other),
            };
            connection.write(&text_frame(text.as_bytes()), deadline)?;
        }
        let heard = listen(&mut connection, deadline)?;
        Ok((101, Content::Json(heard)))
    }
}

/// The request of a step, with its tokens filled in already.
pub fn request(req: &Value, saved: Option<&[u8]>) -> Result<Request> {
    let text = |key: &str| req.get(key).and_then(Value::as_str);
    let mut target = percent(text("path").context("a request has a path")?, "/%~:@!$&'()*+,;=");
    if let Some(query) = req.get("query").and_then(Value::as_object).filter(|query| !query.is_empty()) {
        target.push('?');
        target.push_str(&query_text(query));
    }
    let mut request = Request::new(text("method").context("a request has a method")?, &target);
    for (name, value) in req.get("headers").and_then(Value::as_object).into_iter().flatten() {
        request.headers.push((name.clone(), plain(value)));
    }
    if let Some(raw) = text("raw") {
        request.body = Some(repeated(raw).into_bytes());
    } else if let Some(body) = req.get("body") {
        request.body = Some(dump(body).into_bytes());
        let named = |(name, _): &(String, String)| name.eq_ignore_ascii_case("Content-Type");
        if !request.headers.iter().any(named) {
            request = request.header("Content-Type", "application/json");
        }
    } else {
        request.body = saved.map(<[u8]>::to_vec);
    }
    Ok(request)
}

/// Expands `<repeat:x:1000>` to a thousand x, for bodies too large to be stored.
fn repeated(raw: &str) -> String {
    let repeat = Regex::new(r"<repeat:(.):([0-9]+)>").expect("the pattern is fixed");
    let filled = repeat.replace_all(raw, |found: &Captures<'_>| found[1].repeat(found[2].parse().unwrap_or_default()));
    filled.into_owned()
}

fn query_text(query: &Map<String, Value>) -> String {
    let encode = |text: &str| percent(text, " ").replace(' ', "+");
    let mut pairs = Vec::new();
    for (name, value) in query {
        let values = match value {
            Value::Array(list) => list.iter().collect(),
            one => vec![one],
        };
        for value in values {
            pairs.push(format!("{}={}", encode(name), encode(&plain(value))));
        }
    }
    pairs.join("&")
}

/// Text form of a value in addresses and headers, as in the recordings.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        Value::Null => "None".to_string(),
        other => dump(other),
    }
}

fn percent(text: &str, safe: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "_.-~".contains(c) || safe.contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The first `count` frames that count, and the rest of the stream if the server ended it.
pub fn read_stream(
    connection: &mut Connection,
    rules: &StreamRules,
    count: usize,
    within: Duration,
) -> Result<(Vec<Value>, Option<String>)> {
    let mut stream = Lines { connection, rest: Vec::new(), frames: Vec::new(), tail: None };
    let deadline = Instant::now() + within;
    let in_time = stream.read(rules, deadline, |frames| frames.len() >= count && rules.tail.is_none())?;
    if let Some(quiet) = rules.quiet.filter(|_| in_time) {
        let deadline = Instant::now() + Duration::from_secs_f64(quiet);
        stream.read(rules, deadline, |frames| frames.len() > count)?;
    }
    Ok((stream.frames, stream.tail))
}

/// A stream of lines of which some are frames.
struct Lines<'c> {
    connection: &'c mut Connection,
    /// Bytes of an incomplete line.
    rest: Vec<u8>,
    frames: Vec<Value>,
    tail: Option<String>,
}

impl Lines<'_> {
    /// Reads until `enough` or the end of the stream; false when the deadline passed before.
    fn read(&mut self, rules: &StreamRules, deadline: Instant, enough: impl Fn(&[Value]) -> bool) -> Result<bool> {
        while !enough(&self.frames) && Instant::now() < deadline {
            let line = match self.next_line(deadline) {
                Ok(line) => line,
                Err(e) if e.kind() == io::ErrorKind::TimedOut => return Ok(false),
                Err(e) => return Err(e.into()),
            };
            if line.is_empty() {
                self.tail.get_or_insert_default();
                return Ok(true);
            }
            if !line.starts_with(b"{") {
                let text = String::from_utf8_lossy(&line).into_owned();
                self.tail.get_or_insert_default().push_str(&text);
                continue;
            }
            let frame: Value = serde_json::from_slice(&line).context("a frame of the stream")?;
            if counts(&frame, rules) {
                self.frames.push(frame);
            }
        }
        Ok(true)
    }

    /// The next line with its line feed; empty at the end of the stream.
    fn next_line(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                return Ok(self.rest.drain(..=end).collect());
            }
            match self.connection.read_some(deadline)? {
                Some(part) => self.rest.extend_from_slice(&part),
                None => return Ok(std::mem::take(&mut self.rest)),
            }
        }
    }
}

fn counts(frame: &Value, rules: &StreamRules) -> bool {
    if rules.raw {
        return true;
    }
    let none = Vec::new();
    let events = frame.get("Events").and_then(Value::as_array);
    let events = events.unwrap_or(&none);
    let wanted = |event: &Value| {
        let topic = event.get("Topic").and_then(Value::as_str);
        rules.topics.iter().any(|t| Some(t.as_str()) == topic)
            && rules.only.iter().all(|(path, value)| equal(path.look_up(event), value))
    };
    !events.is_empty() && events.iter().all(wanted)
}

/// Encodes one text message. Clients must mask; a mask of zeros leaves the payload unchanged.
fn text_frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u8::try_from(payload.len()) {
        Ok(size) if size < 126 => frame.push(0x80 | size),
        _ => {
            frame.push(0x80 | 126);
            let size = u16::try_from(payload.len()).expect("messages of cases are short");
            frame.extend_from_slice(&size.to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Everything received over a websocket until the server closes, in the form of the recordings.
fn listen(connection: &mut Connection, deadline: Instant) -> Result<Value> {
    let names = ["stdout", "stderr"];
    let mut output = [Vec::new(), Vec::new()];
    let (mut closed, mut other, mut close) = (Vec::new(), Vec::new(), Value::Null);
    let mut text = Vec::new();
    while let Some(head) = connection.read_raw(2, deadline)? {
        let payload = payload(connection, head[1], deadline)?;
        match head[0] & 15 {
            8 => {
                close = match payload.split_at_checked(2) {
                    Some((code, reason)) => {
                        let code = u16::from_be_bytes([code[0], code[1]]);
                        json!([code, String::from_utf8_lossy(reason)])
                    }
                    None => json!([]),
                };
                break;
            }
            9 | 10 => continue,
            _ => text.extend_from_slice(&payload),
        }
        if head[0] & 128 == 0 {
            continue;
        }
        let message: Value = serde_json::from_slice(&text).context("a websocket message")?;
        text.clear();
        let Value::Object(mut message) = message else {
            bail!("a websocket message is not an object: {message}");
        };
        for (name, bytes) in names.iter().zip(&mut output) {
            let part = message.shift_remove(*name).unwrap_or_default();
            let data = part.get("data").and_then(Value::as_str).unwrap_or_default();
            bytes.extend(STANDARD.decode(data).context("data of a message")?);
            if part.get("close") == Some(&Value::Bool(true)) {
                closed.push(*name);
                closed.sort_unstable();
            }
        }
        if !message.is_empty() {
            other.push(Value::Object(message));
        }
    }
    Ok(json!({
        "stdout": String::from_utf8_lossy(&output[0]),
        "stderr": String::from_utf8_lossy(&output[1]),
        "closed": closed,
        "other": other,
        "close": close,
    }))
}

fn payload(connection: &mut Connection, size: u8, deadline: Instant) -> Result<Vec<u8>> {
    let cut = "the server closed inside a message";
    let size = match size & 127 {
        126 => {
            let bytes = connection.read_raw(2, deadline)?.context(cut)?;
            bytes.iter().fold(0, |size, b| size << 8 | usize::from(*b))
        }
        127 => {
            let bytes = connection.read_raw(8, deadline)?.context(cut)?;
            bytes.iter().fold(0, |size, b| size << 8 | usize::from(*b))
        }
        size => usize::from(size),
    };
    connection.read_raw(size, deadline)?.context(cut)
}
