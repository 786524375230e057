//! Changes after which a CSI volume may serve an allocation that it could not serve before.

use std::collections::BTreeMap;

use songline_model::{CsiNodeInfo, CsiPlugin, CsiVolume, Evaluation, Node};
use songline_projections::State;

/// Whether the volume is new, has fewer claims, or was registered with other capabilities or topologies.
pub(super) fn gained(before: Option<&CsiVolume>, after: &CsiVolume) -> bool {
    before.is_none_or(|before| {
        let kept = |claims: fn(&CsiVolume) -> usize| claims(before) <= claims(after);
        !kept(|volume| volume.read_claims.len())
            || !kept(|volume| volume.write_claims.len())
            || before.requested_capabilities != after.requested_capabilities
            || before.topologies != after.topologies
            || before.resource_exhausted != after.resource_exhausted
    })
}

/// Whether volumes of the plugin could not be used before, and can be now.
pub(super) fn recovered(before: Option<&CsiPlugin>, after: &CsiPlugin) -> bool {
    after.health().schedulable() && !before.is_some_and(|before| before.health().schedulable())
}

/// The healthy plugins by which a node mounts volumes, with what they tell of the node.
pub(super) fn mountable(node: &Node) -> BTreeMap<&str, &Option<CsiNodeInfo>> {
    let plugins = node.csi_node_plugins.iter().flatten();
    plugins.filter(|(_, info)| info.healthy).map(|(id, info)| (id.as_str(), &info.node_info)).collect()
}

/// Whether the evaluation's job asks for this volume of its namespace.
pub(super) fn asks(view: &State, eval: &Evaluation, volume: &str) -> bool {
    let job = view.job(&eval.namespace, &eval.job_id);
    let mut requests = job.into_iter().flat_map(|job| job.groups()).flat_map(|group| group.volumes.iter().flatten());
    requests.any(|(_, request)| request.may_use_csi_volume(volume))
}

#[cfg(test)]
mod tests;
