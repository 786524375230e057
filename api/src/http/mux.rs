//! Which handler a path belongs to, with the manners of Go's `ServeMux`: exact patterns, subtrees, redirects, decoded paths.
//! What a handler does is in the noun's file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use axum::http::Method;
use axum::response::Response;
use futures_util::future::BoxFuture;

use crate::error::ApiError;
use crate::http::call::Call;

/// What a request may do. Data for the gate that checks tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Anybody.
    Anyone,
    /// Whatever each row's own rule says: the answer is filtered.
    Filtered,
    /// A capability in the request's namespace.
    Namespace(&'static str),
    /// Of nodes: `read` or `write`.
    Node(&'static str),
    /// Of node pools: `read`, `write` or `delete`.
    NodePool(&'static str),
    /// Of CSI plugins: `read` or `list`.
    Plugin(&'static str),
    /// Of agents: `read` or `write`.
    Agent(&'static str),
    /// Of operators: `read` or `write`.
    Operator(&'static str),
    /// Of variables, by path: `list`, `read`, `write` or `destroy`.
    Variables(&'static str),
    /// What the topics asked for need.
    Topics,
    /// A management token.
    Management,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Capability::Anyone => f.write_str("anyone"),
            Capability::Filtered => f.write_str("filtered"),
            Capability::Namespace(word) => write!(f, "ns:{word}"),
            Capability::Node(word) => write!(f, "node:{word}"),
            Capability::NodePool(word) => write!(f, "node_pool:{word}"),
            Capability::Plugin(word) => write!(f, "plugin:{word}"),
            Capability::Agent(word) => write!(f, "agent:{word}"),
            Capability::Operator(word) => write!(f, "operator:{word}"),
            Capability::Variables(word) => write!(f, "variables:{word}"),
            Capability::Topics => f.write_str("topics"),
            Capability::Management => f.write_str("management"),
        }
    }
}

/// Which methods a handler takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Methods {
    /// `GET`.
    Get,
    /// `PUT` or `POST`: the wire makes no difference.
    Write,
    /// `PUT` only.
    Put,
    /// `POST` only.
    Post,
    /// `DELETE`.
    Delete,
    /// Any word at all.
    Any,
}

impl Methods {
    /// Whether a method is one of these.
    pub fn takes(self, method: &Method) -> bool {
        match self {
            Methods::Get => method == Method::GET,
            Methods::Write => method == Method::PUT || method == Method::POST,
            Methods::Put => method == Method::PUT,
            Methods::Post => method == Method::POST,
            Methods::Delete => method == Method::DELETE,
            Methods::Any => true,
        }
    }

    /// As the list of routes has them.
    pub fn as_str(self) -> &'static str {
        match self {
            Methods::Get => "GET",
            Methods::Write => "PUT,POST",
            Methods::Put => "PUT",
            Methods::Post => "POST",
            Methods::Delete => "DELETE",
            Methods::Any => "*",
        }
    }
}

/// A request's answer, some time.
pub type Answer = BoxFuture<'static, Result<Response, ApiError>>;
/// What answers a request.
pub type Handler<S> = fn(Call<S>) -> Answer;

/// How the rest of a path below a pattern is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The pattern is the whole path.
    Whole,
    /// `{}` and this: all before the suffix is the id, slashes included.
    Suffix(&'static str),
    /// This and `{}`.
    Prefix(&'static str),
    /// `{}`.
    Rest,
}

struct Arm<S> {
    shape: Shape,
    methods: Methods,
    capability: Capability,
    handler: Handler<S>,
}

/// A route, for those who list them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// Its path, with `{}` for what is read out of it.
    pub path: String,
    /// Its methods.
    pub methods: Methods,
    /// What a caller needs.
    pub capability: Capability,
}

/// All routes of a server.
pub struct Mux<S> {
    exact: BTreeMap<&'static str, Vec<Arm<S>>>,
    /// By length, longest first.
    subtrees: Vec<(&'static str, Vec<Arm<S>>)>,
}

/// What a path leads to.
pub enum Found<S> {
    /// This handler; the range of the decoded path is the id in it.
    Handler {
        /// What answers.
        handler: Handler<S>,
        /// Where the id is.
        id: std::ops::Range<usize>,
    },
    /// The route exists, the method does not.
    WrongMethod,
    /// Go there instead.
    Redirect(String),
    /// No route.
    Nothing,
}

impl<S> Default for Mux<S> {
    fn default() -> Self {
        Self { exact: BTreeMap::new(), subtrees: Vec::new() }
    }
}

impl<S> Mux<S> {
    /// Adds a route: `root` without a slash at its end is exact and has no `tail`, with one it is a subtree whose rest is read as `tail`:
    /// `{}`, `{}/suffix` or `prefix/{}`.
    pub fn add(&mut self, methods: Methods, root: &'static str, tail: &'static str, capability: Capability, handler: Handler<S>) {
        let shape = match tail {
            "" => Shape::Whole,
            "{}" => Shape::Rest,
            _ => match (tail.strip_prefix("{}"), tail.strip_suffix("{}")) {
                (Some(suffix), _) => Shape::Suffix(suffix),
                (None, Some(prefix)) => Shape::Prefix(prefix),
                (None, None) => unreachable!("the tail of a route is one of the three forms: {tail}"),
            },
        };
        let arm = Arm { shape, methods, capability, handler };
        if !root.ends_with('/') {
            self.exact.entry(root).or_default().push(arm);
            return;
        }
        match self.subtrees.iter_mut().find(|(pattern, _)| *pattern == root) {
            Some((_, arms)) => arms.push(arm),
            None => {
                self.subtrees.push((root, vec![arm]));
                self.subtrees.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
            }
        }
    }

    /// Where a decoded path leads.
    pub fn find(&self, method: &Method, path: &str, query: &str) -> Found<S> {
        if let Some(arms) = self.exact.get(path) {
            return pick(arms, method, "", path.len());
        }
        let with_query = |path: &str| if query.is_empty() { escape(path) } else { format!("{}?{query}", escape(path)) };
        let clean = clean(path);
        if !clean.ends_with('/') && !self.exact.contains_key(&*clean) {
            let slashed = format!("{clean}/");
            if self.subtrees.iter().any(|(root, _)| **root == slashed) {
                return Found::Redirect(with_query(&slashed));
            }
        }
        if clean != path {
            return Found::Redirect(with_query(&clean));
        }
        match self.subtrees.iter().find_map(|(root, arms)| Some((*root, arms, path.strip_prefix(root)?))) {
            Some((root, arms, rest)) => pick(arms, method, rest, root.len()),
            None => Found::Nothing,
        }
    }

    /// Every route, in the order of their paths; of one path in the order in which they are tried.
    pub fn routes(&self) -> Vec<RouteInfo> {
        let mut out: Vec<RouteInfo> = Vec::new();
        let exact = self.exact.iter().map(|(root, arms)| (*root, arms));
        for (root, arms) in exact.chain(self.subtrees.iter().map(|(root, arms)| (*root, arms))) {
            for arm in arms {
                let path = match arm.shape {
                    Shape::Whole => root.to_owned(),
                    Shape::Rest => format!("{root}{{}}"),
                    Shape::Suffix(suffix) => format!("{root}{{}}{suffix}"),
                    Shape::Prefix(prefix) => format!("{root}{prefix}{{}}"),
                };
                out.push(RouteInfo { path, methods: arm.methods, capability: arm.capability });
            }
        }
        out.sort_by(|a, b| a.path.cmp(&b.path));
        out
    }

    /// One line per route: methods, path, capability.
    pub fn text(&self) -> String {
        let line = |route: RouteInfo| format!("{} {} {}\n", route.path, route.methods.as_str(), route.capability);
        let mut lines: Vec<String> = self.routes().into_iter().map(line).collect();
        lines.sort();
        lines.concat()
    }
}

/// The first arm whose shape fits decides the route; its method then has to fit, too.
fn pick<S>(arms: &[Arm<S>], method: &Method, rest: &str, offset: usize) -> Found<S> {
    let fit = |shape: Shape| match shape {
        Shape::Whole => Some(0..0),
        Shape::Suffix(suffix) => rest.ends_with(suffix).then(|| 0..rest.len() - suffix.len()),
        Shape::Prefix(prefix) => rest.starts_with(prefix).then_some(prefix.len()..rest.len()),
        Shape::Rest => Some(0..rest.len()),
    };
    let Some((shape, id)) = arms.iter().find_map(|arm| Some((arm.shape, fit(arm.shape)?))) else {
        return Found::Nothing;
    };
    match arms.iter().find(|arm| arm.shape == shape && arm.methods.takes(method)) {
        Some(arm) => Found::Handler { handler: arm.handler, id: id.start + offset..id.end + offset },
        None => Found::WrongMethod,
    }
}

/// The path without `//`, `/./` and `/../`; a slash at its end stays.
fn clean(path: &str) -> Cow<'_, str> {
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

/// A decoded path as it stands in a URL.
fn escape(path: &str) -> String {
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

/// Decodes the `%` escapes of a path; `None` when one is broken. What is not UTF-8 is replaced.
pub fn unescape(path: &str) -> Option<Cow<'_, str>> {
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
    Some(Cow::Owned(String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())))
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}
