//! Questions and answers between servers, over connections of first byte `Peers`: strictly alternating, one answer to
//! each question. The topics define the contents.
//!
//! Both ends have authenticated as servers before the first question: see `songline_rpc::port::ServerTrust`.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use songline_log::{NodeId, Transport, TransportError};
use songline_rpc::port::{Conn, Dialer, FirstByte};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Frame header: `length u32, topic u8` before a question, `length u32, 1 or 0` before an answer.
const HEAD_BYTES: usize = 5;
/// Longest question and answer, in bytes. An entry may take 64 MiB.
const CONTENT_BYTES_MAX: usize = 80 << 20;
/// Largest number of idle connections to one server.
const IDLE_MAX: usize = 8;

/// Topic of a question. The number is its byte on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A consensus message.
    Consensus = 1,
    /// Greeting: the server's description and the addresses it knows.
    Greeting = 2,
    /// Request to join the cluster.
    Join = 3,
    /// Request for a promise to found a cluster with a set of servers.
    Promise = 4,
    /// The key-encryption key, which wraps root keys.
    KeyEncryptionKey = 5,
    /// Content of an archive.
    Archive = 6,
    /// Request to leave the cluster.
    Leave = 7,
    /// Objects that all regions share; asked by servers of other regions only.
    Objects = 8,
}

impl Topic {
    fn of(byte: u8) -> Option<Self> {
        let all = [
            Self::Consensus,
            Self::Greeting,
            Self::Join,
            Self::Promise,
            Self::KeyEncryptionKey,
            Self::Archive,
            Self::Leave,
            Self::Objects,
        ];
        all.into_iter().find(|topic| *topic as u8 == byte)
    }
}

/// Answers the questions of other servers.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Returns the answer, or the reason for a refusal.
    fn answer(&self, topic: Topic, question: Bytes) -> impl Future<Output = Result<Bytes, String>> + Send;
}

/// Connections to other servers. Clones share them.
#[derive(Clone)]
pub(crate) struct Peers {
    dialer: Dialer,
    first: FirstByte,
    idle: Arc<Mutex<BTreeMap<Box<str>, Vec<Conn>>>>,
}

/// Reasons why a question got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// No connection could be made.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke or the timeout passed; the question may have arrived.
    #[error("{0}")]
    Lost(String),
    /// The other server refused.
    #[error("{0}")]
    Refused(String),
}

impl Peers {
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self { dialer, first: FirstByte::Peers, idle: Arc::default() }
    }

    /// Connections to servers of any region, which answer greetings and questions about shared objects.
    pub(crate) fn of_regions(dialer: Dialer) -> Self {
        Self { dialer, first: FirstByte::Regions, idle: Arc::default() }
    }

    /// Asks the server at `address`. `within` bounds connecting and the answer.
    pub(crate) async fn ask(
        &self,
        address: &str,
        topic: Topic,
        question: &[u8],
        within: Duration,
    ) -> Result<Bytes, AskError> {
        let asked = async {
            // A kept connection may have been closed meanwhile: a question that fails on it before an answer begins
            // is repeated on a new one. Every question may safely be asked twice.
            if let Some(mut conn) = self.take_idle(address)
                && let Ok(answer) = exchange(&mut conn, topic, question).await
            {
                self.keep(address, conn);
                return answer;
            }
            let mut conn = self
                .dialer
                .connect(address, self.first)
                .await
                .map_err(|error| AskError::Unreachable(format!("{address}: {error}")))?;
            let answer = exchange(&mut conn, topic, question)
                .await
                .map_err(|error| AskError::Lost(format!("{address}: {error}")))?;
            self.keep(address, conn);
            answer
        };
        tokio::time::timeout(within, asked).await.map_err(|_| {
            // A network path may drop packets in one direction. The other idle connections to the address would time
            // out as well, one after another. Connecting anew over such a path fails at once, which shows its state.
            self.idle.lock().remove(address);
            AskError::Lost(format!("{address} did not answer in {} ms", within.as_millis()))
        })?
    }

    fn take_idle(&self, address: &str) -> Option<Conn> {
        self.idle.lock().get_mut(address)?.pop()
    }

    fn keep(&self, address: &str, conn: Conn) {
        let mut idle = self.idle.lock();
        let kept = idle.entry(address.into()).or_default();
        if kept.len() < IDLE_MAX {
            kept.push(conn);
        }
    }
}

/// Answers questions that arrive on a connection until it ends.
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
    fn send<'a>(
        &'a self,
        _: NodeId,
        address: &'a str,
        message: Bytes,
        within: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move {
            self.ask(address, Topic::Consensus, &message, within).await.map_err(|error| match error {
                AskError::Unreachable(why) | AskError::Refused(why) => TransportError::Unreachable(why),
                AskError::Lost(why) => TransportError::Lost(why),
            })
        })
    }
}

/// Sends one question and reads its answer. An error means that the connection is unusable.
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

/// Reads one frame; `None` at the end of the connection.
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
    // Memory grows with the received bytes, so that an announced length alone allocates nothing.
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
