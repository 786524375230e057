//! A stream for calls one after another, on the calling side.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

use super::header::{RequestHeader, ResponseHeader, bytes_of, read};
use super::values::Values;
use super::{ANSWER_BYTES_MAX, HEADER_BYTES_MAX};
use crate::RpcError;
use crate::port::FirstByte;
use crate::yamux::{Session, Stream};

/// A stream that carries calls.
#[derive(Debug)]
pub(super) struct Line {
    answers: Values<ReadHalf<Stream>>,
    requests: WriteHalf<Stream>,
}

impl Line {
    /// Opens a stream over a session.
    pub(super) async fn open(session: &Session) -> io::Result<Self> {
        let mut stream = session.open().await?;
        stream.write_all(&[FirstByte::Rpc as u8]).await?;
        let (answers, requests) = tokio::io::split(stream);
        Ok(Self { answers: Values::new(answers), requests })
    }

    /// Makes a call. The outer error is that of the stream, which is then unusable; the inner result is the answer.
    pub(super) async fn call(&mut self, seq: u64, method: &str, body: &[u8]) -> io::Result<Result<Bytes, RpcError>> {
        let mut request = bytes_of(&RequestHeader { seq, service_method: method.to_owned() });
        request.extend_from_slice(body);
        self.requests.write_all(&request).await?;
        let header = self.answers.next(HEADER_BYTES_MAX).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let header: ResponseHeader = read(&header)?;
        let body = self.answers.next(ANSWER_BYTES_MAX).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if header.seq != seq {
            let text = format!("the answer to call {} instead of {seq}", header.seq);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(if header.error.is_empty() { Ok(body) } else { Err(RpcError::of_wire_text(&header.error)) })
    }
}

/// Makes one call over a stream of its own, which is closed afterwards. Servers call nodes this way.
pub async fn call_over(session: &Session, seq: u64, method: &str, body: &[u8]) -> Result<Bytes, RpcError> {
    let lost = |error: io::Error| RpcError::Lost(error.to_string());
    Line::open(session).await.map_err(lost)?.call(seq, method, body).await.map_err(lost)?
}
