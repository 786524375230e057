//! Announcements of nodes.

use serde::Serialize;
use songline_model::{Node, Str};
use songline_projections::tables;
use songline_wire::node::NodeView;

use super::{Announce, drop_if_equal, text};
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

    fn without_equal_parts(before: &Node, after: &Node) -> Option<(Node, Node)> {
        let (mut before, mut after) = (before.clone(), after.clone());
        drop_if_equal(&mut before.attributes, &mut after.attributes);
        drop_if_equal(&mut before.node_resources, &mut after.node_resources);
        Some((before, after))
    }

    fn object(row: &Node) -> Option<Object> {
        Some(Object::new(ObjectKind::Node, row.id))
    }

    fn watch_keys(row: &Node, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Node(row.id));
    }
}
