//! A small blocking HTTP/1.1 client for tests: one connection, sequential requests, bodies read whole or in pieces.
//! Every call has a deadline, so that a silent server is an error and never a hang. Not here: redirects, TLS,
//! pooling, pipelining, and decompression of bodies.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Size of one read from the socket, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    /// Path and query, already encoded.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Request {
        Request { method: method.to_string(), target: target.to_string(), ..Request::default() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    pub fn json(mut self, body: &serde_json::Value) -> Request {
        self.body = Some(body.to_string().into_bytes());
        self.header("Content-Type", "application/json")
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    fn bytes(&self, host: SocketAddr) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.target);
        if !self.has("Accept-Encoding") {
            text.push_str("Accept-Encoding: identity\r\n");
        }
        let expects_body = matches!(self.method.as_str(), "PUT" | "POST" | "PATCH");
        if (self.body.is_some() || expects_body) && !self.has("Content-Length") {
            let size = self.body.as_ref().map_or(0, Vec::len);
            text.push_str(&format!("Content-Length: {size}\r\n"));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// The status line and the headers of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The value of the last header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut same = self.headers.iter().rev();
        same.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub head: Head,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
    }

    /// The value of `X-Nomad-Index`.
    pub fn index(&self) -> Option<u64> {
        self.head.header("X-Nomad-Index")?.parse().ok()
    }
}

/// Framing of the answer's body, which determines its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Done,
    Length(usize),
    /// Bytes left of the current chunk; `None` before its size line.
    Chunked(Option<usize>),
    UntilClose,
}

/// One connection to a server.
pub struct Connection {
    stream: TcpStream,
    server: SocketAddr,
    /// Received bytes that were not returned yet.
    unread: Vec<u8>,
    framing: Framing,
}

impl Connection {
    pub fn open(server: SocketAddr, deadline: Instant) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&server, left(deadline)?)?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, server, unread: Vec::new(), framing: Framing::Done })
    }

    /// Sends `request` and reads the answer up to its body.
    pub fn send(&mut self, request: &Request, deadline: Instant) -> io::Result<Head> {
        self.write(&request.bytes(self.server), deadline)?;
        loop {
            let head = self.read_head(deadline)?;
            if head.status == 100 {
                continue;
            }
            self.framing = framing_of(&request.method, &head)?;
            return Ok(head);
        }
    }

    /// Sends `request` and reads its whole answer.
    pub fn call(&mut self, request: &Request, deadline: Instant) -> io::Result<Answer> {
        let head = self.send(request, deadline)?;
        let mut body = Vec::new();
        while let Some(part) = self.read_some(deadline)? {
            body.extend_from_slice(&part);
        }
        Ok(Answer { head, body })
    }

    /// The next bytes of the body; `None` at its end.
    pub fn read_some(&mut self, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
        loop {
            match self.framing {
                Framing::Done => return Ok(None),
                Framing::Length(0) => self.framing = Framing::Done,
                Framing::Length(size) => {
                    let part = self.take(size, deadline)?;
                    self.framing = Framing::Length(size - part.len());
                    return Ok(Some(part));
                }
                Framing::UntilClose => {
                    if self.unread.is_empty() && !self.fill(deadline)? {
                        self.framing = Framing::Done;
                        return Ok(None);
                    }
                    return Ok(Some(std::mem::take(&mut self.unread)));
                }
                Framing::Chunked(None) => {
                    let line = self.wire_line(deadline)?;
                    let size = line.split(';').next().unwrap_or_default().trim();
                    let size = usize::from_str_radix(size, 16).map_err(|_| invalid(format!("chunk size {line:?}")))?;
                    if size == 0 {
                        while !self.wire_line(deadline)?.is_empty() {}
                        self.framing = Framing::Done;
                    } else {
                        self.framing = Framing::Chunked(Some(size));
                    }
                }
                Framing::Chunked(Some(0)) => {
                    self.wire_line(deadline)?;
                    self.framing = Framing::Chunked(None);
                }
                Framing::Chunked(Some(size)) => {
                    let part = self.take(size, deadline)?;
                    self.framing = Framing::Chunked(Some(size - part.len()));
                    return Ok(Some(part));
                }
            }
        }
    }

    /// Exactly `size` bytes without framing: for the protocol after an answer of status 101. `None` when the server
    /// closed before.
    pub fn read_raw(&mut self, size: usize, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
        while self.unread.len() < size {
            if !self.fill(deadline)? {
                return Ok(None);
            }
        }
        Ok(Some(self.unread.drain(..size).collect()))
    }

    /// Sends bytes without framing.
    pub fn write(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(deadline)?))?;
        self.stream.write_all(bytes).map_err(timed_out)
    }

    fn read_head(&mut self, deadline: Instant) -> io::Result<Head> {
        loop {
            let mut space = [httparse::EMPTY_HEADER; 128];
            let mut parsed = httparse::Response::new(&mut space);
            let status = parsed.parse(&self.unread).map_err(|e| invalid(e.to_string()))?;
            if let httparse::Status::Complete(size) = status {
                let head = Head {
                    status: parsed.code.unwrap_or_default(),
                    headers: parsed
                        .headers
                        .iter()
                        .map(|h| {
                            let value = String::from_utf8_lossy(h.value).into_owned();
                            (h.name.to_string(), value)
                        })
                        .collect(),
                };
                self.unread.drain(..size);
                return Ok(head);
            }
            if !self.fill(deadline)? {
                return Err(closed());
            }
        }
    }

    /// Takes between one and `size` bytes.
    fn take(&mut self, size: usize, deadline: Instant) -> io::Result<Vec<u8>> {
        if self.unread.is_empty() && !self.fill(deadline)? {
            return Err(closed());
        }
        let size = size.min(self.unread.len());
        Ok(self.unread.drain(..size).collect())
    }

    fn wire_line(&mut self, deadline: Instant) -> io::Result<String> {
        loop {
            if let Some(end) = self.unread.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_string());
            }
            if !self.fill(deadline)? {
                return Err(closed());
            }
        }
    }

    /// Reads available bytes; false when the server closed.
    fn fill(&mut self, deadline: Instant) -> io::Result<bool> {
        self.stream.set_read_timeout(Some(left(deadline)?))?;
        let mut part = vec![0; READ_BYTES];
        loop {
            match self.stream.read(&mut part) {
                Ok(size) => {
                    self.unread.extend_from_slice(&part[..size]);
                    return Ok(size > 0);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(timed_out(e)),
            }
        }
    }
}

/// Sends one request on a connection of its own.
pub fn call(server: SocketAddr, request: &Request, deadline: Instant) -> io::Result<Answer> {
    Connection::open(server, deadline)?.call(request, deadline)
}

fn framing_of(method: &str, head: &Head) -> io::Result<Framing> {
    if method == "HEAD" || matches!(head.status, 100..=199 | 204 | 304) {
        return Ok(Framing::Done);
    }
    let coding = head.header("Transfer-Encoding").unwrap_or_default();
    if coding.eq_ignore_ascii_case("chunked") {
        return Ok(Framing::Chunked(None));
    }
    match head.header("Content-Length") {
        Some(size) => size.parse().map(Framing::Length).map_err(|_| invalid(format!("content length {size:?}"))),
        None => Ok(Framing::UntilClose),
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(io::Error::new(ErrorKind::TimedOut, "timed out")),
    }
}

fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { io::Error::new(ErrorKind::TimedOut, "timed out") } else { error }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the server closed before the end of its answer")
}

fn invalid(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
