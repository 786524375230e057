//! A route as metrics name it. `mux` has its handler.

pub(super) mod table;

use crate::http::rate::Rate;

/// Labels of a route in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Beginning of the path.
    pub root: &'static str,
    /// Rest of the path, with `{}` for its variable part.
    pub tail: &'static str,
    /// Methods, in the notation of the list of routes.
    pub methods: &'static str,
    /// Label in the rate counters. `None`: the route is not counted.
    pub rate: Option<Rate>,
}

impl Route {
    /// The route with this path and these methods.
    pub(super) fn of(root: &'static str, tail: &'static str, methods: &'static str) -> Self {
        let found = table::MEASURED.iter().find(|row| row.0.strip_prefix(root) == Some(tail) && row.1 == methods);
        let rate = found.map(|&(_, _, endpoint, op, timer)| Rate { endpoint, op, timer });
        Self { root, tail, methods, rate }
    }

    /// The whole path.
    pub fn path(&self) -> String {
        format!("{}{}", self.root, self.tail)
    }
}
