//! For tests: the invariants of volumes and plugins.

use std::collections::BTreeSet;

use songline_model::CsiInfo;

use crate::{State, Table};

pub(crate) fn consistent(state: &State) {
    assert_eq!(state.by.csi_volumes_by_plugin.len(), state.table_len(Table::CsiVolumes));
    for volume in state.csi_volumes() {
        assert!(
            state.csi_volumes_of_plugin(&volume.plugin_id).any(|of_plugin| of_plugin == volume),
            "a volume is found by its plugin"
        );
        for claims in [&volume.read_claims, &volume.write_claims, &volume.past_claims] {
            for (id, claim) in claims {
                assert!(
                    !id.is_nil() && claim.allocation_id == *id,
                    "a claim is below the id of its alloc, and has one"
                );
            }
        }
        let readers: BTreeSet<_> = volume.read_claims.keys().collect();
        assert!(volume.write_claims.keys().all(|id| !readers.contains(id)), "an alloc reads or writes, not both");
        assert!(
            volume.in_use() || !volume.past_claims.is_empty() || volume.access_mode.is_unknown(),
            "modes belong to claims"
        );
        assert!(state.namespace(&volume.namespace).is_some(), "a volume's namespace is not deleted");
    }
    for plugin in state.csi_plugins() {
        let healthy = |known: Vec<&CsiInfo>| known.iter().filter(|info| info.healthy).count() as i64;
        assert_eq!(plugin.controllers_healthy, healthy(plugin.controllers.values().collect()));
        assert_eq!(plugin.nodes_healthy, healthy(plugin.nodes.values().collect()));
        for node in plugin.controllers.keys().chain(plugin.nodes.keys()) {
            assert!(state.node(*node).is_some(), "an instance is on a node that is there");
        }
        for (jobs, expected) in
            [(&plugin.controller_jobs, plugin.controllers_expected), (&plugin.node_jobs, plugin.nodes_expected)]
        {
            assert_eq!(jobs.values().flatten().map(|(_, job)| job.expected).sum::<i64>(), expected);
            for (namespace, id) in jobs.iter().flat_map(|(namespace, jobs)| jobs.keys().map(move |id| (namespace, id)))
            {
                let job = state.job(namespace, id).expect("an expected job is registered");
                assert!(job.csi_plugins().contains(&plugin.id), "and runs the plugin");
            }
        }
    }
}
