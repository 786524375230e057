//! Whether a node can give a group its volumes: host volumes and CSI volumes. The answer is never kept per node class,
//! because volumes come and go without a change of class.

use songline_model::{AllocId, CsiVolume, Job, Node, Str, VolumeRequest};
use songline_projections::{DenormalizedVolume, State};

/// Checks every volume request of a group. `alloc_name` selects the volume of a `per_alloc` request. `Err` is the
/// filter text.
pub fn check(view: &State, job: &Job, requests: &[VolumeRequest], alloc_name: &str, node: &Node) -> Result<(), Str> {
    let requests = || requests.iter();
    if !requests()
        .filter(|request| request.kind == "host")
        .all(|request| has_host_volume(node, request, &request.volume_of(alloc_name)))
    {
        return Err(Str::new_static("missing compatible host volumes"));
    }
    requests().filter(|request| request.kind == "csi").try_for_each(|request| {
        let source = request.volume_of(alloc_name);
        let volume = view
            .csi_volume(&job.namespace, &source)
            .ok_or_else(|| Str::from(format!("missing CSI Volume {source}")))?;
        check_plugin(view, volume, node)?;
        check_claims(job, &view.denormalize(volume), request)
    })
}

fn has_host_volume(node: &Node, request: &VolumeRequest, source: &str) -> bool {
    let volume = node.host_volumes.as_ref().and_then(|volumes| volumes.get(source));
    volume.is_some_and(|volume| request.read_only || !volume.read_only)
}

fn check_plugin(view: &State, volume: &CsiVolume, node: &Node) -> Result<(), Str> {
    let (plugin, id) = (&volume.plugin_id, node.id);
    let Some(info) = node.csi_node_plugins.as_ref().and_then(|plugins| plugins.get(plugin.as_str())) else {
        return Err(format!("CSI plugin {plugin} is missing from client {id}").into());
    };
    if !info.healthy {
        return Err(format!("CSI plugin {plugin} is unhealthy on client {id}").into());
    }
    let told = info.node_info.as_ref();
    // 0 means unbounded.
    let max = told.and_then(|told| usize::try_from(told.max_volumes).ok()).filter(|max| *max > 0);
    let used = || view.csi_volumes_of_node(id).iter().filter(|row| row.plugin_id == *plugin).count();
    if max.is_some_and(|max| used() >= max) {
        return Err(format!("CSI plugin {plugin} has the maximum number of volumes on client {id}").into());
    }
    let place = told.and_then(|told| told.accessible_topology.as_ref());
    let mut places = volume.topologies.iter().flatten().peekable();
    if places.peek().is_some() && !places.any(|one| Some(one) == place) {
        return Err(Str::new_static("did not meet topology requirement"));
    }
    Ok(())
}

fn check_claims(job: &Job, seen: &DenormalizedVolume, request: &VolumeRequest) -> Result<(), Str> {
    let (volume, id) = (&seen.volume, &seen.volume.id);
    if !offers(volume, request) {
        let (access, attachment) = (&request.access_mode, &request.attachment_mode);
        return Err(
            format!("CSI volume {id} does not offer access mode {access} with attachment mode {attachment}").into()
        );
    }
    if request.read_only {
        // As in Nomad, a free read claim is left to the claim itself, which the node repeats while there is none.
        if volume.read_schedulable(&seen.health) {
            return Ok(());
        }
        return Err(format!("CSI volume {id} is unschedulable or has exhausted its available reader claims").into());
    }
    if !volume.write_schedulable(&seen.health) {
        return Err(format!("CSI volume {id} is unschedulable or is read-only").into());
    }
    if volume.has_free_write_claim() {
        return Ok(());
    }
    let exhausted = format!("CSI volume {id} has exhausted its available writer claims");
    for writer in volume.write_claims.keys() {
        if seen.allocs.get(writer).is_none_or(Option::is_none) {
            return Err(format!(
                "{exhausted} and is claimed by a garbage collected allocation {writer}; waiting for claim to be released"
            )
            .into());
        }
        if !is_of(job, seen, writer) {
            return Err(exhausted.into());
        }
    }
    Ok(())
}

/// Whether the holder of a claim is an alloc of the job itself. Such a claim does not block: the job's older version
/// may give way to the new one.
fn is_of(job: &Job, seen: &DenormalizedVolume, holder: &AllocId) -> bool {
    let holder = seen.allocs.get(holder).and_then(Option::as_ref);
    holder.is_some_and(|alloc| alloc.job_id == job.id && alloc.namespace == job.namespace)
}

/// Whether the volume has the requested access and attachment modes. A volume without capabilities was registered
/// before modes were required.
fn offers(volume: &CsiVolume, request: &VolumeRequest) -> bool {
    let mut offered = volume.requested_capabilities.iter().flatten().peekable();
    offered.peek().is_none()
        || offered.any(|one| {
            one.access_mode.as_str() == request.access_mode && one.attachment_mode.as_str() == request.attachment_mode
        })
}

#[cfg(test)]
mod tests;
