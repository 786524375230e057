//! The node's attributes about Vault, kept up to date.

use std::sync::Arc;
use std::time::Duration;

use songline_model::Node;
use songline_rpc::Servers;

use super::Inner;
use crate::config::ClientConfig;
use crate::fingerprint;
use crate::options::{self, FINGERPRINT};
use crate::vault::{PERIOD, PERIOD_FOUND, PERIOD_FOUND_SPREAD, Vault, print};

/// Time that the first registration of the node waits for Vault.
const FIRST_LOOK_WITHIN: Duration = Duration::from_secs(5);

/// Whether the node tells of Vault.
pub(super) fn is_wanted(config: &ClientConfig) -> bool {
    options::is_wanted(config, FINGERPRINT, "vault")
}

/// Asks Vault before the node registers, so that the node of a restarted agent does not seem to have none for a moment.
pub(super) async fn first_look(vault: &Vault, node: &mut Node) {
    if let Ok((found, _)) = tokio::time::timeout(FIRST_LOOK_WITHIN, print(vault)).await {
        fingerprint::apply_attributes(node, found);
    }
}

impl<S: Servers> Inner<S> {
    /// Asks Vault about itself, again and again.
    pub(super) async fn look_at_vault(self: Arc<Self>, vault: Arc<Vault>) {
        let mut found = self.loops.node().attribute("vault.accessible").is_some();
        loop {
            let spread = self.shared.clock.jitter().below(PERIOD_FOUND_SPREAD);
            tokio::time::sleep(if found { PERIOD_FOUND.to_std() + spread.to_std() } else { PERIOD }).await;
            let (attributes, outcome) = print(&vault).await;
            match &outcome {
                Ok(()) if !found => tracing::info!("Vault is available"),
                Err(error) if found => tracing::warn!(%error, "Vault is unavailable"),
                Ok(()) | Err(_) => {}
            }
            found = outcome.is_ok();
            if self.loops.change_node(|node| fingerprint::apply_attributes(node, attributes)) {
                self.loops.node_changed();
            }
        }
    }
}
