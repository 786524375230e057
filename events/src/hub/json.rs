//! Msgpack to JSON, byte by byte. Events are kept as msgpack and converted for JSON subscribers only, so that the two
//! forms cannot differ. The converter knows the part of msgpack that a JSON tree needs; keys are strings.

/// Largest depth of a tree. Deeper trees are refused, because they would exhaust the stack.
const DEPTH_MAX: usize = 192;

/// Bytes that are not msgpack, or msgpack that has no JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a tree of msgpack")]
pub(super) struct NotATree;

/// Appends the JSON of one msgpack value to `out`; returns the bytes after the value.
pub(super) fn from_msgpack<'a>(msgpack: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], NotATree> {
    let mut reader = Reader { rest: msgpack, out };
    reader.value(0)?;
    Ok(reader.rest)
}

struct Reader<'a, 'o> {
    rest: &'a [u8],
    out: &'o mut Vec<u8>,
}

impl<'a> Reader<'a, '_> {
    fn value(&mut self, depth: usize) -> Result<(), NotATree> {
        let marker = self.bytes::<1>()?[0];
        match marker {
            0x00..=0x7f => self.unsigned(u64::from(marker)),
            0x80..=0x8f => self.map(usize::from(marker & 0x0f), depth)?,
            0x90..=0x9f => self.list(usize::from(marker & 0x0f), depth)?,
            0xa0..=0xbf => self.text(usize::from(marker & 0x1f))?,
            0xc0 => self.out.extend_from_slice(b"null"),
            0xc2 => self.out.extend_from_slice(b"false"),
            0xc3 => self.out.extend_from_slice(b"true"),
            0xca => {
                let value = f32::from_be_bytes(self.bytes()?);
                self.json(&value)?;
            }
            0xcb => {
                let value = f64::from_be_bytes(self.bytes()?);
                self.json(&value)?;
            }
            0xcc => {
                let value = u64::from(self.bytes::<1>()?[0]);
                self.unsigned(value);
            }
            0xcd => {
                let value = u64::from(u16::from_be_bytes(self.bytes()?));
                self.unsigned(value);
            }
            0xce => {
                let value = u64::from(u32::from_be_bytes(self.bytes()?));
                self.unsigned(value);
            }
            0xcf => {
                let value = u64::from_be_bytes(self.bytes()?);
                self.unsigned(value);
            }
            0xd0 => {
                let value = i64::from(i8::from_be_bytes(self.bytes()?));
                self.json(&value)?;
            }
            0xd1 => {
                let value = i64::from(i16::from_be_bytes(self.bytes()?));
                self.json(&value)?;
            }
            0xd2 => {
                let value = i64::from(i32::from_be_bytes(self.bytes()?));
                self.json(&value)?;
            }
            0xd3 => {
                let value = i64::from_be_bytes(self.bytes()?);
                self.json(&value)?;
            }
            0xd9 => {
                let length = usize::from(self.bytes::<1>()?[0]);
                self.text(length)?;
            }
            0xda => {
                let length = usize::from(u16::from_be_bytes(self.bytes()?));
                self.text(length)?;
            }
            0xdb => {
                let length = self.length()?;
                self.text(length)?;
            }
            0xdc => {
                let length = usize::from(u16::from_be_bytes(self.bytes()?));
                self.list(length, depth)?;
            }
            0xdd => {
                let length = self.length()?;
                self.list(length, depth)?;
            }
            0xde => {
                let length = usize::from(u16::from_be_bytes(self.bytes()?));
                self.map(length, depth)?;
            }
            0xdf => {
                let length = self.length()?;
                self.map(length, depth)?;
            }
            0xe0..=0xff => self.json(&i64::from(i8::from_be_bytes([marker])))?,
            // Bytes, extensions and the marker that msgpack never uses: no event has them.
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(NotATree),
        }
        Ok(())
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<(), NotATree> {
        if depth == DEPTH_MAX {
            return Err(NotATree);
        }
        self.out.push(b'{');
        for i in 0..length {
            if i > 0 {
                self.out.push(b',');
            }
            if !matches!(self.rest.first(), Some(0xa0..=0xbf | 0xd9..=0xdb)) {
                return Err(NotATree);
            }
            self.value(depth + 1)?;
            self.out.push(b':');
            self.value(depth + 1)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn list(&mut self, length: usize, depth: usize) -> Result<(), NotATree> {
        if depth == DEPTH_MAX {
            return Err(NotATree);
        }
        self.out.push(b'[');
        for i in 0..length {
            if i > 0 {
                self.out.push(b',');
            }
            self.value(depth + 1)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn text(&mut self, length: usize) -> Result<(), NotATree> {
        let (text, rest) = self.rest.split_at_checked(length).ok_or(NotATree)?;
        self.rest = rest;
        let text = std::str::from_utf8(text).map_err(|_| NotATree)?;
        if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            self.out.push(b'"');
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'"');
            return Ok(());
        }
        self.json(text)
    }

    fn unsigned(&mut self, value: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = value;
        loop {
            at -= 1;
            // The remainder of ten is below 256.
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&digits[at..]);
    }

    fn json<T: serde::Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotATree> {
        serde_json::to_writer(&mut *self.out, value).map_err(|_| NotATree)
    }

    fn length(&mut self) -> Result<usize, NotATree> {
        usize::try_from(u32::from_be_bytes(self.bytes()?)).map_err(|_| NotATree)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], NotATree> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(NotATree)?;
        self.rest = rest;
        Ok(*bytes)
    }
}
