//! The task API: this agent's own API answers requests over the sockets in tasks' secrets directories.

use std::fmt;

use songline_api::{Api, Limits};
use songline_client::TaskApi;
use songline_server::Core;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

/// The API of the server in this process, for tasks of the node in this process.
pub(crate) struct OwnApi(pub(crate) Api<Core>);

impl fmt::Debug for OwnApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnApi")
    }
}

impl TaskApi for OwnApi {
    fn serve(&self, listener: UnixListener, until: CancellationToken) {
        tokio::spawn(songline_api::serve_task(listener, self.0.clone(), Limits::default(), until));
    }
}
