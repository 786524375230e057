//! Parser from bytes to [`Node`]: one document, Go's syntax error texts, a bound on nesting. `de.rs` converts the
//! values to types.

use std::borrow::Cow;

use super::{Error, NESTING_DEPTH_MAX, Node};

/// Parses the first document of `body` and ignores the rest.
pub(super) fn document(body: &[u8]) -> Result<Node<'_>, Error> {
    let mut reader = Reader { body, at: 0, depth: 0 };
    reader.skip_space();
    if reader.peek().is_none() {
        return Err(Error::Eof);
    }
    reader.value()
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, Error> {
        let byte = self.peek().ok_or(Error::UnexpectedEof)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Peeks at the next byte that is not white space.
    fn peek_token(&mut self) -> Result<u8, Error> {
        self.skip_space();
        self.peek().ok_or(Error::UnexpectedEof)
    }

    fn value(&mut self) -> Result<Node<'a>, Error> {
        match self.peek_token()? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => Ok(Node::Text(self.string()?)),
            b't' => self.literal("true", Node::Bool(true)),
            b'f' => self.literal("false", Node::Bool(false)),
            b'n' => self.literal("null", Node::Null),
            b'-' | b'0'..=b'9' => self.number(),
            byte => Err(invalid(byte, "looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Node<'a>, Error>) -> Result<Node<'a>, Error> {
        self.depth += 1;
        if self.depth > NESTING_DEPTH_MAX {
            return Err(Error::Syntax("exceeded max depth".to_string()));
        }
        self.at += 1;
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn object(&mut self) -> Result<Node<'a>, Error> {
        let mut members = Vec::new();
        if self.peek_token()? == b'}' {
            self.at += 1;
            return Ok(Node::Object(members));
        }
        loop {
            match self.peek_token()? {
                b'"' => {}
                byte => return Err(invalid(byte, "looking for beginning of object key string")),
            }
            let name = self.string()?;
            match self.peek_token()? {
                b':' => self.at += 1,
                byte => return Err(invalid(byte, "after object key")),
            }
            let value = self.value()?;
            members.push((name, value));
            match self.peek_token()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(Node::Object(members));
                }
                byte => return Err(invalid(byte, "after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Node<'a>, Error> {
        let mut items = Vec::new();
        if self.peek_token()? == b']' {
            self.at += 1;
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value()?);
            match self.peek_token()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Node::Array(items));
                }
                byte => return Err(invalid(byte, "after array element")),
            }
        }
    }

    fn literal(&mut self, word: &'static str, node: Node<'a>) -> Result<Node<'a>, Error> {
        for expected in word.bytes() {
            let byte = self.next()?;
            if byte != expected {
                return Err(invalid(byte, &format!("in literal {word} (expecting {})", quote(expected))));
            }
        }
        Ok(node)
    }

    fn number(&mut self) -> Result<Node<'a>, Error> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            byte => return Err(invalid(byte, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let literal = &self.body[start..self.at];
        Ok(Node::Number(String::from_utf8_lossy(literal)))
    }

    fn digits(&mut self, place: &str) -> Result<(), Error> {
        match self.next()? {
            b'0'..=b'9' => self.skip_digits(),
            byte => return Err(invalid(byte, place)),
        }
        Ok(())
    }

    fn skip_digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    /// Parses a string, starting at its opening quote. Bytes that are not UTF-8 become U+FFFD, as in Go.
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.next()? {
                b'"' => return Ok(String::from_utf8_lossy(&self.body[start..self.at - 1])),
                b'\\' => {
                    self.at -= 1;
                    break;
                }
                byte if byte < 0x20 => return Err(invalid(byte, "in string literal")),
                _ => {}
            }
        }
        let mut text = String::from_utf8_lossy(&self.body[start..self.at]).into_owned();
        let mut run = self.at;
        loop {
            match self.next()? {
                b'"' => {
                    text.push_str(&String::from_utf8_lossy(&self.body[run..self.at - 1]));
                    return Ok(Cow::Owned(text));
                }
                b'\\' => {
                    text.push_str(&String::from_utf8_lossy(&self.body[run..self.at - 1]));
                    text.push(self.escape()?);
                    run = self.at;
                }
                byte if byte < 0x20 => return Err(invalid(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        Ok(match self.next()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hex4()?;
                self.surrogate(unit)?
            }
            byte => return Err(invalid(byte, "in string escape code")),
        })
    }

    fn hex4(&mut self) -> Result<u32, Error> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.next()?;
            let digit =
                char::from(byte).to_digit(16).ok_or_else(|| invalid(byte, "in \\u hexadecimal character escape"))?;
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }

    /// Joins a surrogate pair. Half a pair becomes U+FFFD, and the following escape is decoded separately.
    fn surrogate(&mut self, unit: u32) -> Result<char, Error> {
        if let Some(plain) = char::from_u32(unit) {
            return Ok(plain);
        }
        let is_high = (0xD800..0xDC00).contains(&unit);
        if is_high && self.body[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.hex4()?;
            if (0xDC00..0xE000).contains(&low) {
                let joined = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(joined).unwrap_or('\u{FFFD}'));
            }
            self.at = back;
        }
        Ok('\u{FFFD}')
    }
}

fn invalid(byte: u8, place: &str) -> Error {
    Error::Syntax(format!("invalid character {} {place}", quote(byte)))
}

/// Quotes a byte as Go does: a byte above ASCII is shown as the Latin-1 character of that number.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_string(),
        b'"' => "'\"'".to_string(),
        b'\\' => r"'\\'".to_string(),
        b'\n' => r"'\n'".to_string(),
        b'\r' => r"'\r'".to_string(),
        b'\t' => r"'\t'".to_string(),
        0x07 => r"'\a'".to_string(),
        0x08 => r"'\b'".to_string(),
        0x0b => r"'\v'".to_string(),
        0x0c => r"'\f'".to_string(),
        0x20..=0x7e => format!("'{}'", char::from(byte)),
        0x00..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0x9f => format!("'\\u{:04x}'", byte),
        0xa0 => r"'\u00a0'".to_string(),
        0xad => r"'\u00ad'".to_string(),
        0xa1..=0xff => format!("'{}'", char::from(byte)),
    }
}
