//! Questions and answers between servers, over connections of first byte `Peers`: one question, one answer, again and again. The meaning of
//! a topic's questions is not here.
//!
//! Both ends have proved that they are servers before the first question: see `songline_rpc::port::ServerTrust`.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use songline_log::{NodeId, Transport, TransportError};
use songline_rpc::port::{Conn, Dialer, FirstByte};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::lock;

/// `length u32, topic u8` before a question, `length u32, 1 or 0` before an answer.
const HEAD_BYTES: usize = 5;
/// The longest question and answer, in bytes. An entry may take 64 MiB.
const CONTENT_BYTES_MAX: usize = 80 << 20;
/// How many idle connections are kept to one server.
const IDLE_MAX: usize = 8;

/// What a question is about. The number is its byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A message of consensus.
    Consensus = 1,
    /// Who are you, and whom do you know?
    Greeting = 2,
    /// Let me in.
    Join = 3,
    /// Will you found a cluster with these?
    Promise = 4,
    /// What root keys are wrapped with.
    KeyEncryptionKey = 5,
    /// The content of an archive.
    Archive = 6,
    /// Let me go.
    Leave = 7,
}

impl Topic {
    fn of(byte: u8) -> Option<Self> {
        let all = [Self::Consensus, Self::Greeting, Self::Join, Self::Promise, Self::KeyEncryptionKey, Self::Archive, Self::Leave];
        all.into_iter().find(|topic| *topic as u8 == byte)
    }
}

/// Who answers the questions of other servers.
pub(crate) trait Answers: Send + Sync + 'static {
    /// The answer, or why there is none.
    fn answer(&self, topic: Topic, question: Bytes) -> impl Future<Output = Result<Bytes, String>> + Send;
}

/// The ways to other servers. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Peers {
    dialer: Dialer,
    idle: Arc<Mutex<BTreeMap<Box<str>, Vec<Conn>>>>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// There is no connection.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke, or it took too long; the question may have arrived.
    #[error("{0}")]
    Lost(String),
    /// The other says no.
    #[error("{0}")]
    Refused(String),
}

impl Peers {
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer, idle: Arc::default() }
    }

    /// Asks the server at `address`.
    pub async fn ask(&self, address: &str, topic: Topic, question: &[u8], within: Duration) -> Result<Bytes, AskError> {
        let asked = async {
            // A kept connection may have died of age: what is lost on it before an answer begins is asked again on a new one. Every
            // question can be asked twice.
            if let Some(mut conn) = self.take_idle(address)
                && let Ok(answer) = exchange(&mut conn, topic, question).await
            {
                self.keep(address, conn);
                return answer;
            }
            let mut conn = self
                .dialer
                .connect(address, FirstByte::Peers)
                .await
                .map_err(|error| AskError::Unreachable(format!("{address}: {error}")))?;
            let answer = exchange(&mut conn, topic, question).await.map_err(|error| AskError::Lost(format!("{address}: {error}")))?;
            self.keep(address, conn);
            answer
        };
        tokio::time::timeout(within, asked).await.map_err(|_| {
            // A path may be deaf in one direction: the other connections that are kept would wait in vain as long, one after another. A new
            // one is not made over such a path, and so says at once what it is.
            lock(&self.idle).remove(address);
            AskError::Lost(format!("{address} did not answer in {} ms", within.as_millis()))
        })?
    }

    fn take_idle(&self, address: &str) -> Option<Conn> {
        lock(&self.idle).get_mut(address)?.pop()
    }

    fn keep(&self, address: &str, conn: Conn) {
        let mut idle = lock(&self.idle);
        let kept = idle.entry(address.into()).or_default();
        if kept.len() < IDLE_MAX {
            kept.push(conn);
        }
    }
}

/// Answers what comes over a connection until it ends.
pub(crate) async fn serve<A: Answers>(mut conn: Conn, answers: &A) -> io::Result<()> {
    loop {
        let Some((head, question)) = read_frame(&mut conn).await? else { return Ok(()) };
        let topic = Topic::of(head).ok_or_else(|| invalid("a question about something unknown"))?;
        match answers.answer(topic, question).await {
            Ok(answer) => write_frame(&mut conn, 1, &answer).await?,
            Err(why) => write_frame(&mut conn, 0, why.as_bytes()).await?,
        }
    }
}

impl Transport for Peers {
    fn send<'a>(&'a self, _: NodeId, address: &'a str, message: Bytes, within: Duration) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move {
            self.ask(address, Topic::Consensus, &message, within).await.map_err(|error| match error {
                AskError::Unreachable(why) | AskError::Refused(why) => TransportError::Unreachable(why),
                AskError::Lost(why) => TransportError::Lost(why),
            })
        })
    }
}

/// One question and its answer. An error means that the connection is of no use any more.
async fn exchange(conn: &mut Conn, topic: Topic, question: &[u8]) -> io::Result<Result<Bytes, AskError>> {
    write_frame(conn, topic as u8, question).await?;
    let (head, answer) = read_frame(conn).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(if head == 1 { Ok(answer) } else { Err(AskError::Refused(String::from_utf8_lossy(&answer).into_owned())) })
}

async fn write_frame(conn: &mut Conn, head: u8, content: &[u8]) -> io::Result<()> {
    let len = u32::try_from(content.len()).ok().filter(|len| *len as usize <= CONTENT_BYTES_MAX);
    let len = len.ok_or_else(|| invalid("longer than servers say to each other"))?;
    let mut frame = BytesMut::with_capacity(HEAD_BYTES + content.len());
    frame.extend_from_slice(&len.to_le_bytes());
    frame.extend_from_slice(&[head]);
    frame.extend_from_slice(content);
    conn.write_all(&frame).await?;
    conn.flush().await
}

/// `None` at the end of the connection.
async fn read_frame(conn: &mut Conn) -> io::Result<Option<(u8, Bytes)>> {
    let mut head = [0; HEAD_BYTES];
    match conn.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if len > CONTENT_BYTES_MAX {
        return Err(invalid("longer than servers say to each other"));
    }
    let mut content = BytesMut::new();
    // As it comes, so that an announced length alone takes no memory.
    while content.len() < len {
        let rest = len - content.len();
        content.reserve(rest.min(1 << 20));
        let mut limited = (&mut *conn).take(rest as u64);
        if limited.read_buf(&mut content).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some((head[4], content.freeze())))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests;
