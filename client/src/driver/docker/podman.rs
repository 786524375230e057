//! Differences of Podman's service from Docker's engine behind the same API that the driver does something about.
//! docs/docker.md has all that was seen to differ.

use std::path::{Path, PathBuf};

use bollard::models::SystemVersion;
use serde_json::{Map, Value};
use songline_model::AllocId;

use super::engine::Failure;
use crate::driver::block::{self, Block};
use crate::driver::{AllocNetwork, text};
use crate::executor::capabilities::Set;
use crate::network::namespace;

/// Beginning of the name of the service among the parts of its version.
const ENGINE: &str = "Podman";
/// Refusals that Docker answers with status 409 and Podman with 500: of a container that has ended, and of a name that
/// is taken.
const CONFLICTS: &[&str] = &["container state improper", "is already in use"];

/// Whether a version is that of Podman's service.
pub(super) fn is_podman(version: &SystemVersion) -> bool {
    version.components.iter().flatten().any(|part| part.name.starts_with(ENGINE))
}

/// Whether an error of the service is a refusal because of the state of the container.
pub(super) fn is_conflict(status: Option<u16>, text: &str) -> bool {
    status == Some(500) && CONFLICTS.iter().any(|conflict| text.contains(conflict))
}

/// Refuses drivers of volumes. The service leaves them out and mounts a volume of its own instead, so a task would write
/// to another place than its job says.
pub(super) fn check_volumes(config: &Block) -> Result<(), String> {
    let driver = text(config, "volume_driver");
    if !driver.is_empty() {
        return Err(format!("Podman's service has no volume drivers; cannot use {driver:?}"));
    }
    for mount in ["mount", "mounts"].into_iter().flat_map(|key| block::blocks(config, key)) {
        let options = block::block(&mount, "volume_options").unwrap_or_default();
        if let Some(driver) = block::block(&options, "driver_config") {
            return Err(format!("Podman's service has no volume drivers; cannot use {:?}", text(&driver, "name")));
        }
    }
    Ok(())
}

/// Writes down all capabilities of a container: the set from which the service starts is the node's
/// `containers.conf`, which may have more than the driver allows.
pub(super) fn capabilities(host: &mut Map<String, Value>, wanted: Set) {
    host.insert("CapDrop".into(), vec!["all"].into());
    host.insert("CapAdd".into(), wanted.names().into());
}

/// Limit of the service's log of a container. It keeps one file, which it empties at the limit.
pub(super) fn log_bytes_max(files: u64, file_bytes: u64) -> u64 {
    files.max(1).saturating_mul(file_bytes)
}

/// The network of a task's container in a namespace of the allocation.
pub(super) fn network_mode(path: &Path) -> String {
    format!("ns:{}", path.display())
}

/// Creates the namespace of an allocation, or finds it again. A container with the network `none` has no path that
/// others can use, but containers can join any namespace that has one.
pub(super) async fn create_network(alloc: &AllocId, hostname: &str) -> Result<AllocNetwork, Failure> {
    let path = namespace::path(alloc);
    let at = path.clone();
    blocking(move || {
        if namespace::exists(&at) {
            return Ok(());
        }
        // After a reboot an empty file may be left.
        namespace::remove(&at)?;
        namespace::create(&at)
    })
    .await?;
    Ok(AllocNetwork { path, hostname: hostname.to_owned(), ..AllocNetwork::default() })
}

/// Removes the namespace of an allocation. One that is gone is no error.
pub(super) async fn destroy_network(alloc: &AllocId) -> Result<(), Failure> {
    let path: PathBuf = namespace::path(alloc);
    blocking(move || namespace::remove(&path)).await
}

async fn blocking(work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<(), Failure> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    done.map_err(|error| Failure::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn service_is_known_by_its_parts_and_its_conflicts_by_their_texts() {
        let version =
            |parts: Value| is_podman(&serde_json::from_value(json!({"Components": parts})).expect("a version"));
        assert!(version(json!([{"Name": "Podman Engine", "Version": "4.3.1"}, {"Name": "Conmon", "Version": "2"}])));
        assert!(!version(json!([{"Name": "Engine", "Version": "20.10.24"}])));
        assert!(!version(Value::Null));
        let ended = "can only kill running containers. 10ad is in state exited: container state improper";
        assert!(is_conflict(Some(500), ended));
        assert!(!is_conflict(Some(500), "no space left on device"));
        assert!(!is_conflict(None, ended));
    }
}
