//! Questions to Consul: read from the arguments of a function, and written as the reference names them.

use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Filters of a service's instances by their status.
const FILTERS: &[&str] = &["any", "passing", "warning", "critical", "maintenance"];
/// Filter without one.
const PASSING: &str = "passing";

/// A question to Consul.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsulQuestion {
    /// The value of a key. With `must_exist` there is no answer before the key exists.
    Key {
        /// Path of the key.
        key: String,
        /// Part of Consul.
        place: Place,
        /// Whether an absent key is waited for.
        must_exist: bool,
    },
    /// Whether a key exists.
    KeyExists {
        /// Path of the key.
        key: String,
        /// Part of Consul.
        place: Place,
    },
    /// Keys whose paths have this prefix.
    Keys {
        /// The prefix.
        prefix: String,
        /// Part of Consul.
        place: Place,
    },
    /// Instances of a service with the status of their checks.
    Health {
        /// Name of the service.
        name: String,
        /// Tag of the instances; empty for all.
        tag: String,
        /// Part of Consul.
        place: Place,
        /// Accepted statuses, sorted.
        filters: Vec<String>,
        /// Whether they are those that the service mesh can reach.
        connect: bool,
    },
    /// Names and tags of all services.
    Services {
        /// Part of Consul.
        place: Place,
    },
    /// A node with its services. Without a name the node of the asked agent.
    Node {
        /// Name of the node.
        name: String,
        /// Part of Consul.
        place: Place,
    },
    /// All nodes.
    Nodes {
        /// Part of Consul.
        place: Place,
    },
    /// Names of all datacenters.
    Datacenters {
        /// Whether datacenters that cannot be reached are left out.
        reachable: bool,
    },
    /// A question of the service mesh, by the reference's name.
    Mesh(String),
}

/// The part of Consul that a question is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name of the datacenter; empty for the asked agent's.
    pub datacenter: String,
    /// Further parameters, as in a query: `ns=..`, `peer=..`, `partition=..`.
    pub params: String,
    /// Node from which the result is sorted by distance; empty for no order of that kind.
    pub near: String,
}

/// The regular expressions of the arguments. They are those of the reference.
struct Forms {
    key: Regex,
    health: Regex,
    place: Regex,
    node: Regex,
}

static FORMS: LazyLock<Forms> = LazyLock::new(|| {
    const PARAMS: &str = r"(\?(?<params>[0-9A-Za-z_\-=&]+))?";
    const DATACENTER: &str = r"(@(?<datacenter>[0-9A-Za-z_.\-]+))?";
    const NEAR: &str = r"(~(?<near>[0-9A-Za-z_.\-]+))?";
    let form = |first: &str, last: &str| {
        Regex::new(&format!(r"\A{first}{PARAMS}{DATACENTER}{last}\z")).expect("a fixed expression that tests compile")
    };
    Forms {
        key: form("/?(?<name>[^@?]+)", ""),
        health: form(
            r"((?<tag>[0-9A-Za-z_=:.\-]+)\.)?(?<name>[0-9A-Za-z_\-]+)",
            &format!(r"{NEAR}(\|(?<filter>[0-9A-Za-z_,]+))?"),
        ),
        place: form("", NEAR),
        node: form(r"(?<name>[0-9A-Za-z_.\-]+)", ""),
    }
});

impl ConsulQuestion {
    /// The value of `key` or, without `must_exist`, of `keyOrDefault`: `PATH@DATACENTER`.
    pub(super) fn key(text: &str, must_exist: bool) -> Result<Self, String> {
        let found = captured(&FORMS.key, "kv.get", text)?;
        Ok(Self::Key { key: part(&found, "name"), place: Place::of(&found), must_exist })
    }

    /// The question of `keyExists`.
    pub(super) fn key_exists(text: &str) -> Result<Self, String> {
        let found = captured(&FORMS.key, "kv.exists", text)?;
        Ok(Self::KeyExists { key: part(&found, "name"), place: Place::of(&found) })
    }

