//! The fields of an object in its JSON text, found without building a tree: most fields of two versions are equal, and
//! then their texts are, too.

use super::diff::Malformed;

/// A field: the text of its name without quotes, as JSON spells it, and the text of its value.
pub(super) type Field<'t> = (&'t str, &'t str);

/// The fields of an object in the order of the text, which is compact as `serde_json` writes it. A text that is no object
/// has none. `Err`: the text ends early.
pub(super) fn of_object(text: &str) -> Result<Vec<Field<'_>>, Malformed> {
    let mut fields = Vec::new();
    let Some(mut rest) = text.strip_prefix('{').filter(|rest| *rest != "}") else { return Ok(fields) };
    loop {
        let (name, value) = rest.split_at(value_end(rest)?);
        let value = value.strip_prefix(':').ok_or(Malformed)?;
        let (value, after) = value.split_at(value_end(value)?);
        let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).ok_or(Malformed)?;
        fields.push((name, value));
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Ok(fields),
        }
    }
}

/// Length of the value at the beginning of the text.
fn value_end(text: &str) -> Result<usize, Malformed> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_u32, 0);
    loop {
        match bytes.get(at).ok_or(Malformed)? {
            b'"' => {
                at += string_end(&bytes[at..])?;
                if depth == 0 {
                    return Ok(at);
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            // A number or a word ends where something else begins.
            b'}' | b']' | b',' | b':' if depth == 0 => return Ok(at),
            _ => {}
        }
        at += 1;
    }
}

/// Length of the quoted text at the beginning of the bytes. Most of a row's text is quoted, so that is passed over
/// many bytes at once.
fn string_end(bytes: &[u8]) -> Result<usize, Malformed> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..).ok_or(Malformed)?).ok_or(Malformed)?;
        match bytes[at] {
            b'"' => return Ok(at + 1),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_object;

    fn check(text: &str, expected: &[(&str, &str)]) {
        assert_eq!(of_object(text).unwrap(), expected, "{text}");
    }

    #[test]
    fn fields_keep_the_text_of_their_values() {
        check("{}", &[]);
        check("null", &[]);
        check(r#"{"A":1,"B":null,"C":-2.5e3}"#, &[("A", "1"), ("B", "null"), ("C", "-2.5e3")]);
        check(r#"{"A":{"B":[1,{"C":"}"}]},"D":[]}"#, &[("A", r#"{"B":[1,{"C":"}"}]}"#), ("D", "[]")]);
    }

    #[test]
    fn quotes_and_brackets_in_texts_end_nothing() {
        check(r#"{"a\"b":"c\\","d":"{[,:\""}"#, &[(r#"a\"b"#, r#""c\\""#), ("d", r#""{[,:\"""#)]);
    }

    #[test]
    fn text_that_ends_early_is_refused() {
        for text in [r#"{"A"#, r#"{"A":"#, r#"{"A":[1"#, r#"{"A":"b"#, "{1:2}"] {
            assert!(of_object(text).is_err(), "{text}");
        }
    }
}
