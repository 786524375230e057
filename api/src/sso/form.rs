//! Encoding of form pairs, schemes of URLs, and comparison of redirect URLs.

/// Encodes pairs for a query string or a form.
pub(super) fn encode(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

/// Percent-encodes one text.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Scheme of a URL, empty when it has none. `None`: the URL begins with a colon.
pub(super) fn scheme(url: &str) -> Option<&str> {
    match url.find([':', '/', '?', '#']) {
        Some(0) if url.starts_with(':') => None,
        Some(at) if url[at..].starts_with(':') => Some(&url[..at]),
        Some(_) | None => Some(""),
    }
}

/// Whether two loopback URLs differ at most in the port: a command line listens on any free port.
pub(super) fn same_but_port(one: &str, other: &str) -> bool {
    match (loopback_parts(one), loopback_parts(other)) {
        (Some(one), Some(other)) => one == other,
        (_, _) => false,
    }
}

/// Scheme, host, and the part after the port, if the host is a loopback address.
fn loopback_parts(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, port)) => (port.is_empty() || is_port(port)).then_some(host)?,
        None => match authority.find(':') {
            Some(at) => is_port(&authority[at..]).then_some(&authority[..at])?,
            None => authority,
        },
    };
    matches!(host, "localhost" | "127.0.0.1" | "::1").then_some((scheme, host, path))
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()))
}
