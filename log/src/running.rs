//! One run of consensus over an open log directory. A run ends when its disk fails; `log` then starts the next run and
//! informs callers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::error::OpenError;
use crate::log::{Config, Start};
use crate::machine::StateMachine;
use crate::raft::{Gone, Network, Node, Outlook, Progress};
use crate::recovery::{self, Recovery};
use crate::store::Store;
use crate::transport::Transport;

/// Time within which the state machine must finish applying after consensus has stopped.
const LET_GO_WITHIN: Duration = Duration::from_secs(60);

/// A run of consensus, with its store and state.
pub(crate) struct Running<S: StateMachine> {
    pub node: Node<S>,
    pub store: Arc<Store>,
    pub progress: Arc<Progress>,
    pub recovery: Recovery,
    /// `None` once the run has stopped.
    gone: Mutex<Option<Gone>>,
}

impl<S: StateMachine> Running<S> {
    /// Opens the files, rebuilds the state and starts consensus.
    pub async fn start(
        config: &Config,
        transport: &Arc<dyn Transport>,
        outlook: &Outlook,
        state: S,
    ) -> Result<Self, OpenError> {
        let plan = config.clone();
        let recovered = config.disk.blocking(move || recovery::recover(&plan, state));
        let (store, mut machine, recovery) = recovered.await.map_err(|error| OpenError::Start(error.to_string()))??;
        let store = Arc::new(store);
        let (progress, gone) = (machine.progress(), machine.gone());
        let node = Node::start(
            config.node_id,
            config.start == Start::Alone,
            config.timing,
            Arc::clone(&store),
            machine,
            Network::new(Arc::clone(&config.disk), Arc::clone(transport)),
            outlook.clone(),
        )
        .await?;
        Ok(Self { node, store, progress, recovery, gone: Mutex::new(Some(gone)) })
    }

    /// Stops the run: when this returns, it no longer votes, applies entries or holds the files. Acknowledged entries
    /// are on disk, and the high-water mark is written unless the disk has failed. An error when the state machine is
    /// still applying after 60 seconds.
    pub async fn stop(&self, config: &Config) -> Result<(), OpenError> {
        let mut gone = self.gone.lock().await;
        let Some(state) = gone.as_mut() else { return Ok(()) };
        self.node.shutdown().await;
        let store = Arc::clone(&self.store);
        let closed = config.disk.blocking(move || store.close()).await;
        closed.map_err(|error| OpenError::Start(format!("closing the log: {error}")))?;
        let let_go = tokio::time::timeout(LET_GO_WITHIN, state.wait()).await;
        let_go.map_err(|_| {
            OpenError::Start(
                "the state is still being changed by what consensus had decided before it ended".to_owned(),
            )
        })?;
        *gone = None;
        Ok(())
    }
}
