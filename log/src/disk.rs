//! File access: the trait that the log uses, and its implementation for the real file system. The format of the files
//! is defined elsewhere. A simulation brings its own implementation.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Mode in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new, empty file; replaces a file of the same name.
    Create,
}

/// A file system. Calls may block. Written data is durable after a sync of the file; a created, removed or changed name
/// is durable after a sync of its directory.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a directory and its parents, unless they exist.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Paths of everything in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Whether something with this path exists.
    fn exists(&self, path: &Path) -> bool;
    /// Renames a file; replaces a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name. Open handles to the file stay usable.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Blocks until the names in a directory are durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a file, which is created if necessary, until the returned lock is dropped. `WouldBlock`: another process
    /// holds the lock.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
    /// Wall time for new files, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// A nonce that no other log has.
    fn unique(&self, dir: &Path) -> u64;

    /// Whether work may block its thread, so that it needs one on which blocking is allowed. If false, it runs in its
    /// caller's task: a simulation has one thread. Everything that starts threads for such work asks this.
    fn waits(&self) -> bool {
        true
    }

    /// Delay before each group that the log's writer writes, on a disk whose calls do not block.
    fn group_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Reads a whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, Open::Read)?;
        let len = usize::try_from(file.len()?).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Writes a small file durably, in place of a file with the same name. A crash leaves one of the two. A private
    /// file and a directory made for it can be read by their owner only.
    fn put(&self, path: &Path, content: &[u8], private: bool) -> io::Result<()>;

    /// Number of bytes that may still be written to the disk of a directory.
    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

/// An open file. Dropping it closes it; data that was not synced may be lost.
#[expect(clippy::len_without_is_empty, reason = "an empty file is no special case anywhere")]
pub trait DiskFile: Debug + Send + Sync {
    /// Length of the file in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills the buffer from `offset` on; an error if the file ends before.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes the whole buffer at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the file at least `len` bytes long and reserves its space. Writes there change no length, which makes
    /// syncs cheaper.
    fn reserve(&self, len: u64) -> io::Result<()>;
    /// Blocks until the content is durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Blocks until content and metadata are durable.
    fn sync_all(&self) -> io::Result<()>;
}

/// A file lock; dropping it releases it.
#[derive(Debug)]
pub struct Lock {
    file: Option<File>,
}

impl Lock {
    /// A lock for a disk that no other process can use.
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

    fn put(&self, path: &Path, content: &[u8], private: bool) -> io::Result<()> {
        let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        std::fs::DirBuilder::new().recursive(true).mode(if private { 0o700 } else { 0o777 }).create(dir)?;
        let unfinished = path.with_extension("tmp");
        // The mode of a file that an interrupted call has left may be another one.
        match std::fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mode = if private { 0o600 } else { 0o666 };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, path)?;
        File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let told = rustix::fs::statvfs(dir)?;
        Ok(told.f_bavail.saturating_mul(told.f_frsize))
    }
}

/// An open file of this machine's file system.
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
            // Some file systems cannot reserve space (tmpfs of old kernels, some network ones). A hole of that length
            // will do.
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

impl dyn Disk + '_ {
    /// Runs work that blocks, on a thread for such work, or right here if work may not block. An error means that the
    /// work panicked.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        if self.waits() { tokio::task::spawn_blocking(work).await.map_err(io::Error::other) } else { Ok(work()) }
    }

    /// Starts work that blocks and that is waited for by nothing, on a thread of this name, or runs it right here.
    pub fn start_blocking(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if self.waits() {
            return std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop);
        }
        work();
        Ok(())
    }
}

/// [`Disk::put`] by the other calls, for a disk that has no owners or modes.
pub fn put_by_rename(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    let file = disk.open(&unfinished, Open::Create)?;
    file.write_all_at(content, 0)?;
    file.sync_all()?;
    disk.rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}

/// Sequential reads or writes of a file from an offset on. Not buffered.
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
