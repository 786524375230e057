//! Reads a stream of bytes value by value.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

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
}

impl<R: AsyncRead + Unpin> Values<R> {
    /// Reads values from a stream.
    pub fn new(from: R) -> Self {
        Self { from, buffer: BytesMut::new(), scan: None, taken: 0 }
    }

    /// The next value; `None` if the stream ends before it. Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self, bytes_max: usize) -> io::Result<Option<Bytes>> {
        loop {
            let scanned = self.scan.get_or_insert_with(|| Scanner::new(bytes_max)).scan(&self.buffer);
            if let Some(length) = scanned.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                self.scan = None;
                self.taken += length;
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
