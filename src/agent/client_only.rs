//! A node whose servers are in other processes, and the loops that run beside it.

use std::sync::Arc;

use anyhow::Context;
use songline_client::reverse::{Guard, NodeCalls};
use songline_client::{Client, ClientConfig, NetServers};
use songline_model::Str;
use songline_rpc::port::Dialer;
use tokio_util::sync::CancellationToken;

use super::guard::ByPolicies;

/// The node and its connection to the servers.
pub(super) struct ClientOnly {
    pub(super) client: Arc<Client<NetServers>>,
    pub(super) servers: Arc<NetServers>,
    closing: CancellationToken,
}

impl ClientOnly {
    /// Starts a node with these server addresses and does not wait for any of them to answer. `acl` says whether
    /// callers have to show tokens.
    pub(super) async fn start(
        told: ClientConfig,
        addresses: Vec<Str>,
        dialer: Dialer,
        acl: bool,
    ) -> anyhow::Result<Self> {
        let calls = Arc::new(NodeCalls::<Client<NetServers>>::default());
        let servers = Arc::new(NetServers::new(
            addresses,
            told.region.clone(),
            Arc::clone(&told.world),
            dialer,
            Some(calls.on_session()),
        ));
        let guard = acl.then(|| Arc::new(ByPolicies::new(Arc::clone(&servers), told.region.clone())));
        // The guard has to be set before the node opens its first session.
        if let Some(guard) = &guard {
            calls.guard(Arc::clone(guard) as Arc<dyn Guard>);
        }
        let client = Arc::new(Client::start(told, Arc::clone(&servers)).await.context("starting the node agent")?);
        if let Some(guard) = guard {
            guard.set(&client);
        }
        calls.set(&client);
        let closing = CancellationToken::new();
        let (moving, until) = (Arc::clone(&servers), closing.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = moving.rebalance() => {}
                () = until.cancelled() => {}
            }
        });
        Ok(Self { client, servers, closing })
    }

    /// Stops the node; with `stop_tasks` its tasks, too.
    pub(super) async fn stop(&self, stop_tasks: bool) {
        self.client.shutdown(stop_tasks).await;
        self.closing.cancel();
        self.servers.close();
    }
}
