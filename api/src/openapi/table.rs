//! The table of routes: parameters and shapes of bodies, which the router does not know. Parsed from `reference.txt`
//! and `ours.txt`.

use axum::http::Method;

use super::shape::{NotationError, Shape};

/// Set of shared parameters that a route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Std {
    /// Parameters of reads.
    Read,
    /// Parameters of writes.
    Write,
    /// No shared parameters.
    None,
}

/// A query parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name of the parameter.
    pub name: String,
    /// Shape of its value.
    pub shape: Shape,
    /// Whether the parameter is required.
    pub required: bool,
    /// Whether the parameter may be repeated.
    pub repeated: bool,
}

/// Successful answer of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// JSON of this shape.
    Json(Shape),
    /// Empty body.
    Empty,
    /// Always this status.
    Status(u16),
    /// Raw bytes.
    Bytes,
    /// Concatenated JSON objects, each with a piece of a file.
    Frames,
    /// JSON objects, one per line.
    Events,
    /// Upgrade to a websocket.
    Websocket,
}

/// Request body of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// No body.
    Nothing,
    /// JSON of this shape; `false`: the body is optional.
    Json(Shape, bool),
    /// Raw bytes.
    Bytes,
}

/// One row: a route with some of its methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Methods; empty for any.
    pub methods: Vec<Method>,
    /// Path with `{names}`.
    pub path: String,
    /// Set of shared parameters.
    pub std: Std,
    /// Flags of the route, as letters: `B`locks, `P`ages, `F`ilters, prefi`X`, `R`everse.
    pub flags: String,
    /// The route's own query parameters.
    pub query: Vec<Param>,
    /// Request body.
    pub sent: Sent,
    /// Answer.
    pub reply: Reply,
}

/// All rows, and the patterns that only refuse.
#[derive(Debug, Default)]
pub struct Table {
    /// Rows in the order of the files.
    pub rows: Vec<Row>,
    /// Methods and pattern of the refusing routes, in the notation of the list of routes.
    pub refusals: Vec<String>,
}

impl Table {
    /// Parses both files.
    pub fn parse(reference: &str, ours: &str) -> Result<Self, NotationError> {
        let mut out = Table::default();
        for line in reference.lines().chain(ours.lines()).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [methods, path, "refuses"] => out.refusals.push(format!("{path} {methods}")),
                [methods, path, std, flags, query, sent, "->", reply] => {
                    let row = row(methods, path, std, flags, query, sent, reply)?;
                    match out.rows.iter_mut().find(|known| known.path == row.path && known.methods == row.methods) {
                        Some(known) => {
                            known.query.extend(row.query);
                            known.reply = row.reply;
                        }
                        None => out.rows.push(row),
                    }
                }
                _ => return Err(NotationError::of_row(line)),
            }
        }
        Ok(out)
    }

    /// Rows of a route of the router. Its pattern has `{}` for names, and may end in a further `{}`.
    pub fn of<'t>(&'t self, pattern: &str) -> impl Iterator<Item = &'t Row> {
        let exact = self.rows.iter().any(|row| unnamed(&row.path) == pattern);
        // `configuration{}` in the router matches `configuration` and everything after it; an id may have two path
        // segments.
        let others = if exact { None } else { pattern.strip_suffix("{}").map(str::to_owned) };
        let (pattern, two_parts) = (pattern.to_owned(), format!("{pattern}/{{}}"));
        self.rows.iter().filter(move |row| {
            let path = unnamed(&row.path);
            path == pattern || (pattern.ends_with("/{}") && path == two_parts) || others.as_deref() == Some(&*path)
        })
    }
}

/// The path with `{}` in place of each `{name}`.
pub fn unnamed(path: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for letter in path.chars() {
        match letter {
            '{' => {
                inside = true;
                out.push_str("{}");
            }
            '}' => inside = false,
            _ if inside => {}
            other => out.push(other),
        }
    }
    out
}

/// Names in a path, in order.
pub fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

fn row(
    methods: &str,
    path: &str,
    std: &str,
    flags: &str,
    query: &str,
    sent: &str,
    reply: &str,
) -> Result<Row, NotationError> {
    let method = |word: &str| Method::from_bytes(word.as_bytes()).map_err(|_| NotationError::of_row(word));
    let methods = if methods == "*" { Vec::new() } else { methods.split(',').map(method).collect::<Result<_, _>>()? };
    let std = match std {
        "read" => Std::Read,
        "write" => Std::Write,
        "none" => Std::None,
        other => return Err(NotationError::of_row(other)),
    };
    let query = if query == "-" { Vec::new() } else { query.split(',').map(param).collect::<Result<_, _>>()? };
    let sent = match (sent, sent.strip_suffix('?')) {
        ("-", _) => Sent::Nothing,
        ("bytes", _) => Sent::Bytes,
        (_, Some(optional)) => Sent::Json(as_sent(Shape::parse(optional)?), false),
        (shape, None) => Sent::Json(as_sent(Shape::parse(shape)?), true),
    };
    let reply = match reply {
        "-" => Reply::Empty,
        "bytes" => Reply::Bytes,
        "frames" => Reply::Frames,
        "events" => Reply::Events,
        "websocket" => Reply::Websocket,
        shape => match shape.parse() {
            Ok(status) => Reply::Status(status),
            Err(_) => Reply::Json(Shape::parse(shape)?),
        },
    };
    Ok(Row { methods, path: path.to_owned(), std, flags: flags.trim_matches('-').to_owned(), query, sent, reply })
}

fn as_sent(shape: Shape) -> Shape {
    match shape {
        Shape::Named(name, _) => Shape::Named(name, true),
        other => other,
    }
}

fn param(text: &str) -> Result<Param, NotationError> {
    let (name, shape) = text.split_once(':').unwrap_or((text, "str"));
    let (name, required) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
    let (name, repeated) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
    Ok(Param { name: name.to_owned(), shape: Shape::parse(shape)?, required, repeated })
}
