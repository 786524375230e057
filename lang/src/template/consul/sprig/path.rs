//! Paths and URLs as texts.

use super::{Called, Plain, arg};
use crate::template::value::{bytes_of_text, text_of_bytes};
use crate::template::{Type, Value, format, literal};

pub(super) const PLAIN: &[Plain] = &[
    ("base", &[Type::Text], None, |args| Ok(Value::text(base(arg(args, 0))))),
    ("clean", &[Type::Text], None, |args| Ok(Value::text(clean(arg(args, 0))))),
    ("dir", &[Type::Text], None, |args| Ok(Value::text(dir(arg(args, 0))))),
    ("ext", &[Type::Text], None, |args| Ok(Value::text(ext(arg(args, 0))))),
    ("isAbs", &[Type::Text], None, |args| Ok(Value::Bool(arg(args, 0).starts_with('/')))),
    ("osBase", &[Type::Text], None, |args| Ok(Value::text(base(arg(args, 0))))),
    ("osClean", &[Type::Text], None, |args| Ok(Value::text(clean(arg(args, 0))))),
    ("osDir", &[Type::Text], None, |args| Ok(Value::text(dir(arg(args, 0))))),
    ("osExt", &[Type::Text], None, |args| Ok(Value::text(ext(arg(args, 0))))),
    ("osIsAbs", &[Type::Text], None, |args| Ok(Value::Bool(arg(args, 0).starts_with('/')))),
    ("urlJoin", &[Type::Map], None, url_join),
    ("urlParse", &[Type::Text], None, url_parse),
];

fn base(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" if path.is_empty() => ".",
        "" => "/",
        path => path.rsplit('/').next().unwrap_or(path),
    }
}

fn dir(path: &str) -> String {
    clean(path.rfind('/').map_or("", |at| &path[..=at]))
}

fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').map_or("", |at| &name[at..])
}

/// The shortest path that means the same.
fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    match (is_absolute, parts.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".to_owned(),
        (false, path) => path,
    }
}

/// Parts of a URL, without escapes in host, path and fragment.
#[derive(Debug, Default)]
struct Url {
    scheme: String,
    opaque: String,
    userinfo: String,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

fn url_parse(args: &[Value]) -> Called {
    let text = arg(args, 0);
    let url =
        Url::parse(text).map_err(|error| format!("unable to parse url: parse {}: {error}", literal::quoted(text)))?;
    let hostname = url.hostname().to_owned();
    let parts = [
        ("fragment", url.fragment),
        ("host", url.host),
        ("hostname", hostname),
        ("opaque", url.opaque),
        ("path", url.path),
        ("query", url.query),
        ("scheme", url.scheme),
        ("userinfo", url.userinfo),
    ];
    Ok(Value::map(parts.into_iter().map(|(name, part)| (name.into(), Value::text(part))).collect()))
}

fn url_join(args: &[Value]) -> Called {
    let part = |name: &str| match args[0].plain() {
        Value::Map(map) => match map.items.get(name) {
            Some(value @ Value::Text(_)) => Ok(format::plain(value)),
            Some(other) => {
                Err(format!("unable to parse {name} key, must be of type string, but {} found", super::type_of(other)))
            }
            None => Ok(String::new()),
        },
        _ => Ok(String::new()),
    };
    let url = Url {
        scheme: part("scheme")?,
        opaque: part("opaque")?,
        userinfo: part("userinfo")?,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        fragment: part("fragment")?,
    };
    Ok(Value::text(url.text()))
}

impl Url {
    fn parse(text: &str) -> Result<Self, String> {
        if text.contains(|letter: char| letter.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self { fragment: unescaped(fragment)?, ..Self::default() };
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query.to_owned();
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let mut path = rest;
        if (!url.scheme.is_empty() || !rest.starts_with("///"))
            && let Some(after) = rest.strip_prefix("//")
        {
            let (authority, below) = after.split_at(after.find('/').unwrap_or(after.len()));
            path = below;
            let host = match authority.rsplit_once('@') {
                Some((user, host)) => {
                    url.userinfo = user.to_owned();
                    host
                }
                None => authority,
            };
            url.host = checked_host(host)?;
        }
        url.path = unescaped(path)?;
        Ok(url)
    }

    /// The host without its port and without the brackets of an address of version 6.
    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((address, _)) => address,
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if self.opaque.is_empty() {
            let has_authority = !self.host.is_empty() || !self.userinfo.is_empty();
            if has_authority || !self.scheme.is_empty() && !self.path.is_empty() {
                out.push_str("//");
            }
            if !self.userinfo.is_empty() {
                out.push_str(&self.userinfo);
                out.push('@');
            }
            out.push_str(&self.host);
            if !self.path.is_empty() && !self.path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            // Otherwise the colon would end a scheme.
            if out.is_empty() && self.path.split('/').next().is_some_and(|first| first.contains(':')) {
                out.push_str("./");
            }
            escape(&mut out, &self.path, b"$&+,/:;=@");
        } else {
            out.push_str(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            escape(&mut out, &self.fragment, b"$&+,/:;=?@!()*");
        }
        out
    }
}

/// The scheme, which may be empty, and what follows its colon.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
    match text.find(|letter: char| !is_part(letter)) {
        Some(0) if text.starts_with(':') => Err("missing protocol scheme".to_owned()),
        Some(at) if text[at..].starts_with(':') && text.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            Ok((&text[..at], &text[at + 1..]))
        }
        Some(_) | None => Ok(("", text)),
    }
}

fn checked_host(host: &str) -> Result<String, String> {
    if let Some(odd) =
        host.chars().find(|letter| matches!(letter, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        return Err(format!("invalid character {} in host name", literal::quoted(&odd.to_string())));
    }
    let port = match host.rsplit_once(']') {
        Some((_, after)) => after,
        None => host.find(':').map_or("", |at| &host[at..]),
    };
    let digits = port.strip_prefix(':').unwrap_or_default();
    if !port.is_empty() && (!port.starts_with(':') || !digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!("invalid port {} after host", literal::quoted(port)));
    }
    unescaped(host)
}

/// A text without its `%XX`.
fn unescaped(text: &str) -> Result<String, String> {
    let bytes = bytes_of_text(text);
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte =
            digits.filter(|digits| !digits.starts_with('+')).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte else {
            let shown = text_of_bytes(&bytes[at..bytes.len().min(at + 3)]);
            return Err(format!("invalid URL escape {}", literal::quoted(&shown)));
        };
        out.push(byte);
        at += 3;
    }
    Ok(text_of_bytes(&out))
}

/// Writes a text with `%XX` for what is neither a letter nor a digit nor one of `kept`.
fn escape(out: &mut String, text: &str, kept: &[u8]) {
    for byte in bytes_of_text(text) {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}
