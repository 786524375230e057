//! A disk in memory. When its machine dies, unsynced data is lost in whole or in part. The disk can also be full or
//! broken. The log decides what is written.

mod flips;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_log::{Disk, DiskFile, Lock, Open, put_by_rename};
use tokio::time::Instant;

use super::clock::Clock;

/// Size of the unit that is written or lost as a whole, in bytes: less than a page, so that a page can be torn.
const SECTOR_BYTES: usize = 512;
/// Time within which a server has noticed trouble of its disk.
const TROUBLE_NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// Content of a disk, which outlives a machine's lives. Each life accesses it through its own `SimDisk`.
#[derive(Debug)]
pub struct Platter {
    rng: SmallRng,
    files: BTreeMap<u64, File>,
    next_file: u64,
    names: BTreeMap<PathBuf, u64>,
    /// Names as they would be found after a crash, without the pending changes.
    kept_names: BTreeMap<PathBuf, u64>,
    /// Changes of names that are not synced yet, oldest first.
    pending: Vec<Naming>,
    /// Number of the current life; handles of earlier lives are dead.
    life: u64,
    /// Number of further changes after which the machine dies.
    dies_after: Option<u64>,
    troubles: Troubles,
    /// Time at which its troubles last began or ended.
    changed: Option<Instant>,
}

/// Faults of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Troubles {
    /// The disk is full: nothing can grow.
    pub full: bool,
    /// Writes and syncs fail.
    pub failing: bool,
}

#[derive(Debug, Clone)]
enum Naming {
    Set(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Debug, Default)]
struct File {
    now: Vec<u8>,
    kept: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl Naming {
    fn carry_out(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Set(path, file) => {
                names.insert(path.clone(), *file);
            }
            Self::Remove(path) => {
                names.remove(path);
            }
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        let (Self::Set(path, _) | Self::Remove(path) | Self::Rename(path, _)) = self;
        path.parent() == Some(dir)
    }
}

impl File {
    fn touch(&mut self, from: usize, to: usize) {
        self.dirty.extend(from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES));
    }

    fn sync(&mut self) {
        self.kept.resize(self.now.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            self.keep_sector(sector);
        }
    }

    /// Copies a sector to the synced content, as far as both have it.
    fn keep_sector(&mut self, sector: usize) {
        let end = ((sector + 1) * SECTOR_BYTES).min(self.now.len()).min(self.kept.len());
        let start = (sector * SECTOR_BYTES).min(end);
        self.kept[start..end].copy_from_slice(&self.now[start..end]);
    }

    fn set_len(&mut self, len: usize) {
        let before = self.now.len();
        self.now.resize(len, 0);
        self.touch(before.min(len), before.max(len));
    }

    /// Loses unsynced data as the machine dies: each unsynced sector, and the length, may or may not have been kept.
    fn crash(&mut self, rng: &mut SmallRng) {
        if rng.random_bool(0.5) {
            self.kept.resize(self.now.len(), 0);
        }
        let luck = rng.random_range(0..=4);
        for sector in std::mem::take(&mut self.dirty) {
            if rng.random_range(0..4) < luck {
                self.keep_sector(sector);
            }
        }
        self.now.clone_from(&self.kept);
    }
}

/// A disk's content, shared by the lives of one machine.
pub type SharedPlatter = Arc<Mutex<Platter>>;

impl Platter {
    /// Creates an empty disk.
    pub fn new(seed: u64) -> SharedPlatter {
        Arc::new(Mutex::new(Self {
            rng: SmallRng::seed_from_u64(seed),
            files: BTreeMap::new(),
            next_file: 0,
            names: BTreeMap::new(),
            kept_names: BTreeMap::new(),
            pending: Vec::new(),
            life: 0,
            dies_after: None,
            troubles: Troubles::default(),
            changed: None,
        }))
    }

    /// Kills the machine, which loses unsynced data.
    pub fn crash(&mut self) {
        self.life += 1;
        self.dies_after = None;
        // Names are kept in their order, as by a journal.
        let kept = self.rng.random_range(0..=self.pending.len());
        for naming in self.pending.drain(..).take(kept) {
            naming.carry_out(&mut self.kept_names);
        }
        self.names.clone_from(&self.kept_names);
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| named.contains(file));
        for file in self.files.values_mut() {
            file.crash(&mut self.rng);
        }
    }

    /// Ends the life of a machine, unless it has ended already.
    pub fn end(&mut self, disk: &SimDisk) {
        if self.life == disk.life {
            self.crash();
        }
    }

    /// Lets the machine die in the middle of writing, after `changes` further changes.
    pub fn die_after(&mut self, changes: u64) {
        self.dies_after = Some(changes);
    }

    /// Sets the disk's faults from now on.
    pub fn trouble(&mut self, troubles: Troubles) {
        self.troubles = troubles;
        self.changed = Some(Instant::now());
    }

    /// Whether the disk is neither dying nor in trouble, nor was a moment ago: a server notices a fault with a delay.
    pub fn is_well(&self) -> bool {
        let settled = self.changed.is_none_or(|at| at.elapsed() > TROUBLE_NOTICED_WITHIN);
        self.dies_after.is_none() && self.troubles == Troubles::default() && settled
    }

    fn name(&mut self, naming: Naming) {
        naming.carry_out(&mut self.names);
        self.pending.push(naming);
    }
}

