//! Finds the ends of values in a stream of msgpack, without decoding them.

use super::marker::{Head, Marker};

/// Most levels of nested containers wherever this dialect is read.
pub const DEPTH_MAX: usize = 128;

/// Reason why the end of a value cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkipError {
    /// A byte that begins no value.
    #[error("msgpack: byte 0xc1 at {at} begins no value")]
    Reserved {
        /// Bytes from the beginning of the value.
        at: usize,
    },
    /// Containers nest deeper than [`DEPTH_MAX`].
    #[error("msgpack: value nests deeper than {DEPTH_MAX}")]
    TooDeep,
    /// The value has more bytes, received or announced, than the reader accepts.
    #[error("msgpack: value is larger than {max} bytes")]
    TooLarge {
        /// The bound, in bytes.
        max: usize,
    },
}

/// Finds the end of one value in bytes that arrive piece by piece; bytes already scanned are not scanned again.
///
/// Its memory is one counter per nesting level; announced lengths reserve nothing.
#[derive(Debug, Clone)]
pub struct Scanner {
    max: usize,
    /// Number of bytes known to belong to the value; may be more than have arrived.
    at: usize,
    /// Values still missing in each open container, outermost first.
    open: Vec<u64>,
    begun: bool,
}

impl Scanner {
    /// A scanner for one value of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { max, at: 0, open: Vec::new(), begun: false }
    }

    /// Continues with `bytes`, which start at the value's first byte and include all bytes of earlier calls. Returns
    /// the length of the value once it is complete; the scanner is then ready for the next one. `None`: more bytes are
    /// needed.
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
            let Some(Head { marker, size }) = Head::read(rest).map_err(|_| SkipError::Reserved { at: self.at })? else {
                return Ok(None);
            };
            self.begun = true;
            let (body, values) = match marker {
                Marker::Array(n) => (0, u64::from(n)),
                Marker::Map(n) => (0, 2 * u64::from(n)),
                Marker::Raw(n) | Marker::Bin(n) => (n as usize, 0),
                // One more byte for the extension's type.
                Marker::Ext(n) => (n as usize + 1, 0),
                Marker::Nil | Marker::Bool(_) | Marker::Int(_) | Marker::UInt(_) | Marker::Float(_) => (0, 0),
            };
            self.at += size + body;
            // Every value still to come takes at least one byte.
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

    /// Counts a value of the innermost open container as begun. A container is closed once all its values have ended.
    fn closed_one(&mut self) {
        if let Some(missing) = self.open.last_mut() {
            *missing -= 1;
        }
    }
}

/// Length of the value at the start of `bytes`, at most `max`; `None` if the bytes end before the value.
pub fn skip(bytes: &[u8], max: usize) -> Result<Option<usize>, SkipError> {
    Scanner::new(max).scan(bytes)
}
