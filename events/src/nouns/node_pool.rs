//! Announcements of node pools.

use songline_model::{NodePool, Str};
use songline_projections::tables;

use super::Announce;
use crate::event::Topic;
use crate::object_history::{Object, ObjectKind};
use crate::watch::WatchKey;

impl Announce for tables::NodePools {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("NodePool").and_deleted());

    fn key(row: &NodePool) -> Str {
        row.name.0.clone()
    }

    fn object(row: &NodePool) -> Option<Object> {
        Some(Object::new(ObjectKind::NodePool, &row.name))
    }

    fn written_at(row: &NodePool) -> u64 {
        row.modify_index
    }

    fn watch_keys(row: &NodePool, watch: &mut impl FnMut(WatchKey)) {
        watch(Self::named(&row.name.0));
    }
}
