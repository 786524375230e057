//! Facts about the machine that change or come late: control groups, the cloud that it is part of, and what an operator
//! changes in the configuration of a running agent. And the machine's own id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use songline_model::Str;
use songline_rpc::Servers;

use super::{Client, Inner};
use crate::cgroup::hierarchy::Hierarchy;
use crate::config::ClientConfig;
use crate::fingerprint::cloud::Cloud;
use crate::options::{self, FINGERPRINT};
use crate::{fingerprint, network};

/// Interval at which the control groups are looked at.
const CGROUP_PERIOD: Duration = Duration::from_secs(15);
/// Files with an id of the machine, the better one first. Only root may read the first.
const MACHINE_IDS: [&str; 2] = ["/sys/class/dmi/id/product_uuid", "/etc/machine-id"];

/// The node's id on a machine with an id of its own: the same after the data directory was lost. The machine's id
/// itself stays secret, as its documentation asks for.
pub(super) fn id_of_machine(config: &ClientConfig) -> Option<uuid::Uuid> {
    if config.no_host_uuid {
        return None;
    }
    let told = MACHINE_IDS.iter().find_map(|path| std::fs::read_to_string(path).ok())?;
    let told = told.trim().to_lowercase();
    let bytes = Sha256::digest(format!("songline node {told}"));
    let first: [u8; 16] = bytes.get(..16)?.try_into().ok()?;
    (!told.is_empty()).then(|| uuid::Builder::from_custom_bytes(first).into_uuid())
}

impl<S: Servers> Client<S> {
    /// Adopts what a running agent can change of its configuration: the configured metadata. Looks for networks of
    /// allocations again, whose configurations and plugins may have changed.
    pub async fn reload(&self, meta: BTreeMap<Str, Str>) {
        let inner = &self.inner;
        let settings = inner.shared.config.network.clone();
        let print = match tokio::task::spawn_blocking(move || network::Print::read(&settings)).await {
            Ok(print) => print,
            Err(error) => return tracing::error!(%error, "looking for networks"),
        };
        let mut layers = inner.meta.lock().await;
        layers.replace_fixed(fingerprint::with_default_meta(meta));
        inner.loops.change_node(|node| {
            node.meta = Some(layers.merged());
            fingerprint::apply_networks(node, &print);
            true
        });
        inner.loops.node_changed();
    }
}

impl<S: Servers> Inner<S> {
    /// Follows changes of the control groups.
    pub(super) async fn look_at_cgroups(self: Arc<Self>) {
        let config = &self.shared.config;
        if !options::is_wanted(config, FINGERPRINT, "cgroup") {
            return;
        }
        loop {
            tokio::time::sleep(CGROUP_PERIOD).await;
            let found = Hierarchy::find(&config.cgroup_parent);
            let found = fingerprint::cgroup_attributes(found.as_ref());
            let found = found.map(|(key, value)| (Str::new_static(key), Str::from(value)));
            if self.loops.change_node(|node| fingerprint::apply_attributes(node, found)) {
                self.loops.node_changed();
            }
        }
    }

    /// Asks the metadata services of clouds, once. They are asked together, and the node does not wait for them.
    pub(super) async fn look_at_clouds(self: Arc<Self>) {
        let config = &self.shared.config;
        let wanted = Cloud::ALL.into_iter().filter(|cloud| options::is_wanted(config, FINGERPRINT, cloud.name()));
        let asked = wanted.map(|cloud| cloud.look(std::env::var(cloud.variable()).ok()));
        for found in futures_util::future::join_all(asked).await.into_iter().flatten() {
            tracing::info!(link = ?found.link, "this machine is part of a cloud");
            let changed = self.loops.change_node(|node| {
                let link = found.link.map(|(name, value)| node.links.get_or_insert_default().insert(name, value));
                fingerprint::apply_attributes(node, found.attributes) || link.is_some()
            });
            if changed {
                self.loops.node_changed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_the_machine_is_used_only_when_it_is_asked_for() {
        let config = ClientConfig::default();
        assert_eq!(id_of_machine(&config), None);
        let config = ClientConfig { no_host_uuid: false, ..config };
        let ids = [id_of_machine(&config), id_of_machine(&config)];
        assert_eq!(ids[0], ids[1]);
        assert!(ids[0].is_none_or(|id| id.get_version_num() == 8));
    }
}
