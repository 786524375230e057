//! The node's attributes about its Consul agent, kept up to date.

use std::sync::Arc;

use songline_rpc::Servers;

use super::Inner;
use crate::consul::{self, Registrations};
use crate::fingerprint;

impl<S: Servers> Inner<S> {
    /// Asks the Consul agent about itself, again and again. The last answer stays while the agent is away.
    pub(super) async fn look_at_consul(self: Arc<Self>, consul: Arc<Registrations>) {
        loop {
            tokio::time::sleep(consul::PERIOD).await;
            let print = match consul::print(consul.agent()).await {
                Ok(print) => print,
                Err(error) => {
                    tracing::debug!(%error, "asking Consul about itself");
                    continue;
                }
            };
            if self.loops.change_node(|node| fingerprint::apply_consul(node, &print)) {
                self.loops.node_changed();
            }
        }
    }
}
