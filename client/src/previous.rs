//! Allocations that come before one of this node: waiting for their end, here or on another node, and taking over their
//! data. Data of another node comes as a tar over that node's HTTP interface, with a token that the servers give to
//! the successor only.

mod fetch;
mod unpack;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::{AllocClientStatus, AllocId, Allocation, NodeId, Secret, Str};
use songline_rpc::{BlockingQuery, NodeAuth, Servers};

use crate::allocdir::AllocDir;
use crate::clock::Clock;
use crate::core::WATCH_RETRY;
use crate::driver::Boxed;
use crate::runner::{Runner, View};
pub(crate) use fetch::FetchError;

/// An allocation that has ended.
#[derive(Clone)]
pub(crate) enum Ended {
    /// Its directory is on this node.
    Here(AllocDir),
    /// It ran on another node.
    Away(NodeId),
    /// The servers do not know it any more.
    Gone,
}

/// A request for the data of an allocation of another node.
pub(crate) struct Wanted {
    /// The allocation that takes the data over.
    pub successor: AllocId,
    /// The allocation whose data it is.
    pub previous: AllocId,
    /// Node of `previous`.
    pub node: NodeId,
    /// Names of the tasks whose directories are taken over.
    pub tasks: Vec<Str>,
    /// Directory of the successor, which has been built.
    pub to: AllocDir,
}

/// Access to earlier allocations.
pub(crate) trait Earlier: Send + Sync {
    /// Waits until an allocation has ended.
    fn ended(&self, id: AllocId) -> Boxed<'_, Ended>;
    /// Fetches the data of an allocation of another node.
    fn fetch(&self, wanted: Wanted) -> Boxed<'_, Result<(), FetchError>>;
}

/// Tokens by which this node's allocations fetch their predecessors' data, by the successor.
pub(crate) type MigrateTokens = Arc<Mutex<BTreeMap<AllocId, Str>>>;

/// Earlier allocations as this node's runners and the servers know them.
pub(crate) struct AtServers<S> {
    pub runners: Weak<Mutex<BTreeMap<AllocId, Arc<Runner>>>>,
    pub servers: Arc<S>,
    pub auth: NodeAuth,
    pub clock: Clock,
    /// Retry delay in place of the usual one.
    pub retry: Option<Duration>,
    pub tokens: MigrateTokens,
    /// Region of the node.
    pub region: Str,
    /// Certificates by which other nodes' HTTP interfaces are verified, in PEM; empty means the system's.
    pub http_ca_pem: Vec<String>,
}

impl<S: Servers> Earlier for AtServers<S> {
    fn ended(&self, id: AllocId) -> Boxed<'_, Ended> {
        Box::pin(async move {
            let here = self.runners.upgrade().and_then(|runners| runners.lock().get(&id).cloned());
            match here {
                Some(runner) => {
                    runner.wait_for(View::is_terminal).await;
                    Ended::Here(runner.dir.clone())
                }
                None => self.ended_elsewhere(id).await,
            }
        })
    }

    fn fetch(&self, wanted: Wanted) -> Boxed<'_, Result<(), FetchError>> {
        Box::pin(async move {
            let node = self.servers.node_get_node(&self.auth, wanted.node).await.map_err(FetchError::Servers)?;
            let node = node.ok_or(FetchError::NoNode)?;
            let token = self.tokens.lock().get(&wanted.successor).cloned().unwrap_or_default();
            fetch::fetch(wanted, &node, &Secret::new(token), &self.region, &self.http_ca_pem).await
        })
    }
}

impl<S: Servers> AtServers<S> {
    /// Waits by blocking queries until the servers know an allocation as ended. A disconnected one counts as ended:
    /// its node cannot be waited for.
    async fn ended_elsewhere(&self, id: AllocId) -> Ended {
        let mut min_index = 0;
        loop {
            let query = BlockingQuery { min_index, ..BlockingQuery::default() };
            match self.servers.alloc_get_alloc(&self.auth, id, query).await {
                Ok((None, _)) => return Ended::Gone,
                Ok((Some(alloc), _)) if has_ended(&alloc) => return alloc.node_id.map_or(Ended::Gone, Ended::Away),
                Ok((Some(_), index)) if index > min_index => {
                    min_index = index;
                    continue;
                }
                // A timeout, or a server that is behind.
                Ok((Some(_), _)) => {}
                Err(error) => tracing::warn!(alloc = %id, %error, "waiting for the end of an allocation"),
            }
            let wait = self.retry.unwrap_or_else(|| self.clock.jitter().stretched(WATCH_RETRY).to_std());
            tokio::time::sleep(wait).await;
        }
    }
}

fn has_ended(alloc: &Allocation) -> bool {
    alloc.client_terminal() || alloc.client_status == AllocClientStatus::Unknown
}
