//! Directories that a container sees: the task's own, those of the job's options `volumes` and `mount`, and host
//! volumes. Pure. Directories of the host need the node's permission unless they are below the allocation's.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use super::settings::Settings;
use crate::driver::block::{self, Block};
use crate::driver::{TaskConfig, text, texts};
use crate::executor::place::{Bind, Propagation};

/// The container's `Binds`: `SOURCE:DESTINATION[:MODE]`.
pub(super) fn binds(task: &TaskConfig, settings: &Settings) -> Result<Vec<String>, String> {
    let own = [
        (task.shared_dir.clone(), "/alloc"),
        (task.task_dir.join("local"), "/local"),
        (task.task_dir.join("secrets"), "/secrets"),
    ];
    let own = own.into_iter().map(|(from, to)| {
        let bind = format!("{}:{to}", from.display());
        with_label(bind, &settings.selinux_label)
    });
    let mut binds: Vec<String> = own.collect();
    let driver = text(&task.config, "volume_driver");
    if !driver.is_empty() && !settings.volumes_enabled {
        return Err(format!("volumes are not enabled; cannot use volume driver {driver:?}"));
    }
    for volume in texts(&task.config, "volumes") {
        binds.push(bind(task, settings, &volume, !driver.is_empty())?);
    }
    Ok(binds)
}

/// One entry of `volumes`. The source is a volume's name if the task names a volume driver, otherwise a path.
fn bind(task: &TaskConfig, settings: &Settings, volume: &str, is_name: bool) -> Result<String, String> {
    let parts: Vec<&str> = volume.splitn(3, ':').collect();
    let (from, to, mode) = match parts.as_slice() {
        [from, to] => (*from, *to, None),
        [from, to, mode] => (*from, *to, Some(*mode)),
        _ => return Err(format!("invalid docker volume {volume:?}: not <src>:<destination> format")),
    };
    let from = if is_name { from.to_owned() } else { source(task, settings, from)? };
    let bind = format!("{from}:{to}");
    Ok(match mode {
        Some(mode) => format!("{bind}:{mode}"),
        None => with_label(bind, &settings.selinux_label),
    })
}

fn with_label(bind: String, label: &str) -> String {
    if label.is_empty() { bind } else { format!("{bind}:{label}") }
}

/// A directory of the host. A relative one is below the task's directory.
fn source(task: &TaskConfig, settings: &Settings, told: &str) -> Result<String, String> {
    let path = cleaned(&task.task_dir.join(told));
    if !settings.volumes_enabled && !path.starts_with(&task.alloc_dir) {
        return Err(format!("volumes are not enabled; cannot mount host paths: {told:?}"));
    }
    Ok(path.display().to_string())
}

/// An absolute path without `.` and `..`.
fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// The container's `Mounts`: those of the job, of host volumes, and files of the agent.
pub(super) fn mounts(
    task: &TaskConfig,
    settings: &Settings,
    files: &BTreeMap<String, PathBuf>,
) -> Result<Vec<Value>, String> {
    let of_job = ["mount", "mounts"].into_iter().flat_map(|key| block::blocks(&task.config, key));
    let mut mounts: Vec<Value> = of_job.map(|told| mount(task, settings, &told)).collect::<Result<_, _>>()?;
    mounts.extend(task.mounts.iter().map(host_volume));
    mounts.extend(files.iter().map(|(to, from)| json!({"Type": "bind", "Source": from, "Target": to})));
    Ok(mounts)
}

fn host_volume(bind: &Bind) -> Value {
    let propagation = match bind.propagation {
        Propagation::Private => "rprivate",
        Propagation::HostToTask => "rslave",
        Propagation::Bidirectional => "rshared",
    };
    json!({
        "Type": "bind",
        "Source": bind.from,
        "Target": Path::new("/").join(&bind.to),
        "ReadOnly": bind.read_only,
        "BindOptions": {"Propagation": propagation},
    })
}

fn mount(task: &TaskConfig, settings: &Settings, told: &Block) -> Result<Value, String> {
    let kind = Some(text(told, "type")).filter(|kind| !kind.is_empty()).unwrap_or_else(|| "volume".to_owned());
    let mut mount = Map::from_iter([("Target".to_owned(), text(told, "target").into())]);
    if let Some(read_only) = block::flag(told, "readonly") {
        mount.insert("ReadOnly".into(), read_only.into());
    }
    let from = text(told, "source");
    let options = |key: &str| block::block(told, key).unwrap_or_default();
    match kind.as_str() {
        "bind" => {
            mount.insert("Source".into(), source(task, settings, &from)?.into());
            let propagation = text(&options("bind_options"), "propagation");
            if !propagation.is_empty() {
                mount.insert("BindOptions".into(), json!({"Propagation": propagation}));
            }
        }
        "volume" => {
            let options = options("volume_options");
            // A volume driver may mount any directory of the host.
            if let Some(driver) = block::block(&options, "driver_config").filter(|_| !settings.volumes_enabled) {
                return Err(format!("volumes are not enabled; cannot use volume driver {:?}", text(&driver, "name")));
            }
            mount.insert("Source".into(), from.into());
            mount.insert("VolumeOptions".into(), volume_options(&options));
        }
        "tmpfs" => {
            if !from.is_empty() {
                return Err(format!("invalid source, must be empty for tmpfs: {from:?}"));
            }
            let options = options("tmpfs_options");
            let size = json!({"SizeBytes": block::number(&options, "size"), "Mode": block::number(&options, "mode")});
            mount.insert("TmpfsOptions".into(), size);
        }
        other => return Err(format!("invalid mount type, must be \"bind\", \"volume\", \"tmpfs\": {other:?}")),
    }
    mount.insert("Type".into(), kind.into());
    Ok(mount.into())
}

fn volume_options(told: &Block) -> Value {
    let mut options =
        json!({"NoCopy": block::flag(told, "no_copy").unwrap_or(false), "Labels": block::map(told, "labels")});
    if let Some(driver) = block::block(told, "driver_config") {
        options["DriverConfig"] = json!({"Name": text(&driver, "name"), "Options": block::map(&driver, "options")});
    }
    options
}
