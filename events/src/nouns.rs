//! Announcements of changes: events, histories of objects, and wake-ups of blocking queries. Each noun has one file,
//! with one implementation of [`Announce`] per table. A table without an implementation does not compile.
//!
//! Uses of announcements are not here: `event` makes events, `object_history` keeps histories, `watch` wakes.

mod acl;
mod alloc;
mod autopilot;
mod csi;
mod deployment;
mod eval;
mod event_sink;
mod idempotency;
pub(crate) mod job;
mod namespace;
mod node;
mod node_pool;
mod operator;
mod periodic;
mod quota;
mod root_key;
mod scaling;
mod service_registration;
mod variable;
mod work;

use std::sync::Arc;

use serde::Serialize;
use songline_commands::Kind;
use songline_model::Str;
use songline_projections::Noun;

use crate::event::Topic;
use crate::object_history::Object;
use crate::watch::WatchKey;

/// Announcements of the changes of one table. By default a change has no event and no history, and wakes only the
/// readers that wait on the whole table.
pub(crate) trait Announce: Noun {
    /// Topic of the table's events. Derived and internal tables have none.
    const TOPIC: Option<Topic> = None;

    /// Id or name of a row: the key of its events.
    fn key(_row: &Self::Row) -> Str {
        Str::default()
    }

    /// Namespace of a row; empty for rows without one.
    fn namespace(_row: &Self::Row) -> Str {
        Str::default()
    }

    /// Further keys by which streams select events; `None` when the topic has none.
    fn filter_keys(_row: &Self::Row) -> Option<Vec<Str>> {
        None
    }

    /// The row as events and histories show it. Secrets stay out.
    fn view(row: &Self::Row) -> impl Serialize {
        row
    }

    /// The view of a deleted row in full streams, which also mark it as deleted.
    fn deleted_view(row: &Self::Row) -> impl Serialize {
        Self::view(row)
    }

    /// Number of the frame that contains the event: the reference writes some entries in several steps.
    fn step(_kind: Kind, _before: Option<&Self::Row>, _after: Option<&Self::Row>) -> u8 {
        0
    }

    /// The object whose history contains the change; `None`: the history of another object does, or none.
    fn object(_row: &Self::Row) -> Option<Object> {
        None
    }

    /// Index of an entry that wrote the row, of the last one as a rule. The object history refers to that entry's event
    /// for the row, and keeps the row itself when it does not cover the entry; so 0 is always right.
    fn written_at(_row: &Self::Row) -> u64 {
        0
    }

    /// Key of the readers that wait on the row with this name.
    fn named(name: &Str) -> WatchKey {
        WatchKey::Named(Self::TABLE, name.clone())
    }

    /// Passes the keys of the readers that wait on a row to `watch`, without the table's key. A key may be repeated.
    fn watch_keys(_row: &Self::Row, _watch: &mut impl FnMut(WatchKey)) {}

    /// Passes the keys of a change to `watch`. The rows before and after have the same keys unless the table says
    /// otherwise.
    fn changed_keys(before: Option<&Arc<Self::Row>>, after: Option<&Arc<Self::Row>>, watch: &mut impl FnMut(WatchKey)) {
        if let Some(row) = after.or(before) {
            Self::watch_keys(row, watch);
        }
    }
}

/// The text of an id.
fn text(id: impl std::fmt::Display) -> Str {
    Str::from(id.to_string())
}

/// The text of an id that may be absent; filters take an empty text for no key.
fn text_or_empty(id: Option<impl std::fmt::Display>) -> Str {
    id.map(text).unwrap_or_default()
}

/// Payload of a deleted evaluation or allocation. It is short, because thousands are deleted at once and earlier
/// events showed the rest.
#[derive(Serialize)]
struct Dropped<'a> {
    #[serde(rename = "ID")]
    id: Str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    #[serde(rename = "Namespace")]
    namespace: &'a str,
}
