//! Volumes that a task mounts: directories of this machine that the agent's configuration names, and CSI volumes, which
//! are mounted on this machine before. The driver mounts them for the task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use songline_model::{Allocation, ClientHostVolumeConfig, Str, Task, VolumeMount, VolumeRequest};

use crate::env::TaskEnv;
use crate::executor::place::{Bind, Propagation};

/// Volumes of this machine by name.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// Directories of the configuration.
    pub host: &'a BTreeMap<Str, ClientHostVolumeConfig>,
    /// Places of the allocation's CSI volumes, by their names in the group.
    pub csi: &'a BTreeMap<Str, PathBuf>,
}

/// Mounts of a task, in the order of the job file. A driver that gives tasks no root of their own cannot mount.
pub(crate) fn mounts(
    known: Known<'_>,
    alloc: &Allocation,
    task: &Task,
    driver_mounts: bool,
    env: &TaskEnv,
) -> Result<Vec<Bind>, String> {
    let requests = alloc.group().and_then(|group| group.volumes.clone()).unwrap_or_default();
    let mut mounts = Vec::new();
    for mount in task.volume_mounts.iter().flatten() {
        let name = env.replace(&mount.volume);
        let Some(request) = requests.get(name.as_str()) else {
            return Err(format!("volume {name:?} is not one of the group's volumes"));
        };
        let kind = if request.kind == "host" { "host" } else { "CSI" };
        let place = match kind {
            "host" => None,
            _ => Some(known.csi.get(name.as_str()).ok_or(format!("No CSI Mount Point found for volume: {name}"))?),
        };
        if !driver_mounts {
            let (driver, task) = (task.driver.as_str(), task.name.as_str());
            return Err(format!("task driver {driver:?} for {task:?} does not support {kind} volumes"));
        }
        mounts.push(match place {
            Some(place) => bind(place, request.read_only, mount, env)?,
            None => bind_host(known.host, alloc, request, mount, env)?,
        });
    }
    Ok(mounts)
}

fn bind_host(
    known: &BTreeMap<Str, ClientHostVolumeConfig>,
    alloc: &Allocation,
    request: &VolumeRequest,
    mount: &VolumeMount,
    env: &TaskEnv,
) -> Result<Bind, String> {
    let source = request.volume_of(&alloc.name);
    let volume = known.get(&source).ok_or_else(|| format!("host volume validation error: missing {source}"))?;
    bind(Path::new(volume.path.as_str()), volume.read_only || request.read_only, mount, env)
}

/// A volume that the node, the group or the mount makes read-only is read-only.
fn bind(place: &Path, read_only: bool, mount: &VolumeMount, env: &TaskEnv) -> Result<Bind, String> {
    let propagation = match env.replace(&mount.propagation_mode).as_str() {
        "" | "private" => Propagation::Private,
        "host-to-task" => Propagation::HostToTask,
        "bidirectional" => Propagation::Bidirectional,
        other => return Err(format!("volume mount has an invalid propagation mode: {other:?}")),
    };
    Ok(Bind {
        from: place.to_owned(),
        to: env.replace(&mount.destination).into(),
        read_only: read_only || mount.read_only,
        propagation,
    })
}

#[cfg(test)]
mod tests;
