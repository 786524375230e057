//! The task API: this agent's own API answers requests over the sockets in tasks' secrets directories.

use std::fmt;
use std::sync::Arc;

use songline_api::{Answer, Limits};
use songline_client::TaskApi;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

/// The API of the server in this process, for tasks of the node in this process.
pub(crate) struct OwnApi(pub(crate) Arc<dyn Answer>);

impl fmt::Debug for OwnApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnApi")
    }
}

impl TaskApi for OwnApi {
    fn serve(&self, listener: UnixListener, until: CancellationToken) {
        tokio::spawn(songline_api::serve_task(listener, Arc::clone(&self.0), Limits::default(), until));
    }
}
