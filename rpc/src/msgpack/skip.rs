//! Where a value ends: cuts a stream of msgpack values into values, without building any. What they mean is not looked at.

use super::marker::{Head, Marker};

/// How deep containers may nest, wherever this dialect is read.
pub const DEPTH_MAX: usize = 128;

/// Why a stream cannot be cut any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkipError {
    /// A byte that begins no value.
    #[error("msgpack: byte 0xc1 at {at} begins no value")]
    Reserved {
        /// Bytes from the beginning of the value.
        at: usize,
    },
    /// Containers inside of each other, more than [`DEPTH_MAX`].
    #[error("msgpack: value nests deeper than {DEPTH_MAX}")]
    TooDeep,
    /// More bytes than the reader is willing to take, there already or announced.
    #[error("msgpack: value is larger than {max} bytes")]
    TooLarge {
        /// The bound, in bytes.
        max: usize,
    },
}

/// Finds the end of one value in bytes that arrive piece by piece; what it has seen it does not look at again.
///
/// It keeps as many counters as the value is deep, whatever lengths the bytes announce.
#[derive(Debug, Clone)]
pub struct Scanner {
    max: usize,
    /// Bytes known to belong to the value; may lie beyond those that are there.
    at: usize,
    /// Values still missing in each open container, outermost first.
    open: Vec<u64>,
    begun: bool,
}

impl Scanner {
    /// A scanner of one value of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { max, at: 0, open: Vec::new(), begun: false }
    }

    /// Goes on with `bytes`, which begin with the value and hold at least what was there at the last call. `Some` is the length of the
    /// value, after which the scanner is ready for the next one; `None`: more is needed.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, SkipError> {
        loop {
            if self.begun && self.open.is_empty() {
                if self.at > bytes.len() {
                    return Ok(None);
                }
                let length = self.at;
                *self = Self::new(self.max);
                return Ok(Some(length));
            }
            let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
            let Some(Head { marker, size }) = Head::read(rest).map_err(|_| SkipError::Reserved { at: self.at })? else { return Ok(None) };
            self.begun = true;
            let (body, values) = match marker {
                Marker::Array(n) => (0, u64::from(n)),
                Marker::Map(n) => (0, 2 * u64::from(n)),
                Marker::Raw(n) | Marker::Bin(n) => (n as usize, 0),
                // One byte says which extension.
                Marker::Ext(n) => (n as usize + 1, 0),
                Marker::Nil | Marker::Bool(_) | Marker::Int(_) | Marker::UInt(_) | Marker::Float(_) => (0, 0),
            };
            self.at += size + body;
            // Every value that is still to come takes a byte at least.
            let least = u64::try_from(self.at).unwrap_or(u64::MAX).saturating_add(values);
            if least > self.max as u64 {
                return Err(SkipError::TooLarge { max: self.max });
            }
            self.closed_one();
            if values > 0 {
                if self.open.len() == DEPTH_MAX {
                    return Err(SkipError::TooDeep);
                }
                self.open.push(values);
            }
            while self.open.last() == Some(&0) {
                self.open.pop();
            }
        }
    }

    /// A value of the innermost open container has begun; the container itself goes once all of them have ended.
    fn closed_one(&mut self) {
        if let Some(missing) = self.open.last_mut() {
            *missing -= 1;
        }
    }
}

/// The length of the value that `bytes` begin with, at most `max` bytes; `None` when they end before it does.
pub fn skip(bytes: &[u8], max: usize) -> Result<Option<usize>, SkipError> {
    Scanner::new(max).scan(bytes)
}
