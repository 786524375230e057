//! The node's rows about the CSI plugins that run on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{CsiInfo, Node, NodeEvent, Str, Time};
use songline_rpc::Servers;

use super::Inner;
use crate::csi::Fingerprint;

impl<S: Servers> Inner<S> {
    /// Takes the rows of a plugin, and reports them to the servers if they say anything new.
    pub(super) fn on_plugin(&self, rows: Fingerprint) {
        let mut changed = false;
        let mut events = Vec::new();
        {
            let mut shared = self.shared.node.lock();
            let mut node = Node::clone(&shared);
            let of_node = [
                ("csi-controller", rows.controller, &mut node.csi_controller_plugins),
                ("csi-node", rows.node, &mut node.csi_node_plugins),
            ];
            for (kind, row, plugins) in of_node {
                let Some(row) = row else { continue };
                let plugins = plugins.get_or_insert_default();
                let before = plugins.get(&row.plugin_id);
                if before.is_some_and(|before| is_same(before, &row)) {
                    continue;
                }
                // The first fingerprint of a plugin is no event.
                if before.is_some_and(|before| before.healthy != row.healthy) {
                    events.push(flipped(kind, &row, self.now()));
                }
                plugins.insert(row.plugin_id.clone(), row);
                changed = true;
            }
            if changed {
                *shared = Arc::new(node);
            }
        }
        events.into_iter().for_each(|event| self.emit(event));
        if changed {
            self.node_changed.notify_one();
        }
    }
}

/// Whether two rows differ in nothing but their time.
fn is_same(before: &CsiInfo, row: &CsiInfo) -> bool {
    *before == CsiInfo { update_time: before.update_time, ..row.clone() }
}

fn flipped(kind: &str, row: &CsiInfo, now: Time) -> NodeEvent {
    let details: BTreeMap<Str, Str> = [("plugin".into(), row.plugin_id.clone()), ("type".into(), kind.into())].into();
    NodeEvent {
        message: row.health_description.clone(),
        subsystem: "CSI".into(),
        details: Some(details),
        timestamp: Some(now),
        create_index: 0,
    }
}
