//! The small values around bodies: headers of calls and the opening of streaming ones, as bytes.

use super::scan::Scan;

/// What comes before the body of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestHeader {
    /// The caller's number for it.
    pub seq: u64,
    /// `Service.Method`.
    pub method: String,
}

/// What comes before the body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseHeader {
    /// Why it failed; empty when it did not.
    pub error: String,
    /// The number of the request.
    pub seq: u64,
    /// The method of the request.
    pub method: String,
}

/// What opens a streaming call, and what answers that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamMessage {
    /// The caller wants this method.
    Method(String),
    /// The callee goes on when it is empty.
    Error(String),
}

/// What is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a header that cannot be read")]
pub struct HeaderError;

impl RequestHeader {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0x82];
        put_text(&mut bytes, "Seq");
        put_number(&mut bytes, self.seq);
        put_text(&mut bytes, "ServiceMethod");
        put_text(&mut bytes, &self.method);
        bytes
    }

    /// From bytes. Keys that are not known are skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let mut header = Self::default();
        fields(bytes, |key, value| {
            match key {
                b"Seq" => header.seq = value.number()?,
                b"ServiceMethod" => header.method = value.text()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(header)
    }
}

impl ResponseHeader {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0x83];
        put_text(&mut bytes, "Error");
        put_text(&mut bytes, &self.error);
        put_text(&mut bytes, "Seq");
        put_number(&mut bytes, self.seq);
        put_text(&mut bytes, "ServiceMethod");
        put_text(&mut bytes, &self.method);
        bytes
    }

    /// From bytes. Keys that are not known are skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let mut header = Self::default();
        fields(bytes, |key, value| {
            match key {
                b"Error" => header.error = value.text()?,
                b"Seq" => header.seq = value.number()?,
                b"ServiceMethod" => header.method = value.text()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(header)
    }
}

impl StreamMessage {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (key, text) = match self {
            Self::Method(method) => ("Method", method),
            Self::Error(error) => ("Error", error),
        };
        let mut bytes = vec![0x81];
        put_text(&mut bytes, key);
        put_text(&mut bytes, text);
        bytes
    }

    /// The method that a caller wants; empty when it names none.
    pub fn decode_method(bytes: &[u8]) -> Result<String, HeaderError> {
        Self::field(bytes, b"Method")
    }

    /// What the callee says.
    pub fn decode_error(bytes: &[u8]) -> Result<String, HeaderError> {
        Self::field(bytes, b"Error")
    }

    fn field(bytes: &[u8], wanted: &[u8]) -> Result<String, HeaderError> {
        let mut found = String::new();
        fields(bytes, |key, value| {
            if key == wanted {
                found = value.text()?;
            }
            Ok(())
        })?;
        Ok(found)
    }
}

fn put_number(into: &mut Vec<u8>, number: u64) {
    let bytes = number.to_be_bytes();
    let (tag, count) = match number {
        0..=0x7f => return into.push(bytes[7]),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        _ => (0xcf, 8),
    };
    into.push(tag);
    into.extend_from_slice(&bytes[8 - count..]);
}

fn put_text(into: &mut Vec<u8>, text: &str) {
    match text.len() {
        short @ 0..=31 => into.push(0xa0 | u8::try_from(short).expect("it is at most 31")),
        long => match u16::try_from(long) {
            Ok(long) => {
                into.push(0xda);
                into.extend_from_slice(&long.to_be_bytes());
            }
            Err(_) => {
                into.push(0xdb);
                into.extend_from_slice(&u32::try_from(long).unwrap_or(u32::MAX).to_be_bytes());
            }
        },
    }
    into.extend_from_slice(text.as_bytes());
}

/// One value of a map.
struct Value<'a>(&'a [u8]);

/// Gives every key and value of a map to `each`.
fn fields(bytes: &[u8], mut each: impl FnMut(&[u8], Value<'_>) -> Result<(), HeaderError>) -> Result<(), HeaderError> {
    let (pairs, mut rest) = match bytes {
        [0xc0] => (0, &[][..]),
        [short @ 0x80..=0x8f, rest @ ..] => (usize::from(short & 0x0f), rest),
        [0xde, a, b, rest @ ..] => (usize::from(u16::from_be_bytes([*a, *b])), rest),
        _ => return Err(HeaderError),
    };
    for _ in 0..pairs {
        let (key, after) = split(rest)?;
        let (value, after) = split(after)?;
        rest = after;
        each(Value(key).raw()?, Value(value))?;
    }
    Ok(())
}

fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), HeaderError> {
    let length = Scan::default().step(bytes, bytes.len()).ok().flatten().ok_or(HeaderError)?;
    Ok(bytes.split_at(length))
}

impl<'a> Value<'a> {
    fn raw(&self) -> Result<&'a [u8], HeaderError> {
        match self.0 {
            [0xa0..=0xbf, text @ ..] | [0xc4 | 0xd9, _, text @ ..] | [0xc5 | 0xda, _, _, text @ ..] => Ok(text),
            [0xc6 | 0xdb, _, _, _, _, text @ ..] => Ok(text),
            _ => Err(HeaderError),
        }
    }

    fn text(&self) -> Result<String, HeaderError> {
        if self.0 == [0xc0] {
            return Ok(String::new());
        }
        Ok(String::from_utf8_lossy(self.raw()?).into_owned())
    }

    fn number(&self) -> Result<u64, HeaderError> {
        match self.0 {
            [0xc0] => Ok(0),
            [small @ 0..=0x7f] => Ok(u64::from(*small)),
            // Signed ones above 127 are written by some; negative ones are no numbers of calls.
            [0xd0..=0xd3, sign, ..] if sign & 0x80 != 0 => Err(HeaderError),
            [0xcc..=0xcf | 0xd0..=0xd3, number @ ..] => Ok(number.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))),
            _ => Err(HeaderError),
        }
    }
}
