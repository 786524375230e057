//! What servers ask an agent about itself: its machine, its profiles, its log. Not what its node runs.

use std::collections::BTreeMap;

use bytes::Bytes;
use songline_model::Str;

/// Which profile of an agent is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AskProfile {
    /// As the path of HTTP has it: `cmdline`, `profile`, `trace`, or the name of another.
    pub name: Str,
    /// How long to look, in seconds.
    pub seconds: i64,
    /// In which form.
    pub debug: i64,
    /// Whether to collect garbage before.
    pub gc: i64,
}

/// A profile of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// Headers that HTTP answers with.
    pub headers: BTreeMap<Str, Str>,
    /// The profile itself.
    pub payload: Bytes,
}

/// Which lines of an agent's log are asked for, and how they look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AskMonitor {
    /// The lowest level; empty is `info`.
    pub level: Str,
    /// Whether lines are JSON.
    pub json: bool,
    /// Whether they say where in the program they come from.
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

    /// The name of a profile from what the wire has. `None`: there is no such type.
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
