//! Taking apart the names that the compiler gives to types. Used for error texts and to tell a nil map
//! from a nil pointer, never for what is stored.

/// `a::B<C>` to `a::B` and `C`.
pub(crate) fn split(rust: &str) -> (&str, &str) {
    match rust.split_once('<') {
        Some((head, rest)) => (head, rest.strip_suffix('>').unwrap_or(rest)),
        None => (rust, ""),
    }
}

/// `a::B<C>` to `B`.
pub(crate) fn last_word(rust: &str) -> &str {
    let (head, _) = split(rust);
    head.rsplit("::").next().unwrap_or(head)
}

/// What `Option<T>` and the other wrappers without a meaning on the wire wrap.
pub(crate) fn pointee(rust: &str) -> Option<&str> {
    if let Some(inner) = rust.strip_prefix('&') {
        return Some(inner);
    }
    match last_word(rust) {
        "Option" | "Arc" | "Box" | "Cow" => Some(split(rust).1),
        _ => None,
    }
}