/// Access of one life of a machine to its disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    platter: SharedPlatter,
    life: u64,
    clock: Clock,
    delay: Duration,
}

impl SimDisk {
    /// Creates the access for a machine that starts now. Writing a group of its log takes `delay`.
    pub fn new(platter: &SharedPlatter, clock: Clock, delay: Duration) -> Self {
        let life = platter.lock().life;
        Self { platter: Arc::clone(platter), life, clock, delay }
    }

    /// Whether the machine has died in this life.
    pub fn is_dead(&self) -> bool {
        let platter = self.platter.lock();
        platter.life != self.life || platter.dies_after == Some(0)
    }

    /// Locks the disk for reading. Fails when the machine is dead.
    fn look(&self) -> io::Result<MutexGuard<'_, Platter>> {
        let platter = self.platter.lock();
        if platter.life != self.life || platter.dies_after == Some(0) {
            Err(io::Error::other("the machine is dead"))
        } else {
            Ok(platter)
        }
    }

    /// Locks the disk for a change. Fails when the machine is dead or the disk has a fault.
    fn change(&self) -> io::Result<MutexGuard<'_, Platter>> {
        let mut platter = self.look()?;
        if let Some(left) = &mut platter.dies_after {
            *left = left.saturating_sub(1);
        }
        if platter.troubles.failing {
            return Err(io::Error::from(io::ErrorKind::Other));
        }
        Ok(platter)
    }

    fn grow(&self) -> io::Result<MutexGuard<'_, Platter>> {
        let platter = self.change()?;
        if platter.troubles.full { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(platter) }
    }
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let file = match how {
            Open::Read | Open::Write => *self.look()?.names.get(path).ok_or_else(not_found)?,
            Open::Create => {
                let mut platter = self.grow()?;
                // An existing file is truncated, not replaced: open handles see that.
                if let Some(file) = platter.names.get(path).copied() {
                    platter.files.entry(file).or_default().set_len(0);
                    file
                } else {
                    let file = platter.next_file;
                    platter.next_file += 1;
                    platter.files.insert(file, File::default());
                    platter.name(Naming::Set(path.to_owned(), file));
                    file
                }
            }
        };
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        self.look().map(|_| ())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let platter = self.look()?;
        Ok(platter.names.keys().filter(|path| path.parent() == Some(dir)).cloned().collect())
    }

    fn exists(&self, path: &Path) -> bool {
        self.look().is_ok_and(|platter| platter.names.contains_key(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut platter = self.change()?;
        if !platter.names.contains_key(from) {
            return Err(not_found());
        }
        platter.name(Naming::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut platter = self.change()?;
        if !platter.names.contains_key(path) {
            return Err(not_found());
        }
        platter.name(Naming::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut platter = self.change()?;
        let (kept, pending) = std::mem::take(&mut platter.pending).into_iter().partition(|naming| naming.is_in(dir));
        platter.pending = pending;
        let kept: Vec<Naming> = kept;
        for naming in kept {
            naming.carry_out(&mut platter.kept_names);
        }
        Ok(())
    }

    fn put(&self, path: &Path, content: &[u8], _private: bool) -> io::Result<()> {
        put_by_rename(self, path, content)
    }

    fn lock(&self, _path: &Path) -> io::Result<Lock> {
        self.look().map(|_| Lock::unneeded())
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    fn unique(&self, _dir: &Path) -> u64 {
        self.platter.lock().rng.random()
    }

    fn waits(&self) -> bool {
        false
    }

    fn group_delay(&self) -> Duration {
        self.delay
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    file: u64,
}

impl SimFile {
    fn with<T>(&self, platter: &mut Platter, act: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        platter.files.get_mut(&self.file).map_or_else(|| Err(not_found()), act)
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("simulated files are small")
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.with(&mut *self.disk.look()?, |file| Ok(file.now.len() as u64))
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(&mut *self.disk.look()?, |file| {
            let from = size(offset);
            let there =
                file.now.get(from..from + bytes.len()).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            bytes.copy_from_slice(there);
            Ok(())
        })
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (from, to) = (size(offset), size(offset) + bytes.len());
        let mut platter = self.disk.change()?;
        let full = platter.troubles.full;
        self.with(&mut platter, |file| {
            if to > file.now.len() {
                if full {
                    return Err(io::Error::from(io::ErrorKind::StorageFull));
                }
                file.set_len(to);
            }
            file.now[from..to].copy_from_slice(bytes);
            file.touch(from, to);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(&mut *self.disk.change()?, |file| {
            file.set_len(size(len));
            Ok(())
        })
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let needed = |file: &mut File| Ok(file.now.len() < size(len));
        if self.with(&mut *self.disk.look()?, needed)? {
            self.with(&mut *self.disk.grow()?, |file| {
                file.set_len(size(len));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(&mut *self.disk.change()?, |file| {
            file.sync();
            Ok(())
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests;
