//! Receives a checkpoint that a leader sends in pieces: gathers it in a file, verifies and installs it. One at a time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::message::Part;
use super::types::Vote;
use crate::checkpoint::{self, Checkpoint};
use crate::disk::{Disk, DiskFile, Open};
use crate::position::Position;

/// Time for which a sender waits for an installation before it is told to ask again. Shorter than `PART_WITHIN`, its
/// timeout for an answer.
const INSTALLED_WITHIN: Duration = Duration::from_secs(3);

/// The checkpoint being gathered or installed, if any.
#[derive(Debug)]
pub(super) struct Incoming {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    gathering: Option<Gathering>,
    installing: Option<Installing>,
}

/// A checkpoint that is verified and installed in its own task: the message that completed it may time out before that
/// is done.
#[derive(Debug)]
struct Installing {
    position: Position,
    work: JoinHandle<Result<Vote, String>>,
}

#[derive(Debug)]
struct Gathering {
    position: Position,
    file_bytes: u64,
    /// Number of bytes received, from the beginning without gaps.
    have: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

/// Result of taking a piece.
#[derive(Debug)]
pub(super) enum Gathered {
    /// Number of bytes received, from the beginning without gaps.
    Have(u64),
    /// The checkpoint is complete but not verified.
    Whole(Unverified),
    /// The checkpoint is being installed.
    Installing,
    /// The checkpoint is installed. The vote is this server's at the end of the installation.
    Installed(Vote),
}

/// A complete checkpoint that is not verified.
#[derive(Debug)]
pub(super) struct Unverified {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl Incoming {
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir, gathering: None, installing: None }
    }

    /// Stores a piece. A piece that does not follow the received bytes is not stored; the result tells the sender where
    /// to continue. While a checkpoint is being installed no piece is stored, and a piece of another checkpoint is an
    /// error.
    pub async fn take(&mut self, part: Part) -> io::Result<Gathered> {
        if let Some(installing) = &mut self.installing {
            let position = installing.position;
            let Ok(done) = tokio::time::timeout(INSTALLED_WITHIN, &mut installing.work).await else {
                return if position == part.position {
                    Ok(Gathered::Installing)
                } else {
                    Err(io::Error::new(
                        io::ErrorKind::ResourceBusy,
                        format!("the one of {position} is still being installed"),
                    ))
                };
            };
            self.installing = None;
            let done = done.map_err(io::Error::other)?.map_err(io::Error::other);
            if position == part.position {
                return done.map(Gathered::Installed);
            }
        }
        let same =
            self.gathering.as_ref().is_some_and(|it| it.position == part.position && it.file_bytes == part.file_bytes);
        if !same {
            self.forget();
            self.gathering = Some(Gathering::begin(self.disk.as_ref(), &self.dir, &part)?);
        }
        let Some(gathering) = &mut self.gathering else { unreachable!("it was begun above") };
        if part.offset != gathering.have || part.data.is_empty() {
            return Ok(Gathered::Have(gathering.have));
        }
        if part.offset + part.data.len() as u64 > gathering.file_bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a piece that is longer than its checkpoint"));
        }
        gathering.have = gathering.store(self.disk.as_ref(), part.data).await?;
        if gathering.have < gathering.file_bytes {
            return Ok(Gathered::Have(gathering.have));
        }
        let (path, file) = (gathering.path.clone(), Arc::clone(&gathering.file));
        self.gathering = None;
        Ok(Gathered::Whole(Unverified { disk: Arc::clone(&self.disk), dir: self.dir.clone(), path, file }))
    }

    /// Starts the installation of a complete checkpoint.
    pub fn install(&mut self, position: Position, work: impl Future<Output = Result<Vote, String>> + Send + 'static) {
        self.installing = Some(Installing { position, work: tokio::spawn(work) });
    }

    /// Waits until no checkpoint is being installed.
    pub async fn rest(&mut self) {
        if let Some(installing) = self.installing.take()
            && let Err(error) = installing.work.await
        {
            tracing::error!(%error, "a checkpoint of the leader was not installed");
        }
    }

    fn forget(&mut self) {
        if let Some(old) = self.gathering.take()
            && let Err(error) = self.disk.remove(&old.path)
        {
            tracing::warn!(path = %old.path.display(), %error, "could not remove a part of a checkpoint");
        }
    }
}

impl Unverified {
    /// Verifies the checkpoint and names it so that the next start finds it.
    pub async fn verified(self) -> io::Result<Checkpoint> {
        let Self { disk: on, dir, path, file } = self;
        let disk = Arc::clone(&on);
        let verified = disk.blocking(move || {
            file.sync_all()?;
            // Verify before renaming: a start installs files by name.
            let whole = Checkpoint::verify(on.as_ref(), &path).inspect_err(|_| drop(on.remove(&path)))?;
            checkpoint::name_received(on.as_ref(), whole, &dir)
        });
        verified.await?
    }
}

impl Gathering {
    fn begin(disk: &dyn Disk, dir: &Path, part: &Part) -> io::Result<Self> {
        disk.create_dir_all(dir)?;
        let path = dir.join(format!("incoming-{:020}.tmp", part.position.index));
        let file = disk.open(&path, Open::Create)?;
        Ok(Self { position: part.position, file_bytes: part.file_bytes, have: 0, path, file })
    }

    async fn store(&self, disk: &dyn Disk, data: Bytes) -> io::Result<u64> {
        let (file, at) = (Arc::clone(&self.file), self.have);
        disk.blocking(move || file.write_all_at(&data, at).map(|()| at + data.len() as u64)).await?
    }
}
