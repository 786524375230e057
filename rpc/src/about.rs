//! Requests of servers about an agent itself: its machine, its profiles, its log. Requests about the node's tasks are
//! in `node`.

use std::collections::BTreeMap;

use bytes::Bytes;
use songline_model::Str;

/// Request for a profile of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AskProfile {
    /// Name of the profile as in the HTTP path: `cmdline`, `profile`, `trace`, or the name of another profile.
    pub name: Str,
    /// Time to record, in seconds.
    pub seconds: i64,
    /// Output form, as the query parameter `debug`.
    pub debug: i64,
    /// Not 0: collect garbage first.
    pub gc: i64,
}

/// A profile of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// Headers for the HTTP answer.
    pub headers: BTreeMap<Str, Str>,
    /// Content of the profile.
    pub payload: Bytes,
}

/// Request for lines of an agent's log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AskMonitor {
    /// Lowest level of the lines; empty means `info`.
    pub level: Str,
    /// Whether lines are JSON.
    pub json: bool,
    /// Whether lines name the place in the program that logged them.
    pub location: bool,
}

impl AskProfile {
    /// The type and name of the profile as the wire has them.
    pub(crate) fn on_wire(&self) -> (Str, Str) {
        match self.name.as_str() {
            "" | "cmdline" => (Str::new_static("cmdline"), Str::default()),
            "profile" => (Str::new_static("cpu"), Str::default()),
            "trace" => (Str::new_static("trace"), Str::default()),
            other => (Str::new_static("lookup"), other.into()),
        }
    }

    /// Name of a profile, from its type and name on the wire. `None`: the type is unknown.
    pub fn named(req_type: &str, profile: &str) -> Option<Str> {
        match req_type {
            "cmdline" => Some(Str::new_static("cmdline")),
            "cpu" => Some(Str::new_static("profile")),
            "trace" => Some(Str::new_static("trace")),
            "lookup" => Some(profile.into()),
            _ => None,
        }
    }
}
