//! Containers that belong to no run, as an agent that was killed may leave them: they are removed from time to time.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Weak;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::Inner;
use super::create::ALLOC_LABEL;
use super::engine::Failure;
use super::infra::OWNER_LABEL;

/// Removes dangling containers each period, until the driver is gone.
pub(super) async fn reconcile(inner: Weak<Inner>, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(inner) = inner.upgrade() else { return };
        if let Err(failure) = once(&inner).await {
            tracing::debug!(%failure, "looking for dangling containers");
        }
    }
}

async fn once(inner: &Inner) -> Result<(), Failure> {
    let filters = HashMap::from([("label".to_owned(), vec![ALLOC_LABEL.to_owned()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let all = inner.engine.client().await?.list_containers(Some(options)).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let latest =
        i64::try_from(now.saturating_sub(inner.settings.dangling.creation_grace).as_secs()).unwrap_or(i64::MAX);
    // Read after the list: a container that was made since is not in the list.
    let known = inner.known_containers();
    for container in all.iter().filter(|container| is_dangling(container, &inner.alloc_dir, &known, latest)) {
        let id = container.id.clone().unwrap_or_default();
        if inner.settings.dangling.dry_run {
            tracing::warn!(container = id, "a container belongs to no run");
            continue;
        }
        tracing::warn!(container = id, "removing a container that belongs to no run");
        inner.remove(&id).await?;
    }
    Ok(())
}

/// Whether a container is this agent's, old enough, and nobody's. An agent's containers mount directories below the
/// agent's own, or have its label.
fn is_dangling(container: &ContainerSummary, alloc_dir: &Path, known: &BTreeSet<String>, created_latest: i64) -> bool {
    let is_known = container.id.as_ref().is_none_or(|id| known.contains(id));
    if is_known || container.created.is_none_or(|created| created > created_latest) {
        return false;
    }
    let label = |key: &str| container.labels.as_ref().and_then(|labels| labels.get(key));
    if let Some(owner) = label(OWNER_LABEL) {
        // The namespace of an allocation is needed for as long as the allocation has a directory.
        let alloc = label(ALLOC_LABEL).map(|alloc| alloc_dir.join(alloc));
        return Path::new(owner) == alloc_dir && alloc.is_some_and(|alloc| !alloc.exists());
    }
    let mut mounts = container.mounts.iter().flatten();
    mounts.any(|mount| mount.source.as_ref().is_some_and(|source| Path::new(source).starts_with(alloc_dir)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_old_containers_of_this_agent_without_a_run_are_dangling() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("there")).expect("makes");
        let own = dir.path().join("a/t/local");
        let check = |id: &str, created: i64, source: &Path| {
            let told =
                json!({"Id": id, "Created": created, "Mounts": [{"Source": source}], "Labels": {ALLOC_LABEL: "a"}});
            let container = serde_json::from_value(told).expect("a container");
            is_dangling(&container, dir.path(), &BTreeSet::from(["known".to_owned()]), 100)
        };
        assert!(check("left", 99, &own));
        assert!(!check("known", 99, &own), "a known one");
        assert!(!check("left", 101, &own), "a new one");
        assert!(!check("left", 99, Path::new("/other/agent")), "one of another agent");
        let infra = |alloc: &str, owner: &Path| {
            let labels = json!({ALLOC_LABEL: alloc, OWNER_LABEL: owner});
            let told = json!({"Id": "infra", "Created": 1, "Labels": labels});
            is_dangling(&serde_json::from_value(told).expect("a container"), dir.path(), &BTreeSet::new(), 100)
        };
        assert!(infra("gone", dir.path()));
        assert!(!infra("there", dir.path()), "its allocation has a directory");
        assert!(!infra("gone", Path::new("/other")), "one of another agent");
    }
}
