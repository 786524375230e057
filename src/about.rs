//! Host information and profiles of this agent, served to servers over the node's session.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use songline_api::about;
use songline_client::AboutAgent;
use songline_rpc::{AskMonitor, AskProfile, Profile, RpcError, StreamFrame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Description of this process.
#[derive(Debug)]
pub(crate) struct OwnProcess {
    /// Whether machine details and profiles are shown: with ACLs the caller's token decides, without ACLs an operator
    /// has to allow it.
    pub(crate) tells: bool,
    /// Ends the streaming of log lines.
    pub(crate) closing: CancellationToken,
}

impl OwnProcess {
    fn allowed(&self) -> Result<(), RpcError> {
        if self.tells { Ok(()) } else { Err(RpcError::remote("Permission denied")) }
    }
}

impl AboutAgent for OwnProcess {
    fn host(&self) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let allowed = self.allowed();
        async move {
            allowed?;
            about::host().await
        }
        .boxed()
    }

    fn profile(&self, ask: AskProfile) -> BoxFuture<'static, Result<Profile, RpcError>> {
        let allowed = self.allowed();
        async move {
            allowed?;
            about::profile(&ask).await
        }
        .boxed()
    }

    fn log(&self, ask: AskMonitor) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        about::log(&ask, self.closing.clone())
    }
}
