//! Volumes that a task mounts: directories of this machine that the agent's configuration names. The driver mounts
//! them; volumes of storage plugins are elsewhere.

use std::collections::BTreeMap;

use songline_model::{Allocation, ClientHostVolumeConfig, Str, Task, VolumeMount, VolumeRequest};

use crate::env::TaskEnv;
use crate::executor::place::{Bind, Propagation};

/// Mounts of a task, in the order of the job file. A driver that gives tasks no root of their own cannot mount.
pub(crate) fn mounts(
    known: &BTreeMap<Str, ClientHostVolumeConfig>,
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
        if request.kind != "host" {
            return Err(format!("No CSI Mount Point found for volume: {name}"));
        }
        if !driver_mounts {
            let (driver, task) = (task.driver.as_str(), task.name.as_str());
            return Err(format!("task driver {driver:?} for {task:?} does not support host volumes"));
        }
        mounts.push(bind(known, alloc, request, mount, env)?);
    }
    Ok(mounts)
}

fn bind(
    known: &BTreeMap<Str, ClientHostVolumeConfig>,
    alloc: &Allocation,
    request: &VolumeRequest,
    mount: &VolumeMount,
    env: &TaskEnv,
) -> Result<Bind, String> {
    let suffix = alloc.name_index().filter(|_| request.per_alloc).map(|index| format!("[{index}]"));
    let source: Str = format!("{}{}", request.source, suffix.unwrap_or_default()).into();
    let volume = known.get(&source).ok_or_else(|| format!("host volume validation error: missing {source}"))?;
    let propagation = match env.replace(&mount.propagation_mode).as_str() {
        "" | "private" => Propagation::Private,
        "host-to-task" => Propagation::HostToTask,
        "bidirectional" => Propagation::Bidirectional,
        other => return Err(format!("volume mount has an invalid propagation mode: {other:?}")),
    };
    Ok(Bind {
        from: volume.path.as_str().into(),
        to: env.replace(&mount.destination).into(),
        // A volume that the node, the group or the mount makes read-only is read-only.
        read_only: volume.read_only || request.read_only || mount.read_only,
        propagation,
    })
}

#[cfg(test)]
mod tests;
