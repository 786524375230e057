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

    fn written_at(row: &Node) -> u64 {
        row.modify_index
    }

    fn watch_keys(row: &Node, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Node(row.id));
    }
}
