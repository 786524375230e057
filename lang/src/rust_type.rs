//! Parsing of compiler-generated type names. Used for error texts and to distinguish a nil map from a nil pointer,
//! never for stored data.

/// Splits `a::B<C>` into `a::B` and `C`.
pub(crate) fn split(rust: &str) -> (&str, &str) {
    match rust.split_once('<') {
        Some((head, rest)) => (head, rest.strip_suffix('>').unwrap_or(rest)),
        None => (rust, ""),
    }
}

/// Reduces `a::B<C>` to `B`.
pub(crate) fn last_word(rust: &str) -> &str {
    let (head, _) = split(rust);
    head.rsplit("::").next().unwrap_or(head)
}

/// The inner type of `Option<T>` and of other wrappers that do not appear on the wire.
pub(crate) fn pointee(rust: &str) -> Option<&str> {
    if let Some(inner) = rust.strip_prefix('&') {
        return Some(inner);
    }
    match last_word(rust) {
        "Option" | "Arc" | "Box" | "Cow" => Some(split(rust).1),
        _ => None,
    }
}
