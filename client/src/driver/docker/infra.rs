//! Containers that hold the network namespace of an allocation, with no process but one that sleeps. Podman needs none.

use std::path::PathBuf;
use std::time::Duration;

use bollard::query_parameters::CreateContainerOptionsBuilder;
use serde_json::json;
use songline_model::AllocId;

use super::create::ALLOC_LABEL;
use super::engine::Failure;
use super::{Inner, container, engine, podman};
use crate::driver::{AllocNetwork, Listener};

/// Prefix of the containers' names; the allocation's id follows.
pub(super) const PREFIX: &str = "nomad_init_";
/// Label with the agent's directory of allocations: agents that share an engine know their own containers by it.
pub(super) const OWNER_LABEL: &str = "dev.songline.alloc_dir";

/// Creates the namespace of an allocation, or finds it again.
pub(super) async fn create(inner: &Inner, alloc: &AllocId, hostname: &str) -> Result<AllocNetwork, Failure> {
    if inner.engine.is_podman().await? {
        return podman::create_network(alloc, hostname).await;
    }
    let name = format!("{PREFIX}{alloc}");
    match container::state(&inner.engine, &name).await? {
        Some(state) if state.running => return found(&inner.engine, &name, hostname).await,
        Some(_) => inner.remove(&name).await?,
        None => {}
    }
    let timeout: Duration = inner.settings.infra_image_pull_timeout;
    let told = inner.settings.infra_image.as_str();
    let image = inner.image(told, &serde_json::Map::new(), timeout, &Listener::default()).await?;
    let mut body = json!({
        "Image": image.id,
        "Labels": {ALLOC_LABEL: alloc.to_string(), OWNER_LABEL: inner.alloc_dir.display().to_string()},
        "HostConfig": {"NetworkMode": "none"},
    });
    if !hostname.is_empty() {
        body["Hostname"] = hostname.into();
    }
    let body = serde_json::from_value(body).map_err(|error| Failure::new(error.to_string()))?;
    let client = inner.engine.client().await?;
    let options = CreateContainerOptionsBuilder::default().name(&name).build();
    let made = client.create_container(Some(options), body).await?;
    let started = client.start_container(&made.id, None).await.map_err(Failure::from);
    let network = match started {
        Ok(()) => found(&inner.engine, &name, hostname).await,
        Err(failure) => Err(failure),
    };
    if network.is_err() {
        inner.remove(&made.id).await?;
    }
    network
}

/// Removes the namespace of an allocation. One without a path may be that of either engine: the agent died before it
/// knew what was made.
pub(super) async fn destroy(inner: &Inner, alloc: &AllocId, network: &AllocNetwork) -> Result<(), Failure> {
    if let Some(container) = &network.container {
        return inner.remove(container).await;
    }
    podman::destroy_network(alloc).await?;
    if network.path.as_os_str().is_empty() { inner.remove(&format!("{PREFIX}{alloc}")).await } else { Ok(()) }
}

async fn found(engine: &engine::Engine, name: &str, hostname: &str) -> Result<AllocNetwork, Failure> {
    let found = engine.client().await?.inspect_container(name, None).await?;
    let path = found.network_settings.and_then(|network| network.sandbox_key).filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| Failure::new(format!("container {name} has no network namespace")))?;
    Ok(AllocNetwork {
        path: PathBuf::from(path),
        container: found.id,
        hostname: hostname.to_owned(),
        ..AllocNetwork::default()
    })
}
