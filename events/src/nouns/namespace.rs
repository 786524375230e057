//! Announcements of namespaces.

use songline_model::{Namespace, Str};
use songline_projections::tables;

use super::Announce;
use crate::event::Topic;
use crate::object_history::{Object, ObjectKind};
use crate::watch::WatchKey;

impl Announce for tables::Namespaces {
    const TOPIC: Option<Topic> = Some(Topic::of_full("Namespace"));

    fn key(row: &Namespace) -> Str {
        row.name.0.clone()
    }

    fn object(row: &Namespace) -> Option<Object> {
        Some(Object::new(ObjectKind::Namespace, &row.name))
    }

    fn written_at(row: &Namespace) -> u64 {
        row.modify_index
    }

    fn watch_keys(row: &Namespace, watch: &mut impl FnMut(WatchKey)) {
        watch(Self::named(&row.name.0));
    }
}
