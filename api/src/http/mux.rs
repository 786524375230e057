//! Router of paths to handlers with the behaviour of Go's `ServeMux`: exact patterns, subtrees, redirects, decoded
//! paths. The file of each noun has its handlers.

use std::collections::BTreeMap;

use axum::http::Method;
use axum::response::Response;
use futures_util::future::BoxFuture;

use crate::error::ApiError;
use crate::http::answered_by::AnsweredBy;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::path::{clean, escape};
use crate::http::route::Route;
use crate::http::std_params::StdParams;

/// Methods that a handler accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Methods {
    /// `GET`.
    Get,
    /// `PUT` or `POST`: the wire treats both alike.
    Write,
    /// `PUT` only.
    Put,
    /// `POST` only.
    Post,
    /// `DELETE`.
    Delete,
    /// Every method.
    Any,
}

impl Methods {
    /// Whether the set has this method.
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

    /// The set in the notation of the list of routes.
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

/// Future of a response.
pub type Answer = BoxFuture<'static, Result<Response, ApiError>>;
/// Function that answers a request.
pub type Handler<S> = fn(Call<S>) -> Answer;

/// Pattern for the rest of a path below a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The root is the whole path.
    Whole,
    /// `{}` and this suffix: everything before the suffix is the id, slashes included.
    Suffix(&'static str),
    /// This prefix and `{}`.
    Prefix(&'static str),
    /// `{}`: the whole rest is the id.
    Rest,
}

struct Arm<S> {
    shape: Shape,
    methods: Methods,
    capability: Capability,
    answered_by: AnsweredBy,
    std_params: StdParams,
    handler: Handler<S>,
    route: Route,
}

/// A route in the list of routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// Path, with `{}` for its variable part.
    pub path: String,
    /// Methods of the route.
    pub methods: Methods,
    /// Rights that the route requires.
    pub capability: Capability,
    /// Server that answers the route.
    pub answered_by: AnsweredBy,
}

/// All routes of a server.
pub struct Mux<S> {
    exact: BTreeMap<&'static str, Vec<Arm<S>>>,
    /// Ordered by length of the root, longest first.
    subtrees: Vec<(&'static str, Vec<Arm<S>>)>,
}

/// Result of routing a path.
pub enum Found<S> {
    /// A handler.
    Handler {
        /// Handler of the route.
        handler: Handler<S>,
        /// Range of the id in the decoded path.
        id: std::ops::Range<usize>,
        /// Rights that the route requires.
        capability: Capability,
        /// Server that answers the route.
        answered_by: AnsweredBy,
        /// Parameters that are checked before the handler runs.
        std_params: StdParams,
        /// Name of the route in metrics.
        route: Route,
    },
    /// The route exists, but not with this method.
    WrongMethod,
    /// Redirect to this path.
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
    /// Adds a route. A `root` without a slash at its end is an exact path and has no `tail`. With one it is a
    /// subtree, and `tail` is the pattern for the rest: `{}`, `{}/suffix` or `prefix/{}`.
    pub fn add(
        &mut self,
        methods: Methods,
        root: &'static str,
        tail: &'static str,
        capability: Capability,
        handler: Handler<S>,
    ) {
        let shape = match tail {
            "" => Shape::Whole,
            "{}" => Shape::Rest,
            _ => match (tail.strip_prefix("{}"), tail.strip_suffix("{}")) {
                (Some(suffix), _) => Shape::Suffix(suffix),
                (None, Some(prefix)) => Shape::Prefix(prefix),
                (None, None) => unreachable!("the tail of a route is one of the three forms: {tail}"),
            },
        };
        let route = Route::of(root, tail, methods.as_str());
        let (answered_by, std_params) = (AnsweredBy::of(root), StdParams::of(&route.path(), methods));
        let arm = Arm { shape, methods, capability, answered_by, std_params, handler, route };
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

    /// Routes a decoded path.
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

    /// Every route, ordered by path; routes of one path in the order in which they are tried.
    pub fn routes(&self) -> Vec<RouteInfo> {
        let mut out: Vec<RouteInfo> = Vec::new();
        let exact = self.exact.values();
        for arms in exact.chain(self.subtrees.iter().map(|(_, arms)| arms)) {
            for arm in arms {
                let path = arm.route.path();
                out.push(RouteInfo {
                    path,
                    methods: arm.methods,
                    capability: arm.capability,
                    answered_by: arm.answered_by,
                });
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

/// The first arm whose pattern matches decides; if its method does not match, later arms with the same pattern are
/// tried.
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
        Some(arm) => Found::Handler {
            handler: arm.handler,
            id: id.start + offset..id.end + offset,
            capability: arm.capability,
            answered_by: arm.answered_by,
            std_params: arm.std_params,
            route: arm.route,
        },
        None => Found::WrongMethod,
    }
}
