//! Objects that all regions share: policies, roles, auth methods, binding rules, global tokens, namespaces, node pools
//! and quotas. They are written in the authoritative region, whose leader lists them and hands them out (`asked`). The
//! leader of each other region compares the lists with its own tables (`difference`) and writes what differs
//! (`follow`). The forwarding of writes to the authoritative region is in `api`.

mod asked;
mod difference;
mod follow;
mod kind;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use songline_model::{Secret, Str};

pub(crate) use follow::start;

use difference::Listed;
use kind::{Kind, Rows};

/// Longest wait of a question about lists, after which all lists are answered. Differences that come from this region,
/// such as those after a restored archive, are found then.
const LISTS_WAIT: Duration = Duration::from_secs(60);

/// Question to the authoritative region.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    /// A management token of the authoritative region; empty without ACLs.
    token: Secret,
    about: About,
}

/// Subject of a question.
#[derive(Debug, Serialize, Deserialize)]
enum About {
    /// Lists of the kinds that have changed after an index. Without such a kind the answer waits.
    Lists { after: BTreeMap<Kind, u64>, wait_ms: u64 },
    /// The objects with these keys. Those that do not exist any more are left out.
    Rows { kind: Kind, keys: Vec<Str> },
}

/// Answer of the authoritative region.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// Only the leader answers.
    NotLeader,
    /// All objects of some kinds.
    Lists(BTreeMap<Kind, List>),
    /// Whole objects with their secrets.
    Rows(Rows),
}

/// All objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct List {
    /// Index of the last change of the objects' table.
    index: u64,
    objects: Listed,
}
