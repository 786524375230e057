//! A disk over the machine's file system that fails, is full or hangs on command: from then on nothing is kept,
//! though writes may seem to succeed. Disks in memory are in the simulation.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use songline_log::{Disk, DiskFile, Lock, Open, RealDisk, put_by_rename};

/// The machine's file system, until a fault is set.
#[derive(Debug, Clone, Default)]
pub struct Moody {
    failing: Arc<AtomicBool>,
    full: Arc<AtomicBool>,
    held: Arc<(Mutex<bool>, Condvar)>,
    files: Arc<Mutex<BTreeMap<PathBuf, Pages>>>,
}

/// Earlier contents of overwritten parts of a file, with their offsets.
type Before = Vec<(u64, Vec<u8>)>;

/// Unsynced parts of a file, which only memory holds.
#[derive(Debug, Default)]
struct Pages {
    /// Written since the last sync.
    dirty: Before,
    /// Written before a failed sync: reads return the new content, and no later sync writes it.
    lost: Before,
}

impl Moody {
    /// Cuts the power: unsynced parts get their earlier content back.
    pub fn power_cut(&self) {
        for (path, pages) in std::mem::take(&mut *self.files.lock()) {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            for (offset, bytes) in pages.lost.iter().chain(&pages.dirty).rev() {
                file.write_all_at(bytes, *offset).unwrap();
            }
        }
    }

    /// Makes all changes of the disk fail, or succeed again.
    pub fn fails(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// Makes all operations that need space fail, or succeed again.
    pub fn fills(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// True: no sync returns from now on. False: syncs return again, including the waiting ones.
    pub fn holds(&self, holding: bool) {
        *self.held.0.lock() = holding;
        self.held.1.notify_all();
    }

    fn change(&self) -> io::Result<()> {
        // EIO
        if self.failing.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    fn grow(&self) -> io::Result<()> {
        self.change()?;
        if self.full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Disk for Moody {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        match how {
            Open::Read => {}
            Open::Write => self.change()?,
            Open::Create => self.grow()?,
        }
        Ok(Arc::new(MoodyFile { disk: self.clone(), path: path.to_owned(), file: RealDisk.open(path, how)? }))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(dir)
    }

    fn exists(&self, path: &Path) -> bool {
        RealDisk.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change()?;
        RealDisk.sync_dir(dir)
    }

    fn put(&self, path: &Path, content: &[u8], _private: bool) -> io::Result<()> {
        put_by_rename(self, path, content)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        RealDisk.lock(path)
    }

    fn now_ms(&self) -> u64 {
        RealDisk.now_ms()
    }

    fn unique(&self, dir: &Path) -> u64 {
        RealDisk.unique(dir)
    }
}

#[derive(Debug)]
struct MoodyFile {
    disk: Moody,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl MoodyFile {
    fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.disk.held.1.wait_while(&mut self.disk.held.0.lock(), |held| *held);
        let mut files = self.disk.files.lock();
        let pages = files.entry(self.path.clone()).or_default();
        let outcome = self.disk.change().and_then(|()| sync());
        let synced = std::mem::take(&mut pages.dirty);
        if outcome.is_err() {
            pages.lost.extend(synced);
        }
        outcome
    }
}

impl DiskFile for MoodyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// Data written to a failing disk may still be there afterwards.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut files = self.disk.files.lock();
        let pages = files.entry(self.path.clone()).or_default();
        let end = offset + bytes.len() as u64;
        let within = |(at, before): &(u64, Vec<u8>)| *at >= offset && *at + before.len() as u64 <= end;
        let (again, lost) = std::mem::take(&mut pages.lost).into_iter().partition(within);
        pages.lost = lost;
        pages.dirty.extend::<Before>(again);
        let there = self.file.len()?.min(end).saturating_sub(offset);
        let mut before = vec![0; usize::try_from(there).unwrap()];
        self.file.read_exact_at(&mut before, offset)?;
        pages.dirty.push((offset, before));
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.change()?;
        self.file.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.disk.grow()?;
        self.file.reserve(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(|| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(|| self.file.sync_all())
    }
}
