//! Percent-encoding of texts in URLs.

/// A text as one segment of a path, or as a value of a query.
pub(crate) fn segment(text: &str) -> String {
    encoded(text, "")
}

/// A text as several segments of a path: slashes stay.
pub(crate) fn path(text: &str) -> String {
    encoded(text, "/")
}

fn encoded(text: &str, also_plain: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || also_plain.as_bytes().contains(&byte);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_stay_in_paths_alone() {
        assert_eq!(segment("a-_.~/b c\u{e9}&"), "a-_.~%2Fb%20c%C3%A9%26");
        assert_eq!(path("a-_.~/b c\u{e9}&"), "a-_.~/b%20c%C3%A9%26");
    }
}
