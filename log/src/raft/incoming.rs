//! A checkpoint that a leader sends in pieces: gathered in a file, verified, installed. One at a time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::message::Part;
use crate::checkpoint::{self, Checkpoint};
use crate::disk::{self, Disk, DiskFile, Open};
use crate::position::Position;

/// Where pieces are gathered.
#[derive(Debug)]
pub(super) struct Incoming {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    gathering: Option<Gathering>,
}

#[derive(Debug)]
struct Gathering {
    position: Position,
    file_bytes: u64,
    /// How many bytes from the beginning are there.
    have: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

/// What a piece led to.
#[derive(Debug)]
pub(super) enum Gathered {
    /// So many bytes from the beginning are there.
    Have(u64),
    /// The whole is there, and sound.
    Whole(Checkpoint),
}

impl Incoming {
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir, gathering: None }
    }

    /// Stores a piece. One that does not follow what is there is not stored; the answer tells the sender where to go on.
    pub async fn take(&mut self, part: Part) -> io::Result<Gathered> {
        let same = self.gathering.as_ref().is_some_and(|it| it.position == part.position && it.file_bytes == part.file_bytes);
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
        let dir = self.dir.clone();
        self.gathering = None;
        let on = Arc::clone(&self.disk);
        let whole = disk::beside(self.disk.as_ref(), move || {
            file.sync_all()?;
            // Verified before it has a name by which a start would find it.
            let whole = Checkpoint::verify(on.as_ref(), &path).inspect_err(|_| drop(on.remove(&path)))?;
            checkpoint::name_received(on.as_ref(), whole, &dir)
        });
        Ok(Gathered::Whole(whole.await??))
    }

    fn forget(&mut self) {
        if let Some(old) = self.gathering.take()
            && let Err(error) = self.disk.remove(&old.path)
        {
            tracing::warn!(path = %old.path.display(), %error, "could not remove a part of a checkpoint");
        }
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
        disk::beside(disk, move || file.write_all_at(&data, at).map(|()| at + data.len() as u64)).await?
    }
}