    /// The question of `ls` and `tree`.
    pub(super) fn keys(text: &str) -> Result<Self, String> {
        let found = captured(&FORMS.key, "kv.list", text)?;
        Ok(Self::Keys { prefix: part(&found, "name"), place: Place::of(&found) })
    }

    /// The question of `service` and, with `connect`, of `connect`: `TAG.NAME@DATACENTER~NEAR|FILTER,..`.
    pub(super) fn health(text: &str, connect: bool) -> Result<Self, String> {
        let of = if connect { "health.connect" } else { "health.service" };
        let found = captured(&FORMS.health, of, text)?;
        let filter = part(&found, "filter");
        let mut filters: Vec<String> = filter.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        if let Some(unknown) = filters.iter().find(|filter| !FILTERS.contains(&filter.as_str())) {
            return Err(format!("{of}: invalid filter: {unknown:?} in {text:?}"));
        }
        filters.sort();
        if filters.is_empty() {
            filters.push(PASSING.to_owned());
        }
        Ok(Self::Health {
            name: part(&found, "name"),
            tag: part(&found, "tag"),
            place: Place::of(&found),
            filters,
            connect,
        })
    }

    /// The question of `services`: `@DATACENTER`.
    pub(super) fn services(text: &str) -> Result<Self, String> {
        let place = Place::of(&captured(&FORMS.place, "catalog.services", text)?);
        if !place.near.is_empty() {
            return Err(format!("catalog.services: invalid format: {text:?}"));
        }
        Ok(Self::Services { place })
    }

    /// The question of `node`: `NAME@DATACENTER`.
    pub(super) fn node(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::Node { name: String::new(), place: Place::default() });
        }
        let found = captured(&FORMS.node, "catalog.node", text)?;
        Ok(Self::Node { name: part(&found, "name"), place: Place::of(&found) })
    }

    /// The question of `nodes`: `@DATACENTER~NEAR`.
    pub(super) fn nodes(text: &str) -> Result<Self, String> {
        Ok(Self::Nodes { place: Place::of(&captured(&FORMS.place, "catalog.nodes", text)?) })
    }
}

impl Place {
    fn of(found: &Captures<'_>) -> Self {
        Self { datacenter: part(found, "datacenter"), params: part(found, "params"), near: part(found, "near") }
    }
}

fn captured<'t>(form: &Regex, of: &str, text: &'t str) -> Result<Captures<'t>, String> {
    form.captures(text).ok_or_else(|| format!("{of}: invalid format: {text:?}"))
}

/// A part of an argument; empty if it is absent.
fn part(found: &Captures<'_>, name: &str) -> String {
    found.name(name).map(|part| part.as_str().to_owned()).unwrap_or_default()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (mark, part) in [('?', &self.params), ('@', &self.datacenter), ('~', &self.near)] {
            if !part.is_empty() {
                write!(f, "{mark}{part}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ConsulQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = |of: &str, what: String| {
            if what.is_empty() { f.write_str(of) } else { write!(f, "{of}({what})") }
        };
        match self {
            Self::Key { key, place, must_exist: true } => named("kv.block", format!("{key}{place}")),
            Self::Key { key, place, must_exist: false } => named("kv.get", format!("{key}{place}")),
            Self::KeyExists { key, place } => named("kv.exists", format!("{key}{place}")),
            Self::Keys { prefix, place } => named("kv.list", format!("{prefix}{place}")),
            Self::Health { name, tag, place, filters, connect } => {
                let of = if *connect { "health.connect" } else { "health.service" };
                let tag = if tag.is_empty() { String::new() } else { format!("{tag}.") };
                named(of, format!("{tag}{name}{place}|{}", filters.join(",")))
            }
            Self::Services { place } => named("catalog.services", place.to_string()),
            Self::Node { name, place } => named("catalog.node", format!("{name}{place}")),
            Self::Nodes { place } => named("catalog.nodes", place.to_string()),
            Self::Datacenters { .. } => named("catalog.datacenters", String::new()),
            Self::Mesh(name) => f.write_str(name),
        }
    }
}
