//! The socket in a task's secrets directory through which the task reaches the API. This module creates the socket
//! with its owner, and removes it with the task; the agent implements the API.

use std::fmt;
use std::io;

use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::allocdir::{AllocDir, PRIVATE, SECRETS, given_owner};
use crate::beneath::Owner;

/// Name of the socket in the secrets directory.
const SOCKET: &str = "api.sock";

/// Serves the API to tasks.
pub trait TaskApi: fmt::Debug + Send + Sync {
    /// Serves the socket of one task until `until` is cancelled. Does not block.
    fn serve(&self, listener: UnixListener, until: CancellationToken);
}

/// Creates the socket of a task anew, and lets `api` serve it as long as the guard lives. `owner`: the task's user.
pub(crate) fn serve(api: &dyn TaskApi, dir: &AllocDir, task: &str, owner: Option<Owner>) -> io::Result<DropGuard> {
    let listener = bind(dir, task, owner)?;
    let until = CancellationToken::new();
    api.serve(listener, until.clone());
    Ok(until.drop_guard())
}

fn bind(dir: &AllocDir, task: &str, owner: Option<Owner>) -> io::Result<UnixListener> {
    let task = dir.open_task(task)?;
    // The socket is created in the private directory and moved when it is complete: in the secrets directory the task
    // could replace it before it has its mode. A path through a descriptor is short, as the path of a socket must be.
    let private = task.make_private(PRIVATE, 0o700, None)?;
    private.remove_all(SOCKET)?;
    let listener = UnixListener::bind(private.path_of(SOCKET))?;
    let socket = private.entry(SOCKET)?;
    let owner = owner.or_else(|| given_owner(&task));
    let owned = owner.is_none_or(|owner| socket.set_owner(owner).is_ok());
    // When the task's user cannot own the socket, the mode of the directory keeps other users away.
    socket.set_mode(if owned { 0o600 } else { 0o666 })?;
    private.replace(SOCKET, &task.make_private(SECRETS, 0o700, owner)?, SOCKET)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::sync::Arc;

    use songline_model::AllocId;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[derive(Debug)]
    struct Greets;

    impl TaskApi for Greets {
        fn serve(&self, listener: UnixListener, until: CancellationToken) {
            tokio::spawn(async move {
                while let Some(Ok((mut stream, _))) = until.run_until_cancelled(listener.accept()).await {
                    let _ = stream.write_all(b"hello").await;
                }
            });
        }
    }

    #[tokio::test]
    async fn task_api_socket_is_private_to_its_task_and_can_be_served_again() {
        let root = tempfile::tempdir().unwrap();
        // Longer than the path of a socket may be.
        let dir = AllocDir::new(&root.path().join("x".repeat(120)), &AllocId::from_bytes([7; 16]));
        fs::create_dir_all(dir.root()).unwrap();
        dir.build_task("web", None).unwrap();
        let socket = dir.task("web").join(SECRETS).join(SOCKET);
        std::os::unix::fs::symlink("/nowhere", &socket).unwrap();
        let api: Arc<dyn TaskApi> = Arc::new(Greets);
        for _ in 0..2 {
            let guard = serve(&*api, &dir, "web", None).unwrap();
            assert_eq!(fs::symlink_metadata(&socket).unwrap().mode() & 0o777, 0o600);
            let entry = fs::File::open(socket.parent().unwrap()).unwrap();
            let path = PathBuf::from(format!("/proc/self/fd/{}", entry.as_raw_fd())).join(SOCKET);
            let asked = tokio::task::spawn_blocking(move || {
                let (mut stream, mut said) = (UnixStream::connect(&path)?, String::new());
                stream.read_to_string(&mut said).map(|_| said)
            });
            assert!(asked.await.unwrap().is_ok_and(|said| said == "hello"));
            drop(guard);
        }
        assert!(serve(&*api, &dir, "gone", None).is_err(), "a task without a directory has no socket");
    }
}
