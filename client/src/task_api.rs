//! The socket in a task's secrets on which it may ask the API. Who answers there is the whole agent's business; here is only where the socket
//! is, whose it is, and that it goes with the task.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, open, unlinkat};
use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::allocdir::{AllocDir, SECRETS};

/// The socket's name among the secrets.
const SOCKET: &str = "api.sock";

/// Answers what tasks ask.
pub trait TaskApi: fmt::Debug + Send + Sync {
    /// Answers on the socket of one task until that has ended. Does not wait for it.
    fn serve(&self, listener: UnixListener, until: CancellationToken);
}

/// Makes the socket of a task anew, and lets `api` answer on it as long as the guard lives. `owner`: the task's user.
pub(crate) fn serve(api: &dyn TaskApi, dir: &AllocDir, task: &str, owner: Option<(u32, u32)>) -> io::Result<DropGuard> {
    let listener = bind(&dir.task(task).join(SECRETS), owner)?;
    let until = CancellationToken::new();
    api.serve(listener, until.clone());
    Ok(until.drop_guard())
}

fn bind(secrets: &std::path::Path, owner: Option<(u32, u32)>) -> io::Result<UnixListener> {
    // The directory is the task's own: no link there leads elsewhere. Through its descriptor its path is short, as paths of sockets must be.
    let dir = open(secrets, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    match unlinkat(&dir, SOCKET, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(SOCKET);
    let listener = UnixListener::bind(&path)?;
    let owned = match owner {
        Some((uid, gid)) => chownat(&dir, SOCKET, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW).is_ok(),
        None => true,
    };
    // Of a task that cannot own it, the directory keeps others away.
    fs::set_permissions(&path, Permissions::from_mode(if owned { 0o600 } else { 0o666 }))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;
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
    async fn a_socket_is_its_tasks_alone_and_goes_with_it() {
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
