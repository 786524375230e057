//! Paths of requests as Go's `ServeMux` reads them: clean form, `%` escapes.

use std::borrow::Cow;

/// The path without `//`, `/./` and `/../`; a slash at its end stays.
pub(super) fn clean(path: &str) -> Cow<'_, str> {
    let plain = path.starts_with('/') && !path.contains("//") && !path.contains("/.");
    if plain {
        return Cow::Borrowed(path);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    let mut out = format!("/{}", parts.join("/"));
    if path.ends_with('/') && out.len() > 1 {
        out.push('/');
    }
    Cow::Owned(out)
}

/// Encodes a path for a URL.
pub(super) fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for &byte in path.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Decodes the `%` escapes of a path; `None` when one is malformed. Invalid UTF-8 is replaced.
pub(super) fn unescape(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (high, low) = (hex(bytes.next()?)?, hex(bytes.next()?)?);
            out.push(high << 4 | low);
        } else {
            out.push(byte);
        }
    }
    Some(Cow::Owned(
        String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    ))
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}
