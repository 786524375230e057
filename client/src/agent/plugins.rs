//! The node's rows about the CSI plugins that run on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{CsiInfo, NodeEvent, Str, Time};
use songline_rpc::Servers;

use super::Inner;
use crate::csi::Fingerprint;

impl<S: Servers> Inner<S> {
    /// Takes the rows of a plugin, and reports them to the servers if they say anything new.
    pub(super) fn on_plugin(&self, rows: Fingerprint) {
        let mut events = Vec::new();
        {
            let mut shared = self.shared.node.lock();
            let controller = rows.controller.filter(|row| says_anything_new(&shared.csi_controller_plugins, row));
            let of_node = rows.node.filter(|row| says_anything_new(&shared.csi_node_plugins, row));
            if controller.is_none() && of_node.is_none() {
                return;
            }
            let node = Arc::make_mut(&mut shared);
            for (kind, row, plugins) in [
                ("csi-controller", controller, &mut node.csi_controller_plugins),
                ("csi-node", of_node, &mut node.csi_node_plugins),
            ] {
                let Some(row) = row else { continue };
                let plugins = plugins.get_or_insert_default();
                // The first fingerprint of a plugin is no event.
                if plugins.get(&row.plugin_id).is_some_and(|before| before.healthy != row.healthy) {
                    events.push(flipped(kind, &row, self.now()));
                }
                plugins.insert(row.plugin_id.clone(), row);
            }
        }
        events.into_iter().for_each(|event| self.loops.emit(event));
        self.loops.node_changed();
    }
}

/// Whether a row differs from the one of its plugin in more than the time.
fn says_anything_new(known: &Option<BTreeMap<Str, CsiInfo>>, row: &CsiInfo) -> bool {
    let before = known.as_ref().and_then(|plugins| plugins.get(&row.plugin_id));
    before.is_none_or(|before| *before != CsiInfo { update_time: before.update_time, ..row.clone() })
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
