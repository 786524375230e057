//! Texts in Go's double quotes, as error texts of the reference have them.

/// A text in Go's double quotes, as `strconv.Quote` makes it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..' ' | '\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(letter))),
            ' '..'\u{7f}' => out.push(letter),
            _ if is_printable(letter) => out.push(letter),
            '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    out.push('"');
    out
}

/// Whether a letter outside ASCII has a visible form.
fn is_printable(letter: char) -> bool {
    let mut buffer = [0; 5];
    buffer[0] = b'a';
    let bytes = 1 + letter.encode_utf8(&mut buffer[1..]).len();
    // Rust escapes combining marks at the start of a text only; Go never does.
    let text = std::str::from_utf8(&buffer[..bytes]).unwrap_or_default();
    text.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        for (text, quoted) in [
            ("a b", r#""a b""#),
            ("\"'\\", r#""\"'\\""#),
            ("\u{1}\u{7}\n\u{7f}", r#""\x01\a\n\x7f""#),
            ("\u{85}\u{a0}\u{feff}\u{e0001}", r#""\u0085\u00a0\ufeff\U000e0001""#),
            ("\u{e4}\u{301}\u{1f600}", "\"\u{e4}\u{301}\u{1f600}\""),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }
}
