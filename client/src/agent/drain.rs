//! The drain of a node whose agent is about to stop: its allocations move to other nodes first.

use std::collections::BTreeMap;
use std::time::Duration;

use songline_model::{DrainStrategy, Dur, Str};
use songline_rpc::Servers;

use super::Client;

/// Interval at which the servers are asked whether the node is drained.
const POLL: Duration = Duration::from_secs(1);
/// Wait beyond the drain's deadline.
const BEYOND_DEADLINE: Duration = Duration::from_secs(5);
/// Deadline that means at once.
const AT_ONCE: Dur = Dur::from_secs(-1);

impl<S: Servers> Client<S> {
    /// Drains the node as its configuration (`drain_on_shutdown`) asks for, and waits until it is drained, at most
    /// until the deadline. Does nothing without that block. Servers that do not answer are no reason to stay.
    pub async fn drain(&self) {
        let inner = &self.inner;
        let Some(wanted) = &inner.shared.config.drain_on_shutdown else { return };
        let deadline = if wanted.force { AT_ONCE } else { wanted.deadline };
        let strategy =
            DrainStrategy { deadline, ignore_system_jobs: wanted.ignore_system_jobs, ..DrainStrategy::default() };
        let meta: BTreeMap<Str, Str> = [("message".into(), "shutting down".into())].into();
        let begun = inner
            .loops
            .call(|| inner.loops.servers().node_update_drain(inner.loops.auth(), strategy.clone(), meta.clone()))
            .await;
        if let Err(error) = begun {
            return tracing::error!(%error, "draining the node before the agent stops");
        }
        tracing::info!(deadline = %wanted.deadline, "the node is drained before the agent stops");
        let drained = async {
            loop {
                match inner.loops.servers().node_get_node(inner.loops.auth(), inner.loops.auth().id).await {
                    Ok(Some(node)) if node.drain_strategy.is_some() => {}
                    Ok(_) => return,
                    Err(error) => tracing::debug!(%error, "asking for the node"),
                }
                tokio::time::sleep(POLL).await;
            }
        };
        let longest = deadline.to_std() + BEYOND_DEADLINE;
        if tokio::time::timeout(longest, drained).await.is_err() {
            tracing::warn!("the node is not drained; the agent stops nevertheless");
        }
    }
}
