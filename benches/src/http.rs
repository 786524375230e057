//! HTTP/1.1 over one keep-alive connection with minimal overhead, because the tool shares its processors with the
//! agent.

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection.
pub struct Connection {
    stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
    filled: usize,
    /// Header line with the token, with its line end.
    token: String,
}

/// A complete answer.
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The body, unchunked.
    pub body: Vec<u8>,
    /// Token of the next page.
    pub next_token: Option<String>,
}

/// Strips `http://host:port` to `host:port`.
pub fn host_of(addr: &str) -> String {
    addr.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

impl Connection {
    pub async fn open(addr: &str) -> anyhow::Result<Self> {
        let host = host_of(addr);
        let stream = TcpStream::connect(&host).await.with_context(|| format!("connecting to {host}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host, buffer: vec![0; 16 * 1024], filled: 0, token: String::new() })
    }

    /// Adds this token to every request.
    pub fn with_token(self, token: Option<String>) -> Self {
        Self { token: token.map(|token| format!("X-Nomad-Token: {token}\r\n")).unwrap_or_default(), ..self }
    }

    /// Sends a request and reads the whole answer.
    pub async fn request(&mut self, method: &str, path: &str, body: &[u8]) -> anyhow::Result<Answer> {
        self.send(method, path, body).await?;
        let head = self.head().await?;
        let body = if head.chunked {
            let mut whole = Vec::new();
            while let Some(chunk) = self.chunk().await? {
                whole.extend_from_slice(&chunk);
            }
            whole
        } else {
            self.take(head.length).await?
        };
        Ok(Answer { status: head.status, body, next_token: head.next_token })
    }

    /// Like [`Self::request`], and an error unless the status is 200. Returns the body.
    pub async fn ok(&mut self, method: &str, path: &str, body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let answer = self.request(method, path, body).await?;
        if answer.status != 200 {
            bail!("{method} {path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        }
        Ok(answer.body)
    }

    /// Starts an endless answer, whose pieces come from [`Self::chunk`].
    pub async fn subscribe(&mut self, path: &str) -> anyhow::Result<()> {
        self.send("GET", path, &[]).await?;
        let head = self.head().await?;
        if head.status != 200 || !head.chunked {
            bail!("GET {path}: {}", head.status);
        }
        Ok(())
    }

    /// The next chunk of a chunked answer; `None` at its end.
    pub async fn chunk(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let size = loop {
            if let Some(end) = self.buffer[..self.filled].windows(2).position(|pair| pair == b"\r\n") {
                let line = std::str::from_utf8(&self.buffer[..end])?;
                let size = usize::from_str_radix(line.trim(), 16).context("size of a chunk")?;
                self.consume(end + 2);
                break size;
            }
            self.fill().await?;
        };
        let data = self.take(size).await?;
        self.take(2).await?;
        Ok((size > 0).then_some(data))
    }

    async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> anyhow::Result<()> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{}Content-Length: {}\r\n\r\n",
            self.host,
            self.token,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.write_all(&request).await?;
        Ok(())
    }

    async fn head(&mut self) -> anyhow::Result<Head> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut response = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(used) = response.parse(&self.buffer[..self.filled])? {
                let mut head = Head { status: response.code.unwrap_or(0), length: 0, chunked: false, next_token: None };
                for header in response.headers {
                    if header.name.eq_ignore_ascii_case("content-length") {
                        head.length = std::str::from_utf8(header.value)?.trim().parse()?;
                    } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                        head.chunked = header.value.eq_ignore_ascii_case(b"chunked");
                    } else if header.name.eq_ignore_ascii_case("x-nomad-nexttoken") {
                        head.next_token = Some(String::from_utf8_lossy(header.value).into_owned());
                    }
                }
                self.consume(used);
                return Ok(head);
            }
            self.fill().await?;
        }
    }

    async fn take(&mut self, length: usize) -> anyhow::Result<Vec<u8>> {
        while self.filled < length {
            self.fill().await?;
        }
        let data = self.buffer[..length].to_vec();
        self.consume(length);
        Ok(data)
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let read = self.stream.read(&mut self.buffer[self.filled..]).await?;
        if read == 0 {
            bail!("the agent closed the connection");
        }
        self.filled += read;
        Ok(())
    }

    fn consume(&mut self, used: usize) {
        self.buffer.copy_within(used..self.filled, 0);
        self.filled -= used;
    }
}

struct Head {
    status: u16,
    length: usize,
    chunked: bool,
    next_token: Option<String>,
}

/// Cuts a stream of chunks into lines.
#[derive(Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The lines that `chunk` completes.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(chunk);
        let mut lines = Vec::new();
        let mut start = 0;
        while let Some(end) = self.rest[start..].iter().position(|byte| *byte == b'\n') {
            lines.push(self.rest[start..start + end].to_vec());
            start += end + 1;
        }
        self.rest.drain(..start);
        lines
    }
}
