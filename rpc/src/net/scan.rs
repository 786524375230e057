//! Where a msgpack value ends, found while its bytes still come. What it says is not looked at.

/// How far a value has been followed. Bytes that were looked at are not looked at again when more come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The next byte to look at; beyond what there is when a string announces more than has come.
    at: usize,
    /// How many values are still to come, those within the one included.
    left: usize,
}

/// What is no value, or too long a one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// A byte that begins nothing.
    #[error("no msgpack value begins with 0xc1")]
    Reserved,
    /// More bytes than are taken in.
    #[error("a value of more than {0} bytes")]
    TooLong(usize),
}

impl Default for Scan {
    fn default() -> Self {
        Self { at: 0, left: 1 }
    }
}

impl Scan {
    /// The length of the value that `bytes` begin with, once all of it is there. `bytes` have those of earlier calls in front.
    pub fn step(&mut self, bytes: &[u8], bytes_max: usize) -> Result<Option<usize>, ScanError> {
        while self.left > 0 {
            let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
            let Some((length, within)) = first(rest)? else { return Ok(None) };
            self.at = self.at.saturating_add(length);
            self.left = (self.left - 1).saturating_add(within);
            // A value has at least one byte, so what is announced counts before it is there.
            if self.at.saturating_add(self.left) > bytes_max {
                return Err(ScanError::TooLong(bytes_max));
            }
        }
        Ok((self.at <= bytes.len()).then_some(self.at))
    }
}

/// Bytes of the first value without those within it, and how many are within it; `None` when its own length has not come yet.
fn first(bytes: &[u8]) -> Result<Option<(usize, usize)>, ScanError> {
    let big_endian = |count: usize| {
        let number = bytes.get(1..=count)?;
        Some(number.iter().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte)))
    };
    // How many bytes tell its length, and what the length is of.
    let (count, of) = match bytes[0] {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => return Ok(Some((1, 0))),
        0xc1 => return Err(ScanError::Reserved),
        short @ 0x80..=0x8f => return Ok(Some((1, 2 * usize::from(short & 0x0f)))),
        short @ 0x90..=0x9f => return Ok(Some((1, usize::from(short & 0x0f)))),
        short @ 0xa0..=0xbf => return Ok(Some((1 + usize::from(short & 0x1f), 0))),
        0xcc | 0xd0 => return Ok(Some((2, 0))),
        0xcd | 0xd1 => return Ok(Some((3, 0))),
        0xca | 0xce | 0xd2 => return Ok(Some((5, 0))),
        0xcb | 0xcf | 0xd3 => return Ok(Some((9, 0))),
        fixed @ 0xd4..=0xd8 => return Ok(Some((2 + (1 << (fixed - 0xd4)), 0))),
        0xc4 | 0xd9 => (1, Of::Bytes),
        0xc5 | 0xda => (2, Of::Bytes),
        0xc6 | 0xdb => (4, Of::Bytes),
        0xc7 => (1, Of::TypeAndBytes),
        0xc8 => (2, Of::TypeAndBytes),
        0xc9 => (4, Of::TypeAndBytes),
        0xdc => (2, Of::Values),
        0xdd => (4, Of::Values),
        0xde => (2, Of::Pairs),
        0xdf => (4, Of::Pairs),
    };
    Ok(big_endian(count).map(|length| match of {
        Of::Bytes => (1 + count + length, 0),
        Of::TypeAndBytes => (2 + count + length, 0),
        Of::Values => (1 + count, length),
        Of::Pairs => (1 + count, 2 * length),
    }))
}

enum Of {
    Bytes,
    TypeAndBytes,
    Values,
    Pairs,
}
