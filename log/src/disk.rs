//! Where files are: what the log asks of a file system, and the real one.
//! What the files mean is not here, nor is any file system that is not real: a simulation brings its own.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new and empty file, in the place of any that had the name.
    Create,
}

/// A file system. Calls may wait for hardware. What was written counts as kept after a sync of the file, and a name, its
/// removal or its change after a sync of the directory.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes a directory and those above it, unless they are there.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// The paths of everything in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Whether there is anything under this name.
    fn exists(&self, path: &Path) -> bool;
    /// Gives a file another name, in the place of any that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name. Whoever has it open can still use it.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Waits until the names in a directory are kept.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the lock on a file, which is made if need be, until the answer is dropped. `WouldBlock`: another has it.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
    /// The wall time that new files are stamped with, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// A number that no other log has.
    fn unique(&self, dir: &Path) -> u64;

    /// Whether calls may wait, so that whoever makes them needs a thread that may. Otherwise they are made in the caller's
    /// task, and nothing is given to another thread.
    fn waits(&self) -> bool {
        true
    }

    /// How long the log's writer lets pass before each group, where it needs no thread of its own.
    fn group_delay(&self) -> Duration {
        Duration::ZERO
    }
}

/// An open file. Dropping it closes it and keeps nothing that was not synced.
#[expect(clippy::len_without_is_empty, reason = "an empty file is no special case anywhere")]
pub trait DiskFile: Debug + Send + Sync {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills the buffer from `offset` on; an error where the file is shorter.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of the buffer at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts it, or makes it longer with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes it at least so long, with its space reserved, so that writing there changes no length and syncs are cheaper.
    fn reserve(&self, len: u64) -> io::Result<()>;
    /// Waits until its content is kept.
    fn sync_data(&self) -> io::Result<()>;
    /// Waits until its content and all that is known about it are kept.
    fn sync_all(&self) -> io::Result<()>;
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: Option<File>,
}

impl Lock {
    /// A lock that nobody else can ask for.
    pub fn unneeded() -> Self {
        Self { file: None }
    }

    pub(crate) fn release(&mut self) {
        if let Some(file) = self.file.take()
            && let Err(error) = file.unlock()
        {
            tracing::warn!(%error, "the log stays locked until this process ends");
        }
    }
}

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => {}
            Open::Write => {
                options.write(true);
            }
            Open::Create => {
                options.write(true).create(true).truncate(true);
            }
        }
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        file.try_lock().map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        Ok(Lock { file: Some(file) })
    }

    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn unique(&self, dir: &Path) -> u64 {
        let seed = format!("{:?} {} {}", SystemTime::now(), std::process::id(), dir.display());
        let hash = blake3::hash(seed.as_bytes());
        u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
    }
}

/// A file of this machine.
#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // A file system without it (tmpfs of old kernels, some network ones): a hole of that length does.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                if self.len()? < len {
                    self.0.set_len(len)
                } else {
                    Ok(())
                }
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Does `work` on files where it may wait: on a thread for that, unless the disk lets nobody wait. An error when it panicked.
pub(crate) async fn beside<T: Send + 'static>(disk: &dyn Disk, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if disk.waits() { tokio::task::spawn_blocking(work).await.map_err(io::Error::other) } else { Ok(work()) }
}

/// All of a file.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let len = usize::try_from(file.len()?).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Reads or writes a file from some place on. Not buffered.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub file: Arc<dyn DiskFile>,
    pub at: u64,
}

impl Read for Cursor {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.len()?.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let count = left.min(bytes.len());
        self.file.read_exact_at(&mut bytes[..count], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Write for Cursor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
