//! The machine's file system, until it is told to fail: then nothing is kept any more, though it may look as if it was.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use songline_log::{Disk, DiskFile, Lock, Open, RealDisk};

#[derive(Debug, Clone, Default)]
pub(super) struct Moody {
    failing: Arc<AtomicBool>,
}

impl Moody {
    pub fn fails(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        // EIO
        if self.failing.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

impl Disk for Moody {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        if how != Open::Read {
            self.check()?;
        }
        Ok(Arc::new(MoodyFile { disk: self.clone(), file: RealDisk.open(path, how)? }))
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
        self.check()?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check()?;
        RealDisk.sync_dir(dir)
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
    file: Arc<dyn DiskFile>,
}

impl DiskFile for MoodyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.check()?;
        self.file.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.disk.check()?;
        self.file.reserve(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.check()?;
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.disk.check()?;
        self.file.sync_all()
    }
}
