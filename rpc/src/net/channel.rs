//! A streaming call: values in both directions until one side ends the call.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

use super::header::{StreamAnswer, StreamOpening, bytes_of, read};
use super::hold::Hold;
use super::values::Values;
use super::{HEADER_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::RpcError;
use crate::port::{Conn, FirstByte};
use crate::yamux::Session;

/// Both directions of a streaming call. Dropping the channel ends the call.
pub struct Channel {
    reader: ChannelReader,
    writer: ChannelWriter,
}

/// Values from the other side.
pub struct ChannelReader(Values<ReadHalf<Conn>>);

/// Values to the other side.
pub struct ChannelWriter(WriteHalf<Conn>);

impl Channel {
    /// A channel over a connection or a stream whose first byte was sent.
    pub fn new(conn: Conn) -> Self {
        Self::within(conn, None)
    }

    /// Same as [`Self::new`], for a stream whose input counts towards its session's budget.
    pub(super) fn within(conn: Conn, hold: Option<Hold>) -> Self {
        let (reader, writer) = tokio::io::split(conn);
        Self { reader: ChannelReader(Values::within(reader, hold)), writer: ChannelWriter(writer) }
    }

    /// The next value, of at most 32 MiB; `None` at the end.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.reader.next().await
    }

    /// Sends a value.
    pub async fn send(&mut self, value: &[u8]) -> io::Result<()> {
        self.writer.send(value).await
    }

    /// The channel with `value` in front of the values to read.
    #[must_use]
    pub fn with_first(mut self, value: Bytes) -> Self {
        self.reader.0.put_back(&value);
        self
    }

    /// Splits the channel into its directions.
    pub fn split(self) -> (ChannelReader, ChannelWriter) {
        (self.reader, self.writer)
    }

    /// Opens `method` at the other side, and sends the request once the other side has accepted.
    pub async fn begin(&mut self, method: &str, request: &[u8]) -> Result<(), RpcError> {
        let lost = |error: io::Error| RpcError::Lost(error.to_string());
        self.send(&bytes_of(&StreamOpening { method: method.to_owned() })).await.map_err(lost)?;
        let answer = self.reader.0.next(HEADER_BYTES_MAX).await.map_err(lost)?;
        let answer = answer.ok_or_else(|| lost(io::ErrorKind::UnexpectedEof.into()))?;
        let StreamAnswer { error } = read(&answer).map_err(lost)?;
        if !error.is_empty() {
            return Err(RpcError::of_wire_text(&error));
        }
        self.send(request).await.map_err(lost)
    }

    /// Copies bytes between two calls until both directions have ended or one of them fails.
    pub async fn bridge(self, other: Self) {
        let pass = async |from: ChannelReader, mut to: ChannelWriter| {
            let (first, mut from) = from.0.into_parts();
            to.0.write_all(&first).await?;
            tokio::io::copy(&mut from, &mut to.0).await?;
            to.0.shutdown().await
        };
        // The end of the answering direction ends the call. The asking direction may end earlier, when the caller has
        // no more input.
        let mut there = std::pin::pin!(pass(self.reader, other.writer));
        let mut back = std::pin::pin!(pass(other.reader, self.writer));
        let over = tokio::select! {
            biased;
            _ = &mut back => return,
            asked = &mut there => asked,
        };
        if over.is_ok() {
            // The call is over however the answering direction ends.
            let _ = back.await;
        }
    }
}

impl ChannelReader {
    /// The next value, of at most 32 MiB; `None` at the end.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.0.next(REQUEST_BYTES_MAX).await
    }
}

impl ChannelWriter {
    /// Sends a value.
    pub async fn send(&mut self, value: &[u8]) -> io::Result<()> {
        self.0.write_all(value).await?;
        self.0.flush().await
    }

    /// Ends this direction.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}

/// Opens a streaming call over a session.
pub async fn open_channel(session: &Session, method: &str, request: &[u8]) -> Result<Channel, RpcError> {
    let lost = |error: io::Error| RpcError::Lost(error.to_string());
    let mut stream = session.open().await.map_err(lost)?;
    stream.write_all(&[FirstByte::Streaming as u8]).await.map_err(lost)?;
    let mut channel = Channel::new(Box::new(stream));
    channel.begin(method, request).await?;
    Ok(channel)
}
