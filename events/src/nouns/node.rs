//! Announcements of nodes.

use serde::Serialize;
use songline_model::{Node, Str};
use songline_projections::tables;
use songline_wire::node::NodeView;

use super::{Announce, text};
use crate::event::{Right, Topic};
use crate::object_history::{Object, ObjectKind};
use crate::watch::WatchKey;

impl Announce for tables::Nodes {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("Node").and_deleted().needs(Right::ReadNode));

    fn key(row: &Node) -> Str {
        text(row.id)
    }

    fn view(row: &Node) -> impl Serialize {
        NodeView::new(row)
    }

    fn object(row: &Node) -> Option<Object> {
        Some(Object::new(ObjectKind::Node, row.id))
    }

    /// Reports about allocations and events of the node leave the modify index as it is.
    fn written_at(row: &Node) -> u64 {
        let of_event = row.events.iter().flatten().next_back().map_or(0, |event| event.create_index);
        row.modify_index.max(row.last_alloc_update_index).max(of_event)
    }

    fn watch_keys(row: &Node, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Node(row.id));
    }
}
