//! Reads a stream of bytes value by value.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::hold::Hold;
use crate::msgpack::Scanner;

/// Room for the next read, in bytes.
const READ_BYTES: usize = 8 * 1024;

/// Consecutive values of a stream.
#[derive(Debug)]
pub struct Values<R> {
    from: R,
    buffer: BytesMut,
    scan: Option<Scanner>,
    taken: usize,
    hold: Option<Hold>,
    /// Length of the last returned value, which counts until the next one is asked for.
    returned: usize,
}

impl<R: AsyncRead + Unpin> Values<R> {
    /// Reads values from a stream.
    pub fn new(from: R) -> Self {
        Self::within(from, None)
    }

    /// Reads values from a stream of a session. The bytes that are read, and the last returned value, count towards
    /// the session's budget.
    pub(super) fn within(from: R, hold: Option<Hold>) -> Self {
        Self { from, buffer: BytesMut::new(), scan: None, taken: 0, hold, returned: 0 }
    }

    /// The next value; `None` if the stream ends before it. Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self, bytes_max: usize) -> io::Result<Option<Bytes>> {
        self.returned = 0;
        loop {
            self.count()?;
            let scanned = self.scan.get_or_insert_with(|| Scanner::new(bytes_max)).scan(&self.buffer);
            if let Some(length) = scanned.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                self.scan = None;
                self.taken += length;
                self.returned = length;
                return Ok(Some(self.buffer.split_to(length).freeze()));
            }
            if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 2 {
                self.buffer.reserve(READ_BYTES.max(self.buffer.len()));
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Tells the session how many bytes are held.
    fn count(&mut self) -> io::Result<()> {
        let bytes = self.buffer.len() + self.returned;
        self.hold.as_mut().map_or(Ok(()), |hold| hold.set(bytes))
    }

    /// Puts a value back in front of the next one.
    pub(super) fn put_back(&mut self, value: &[u8]) {
        let mut buffer = BytesMut::from(value);
        buffer.extend_from_slice(&self.buffer);
        (self.buffer, self.scan) = (buffer, None);
    }

    /// Number of bytes returned as values.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// The bytes that were read but not returned, and the stream.
    pub fn into_parts(self) -> (Bytes, R) {
        (self.buffer.freeze(), self.from)
    }
}
