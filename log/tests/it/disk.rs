//! Disks that fail and work again: the log ends with its disk, says so, and goes on from what is on it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use songline_log::{Config, Disk, DiskFile, Failure, Lock, Log, NoTransport, NodeId, Open, OpenError, ProposeError, RealDisk};

use crate::cluster::Cluster;
use crate::machine::{Diary, config, open, propose};

/// How long anything may take here.
const WITHIN: Duration = Duration::from_secs(30);

/// The machine's file system, until it is told to fail.
#[derive(Debug, Clone, Default)]
struct Moody {
    failing: Arc<AtomicBool>,
    full: Arc<AtomicBool>,
    files: Arc<Mutex<BTreeMap<PathBuf, Pages>>>,
}

/// What was in a file before it was written to, and where.
type Before = Vec<(u64, Vec<u8>)>;

/// What of a file is in memory only.
#[derive(Debug, Default)]
struct Pages {
    /// Written since the last sync.
    dirty: Before,
    /// Written, and then a sync failed: it reads as if it was on disk, and no sync tries again.
    lost: Before,
}

impl Moody {
    /// The power fails: what only memory had is as it was before.
    fn power_cut(&self) {
        for (path, pages) in std::mem::take(&mut *self.files.lock().unwrap()) {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            for (offset, bytes) in pages.lost.iter().chain(&pages.dirty).rev() {
                file.write_all_at(bytes, *offset).unwrap();
            }
        }
    }

    fn fails(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
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
        if how == Open::Create {
            self.grow()?;
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
        let mut files = self.disk.files.lock().unwrap();
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

    /// What a failing disk is given may be there afterwards.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut files = self.disk.files.lock().unwrap();
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

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, work).await.unwrap_or_else(|_| panic!("waited too long until {what}"))
}

async fn open_on(dir: &Path, disk: &Moody) -> (Log<Diary>, Diary) {
    let diary = Diary::default();
    let config = Config { disk: Arc::new(disk.clone()), ..config(dir) };
    (Log::open(config, diary.clone(), Arc::new(NoTransport)).await.unwrap(), diary)
}

fn write(log: &Log<Diary>, text: &str) -> impl Future<Output = Result<usize, ProposeError>> + use<> {
    let (log, text) = (log.clone(), Bytes::from(text.to_owned()));
    async move { log.propose(text).await.map(|accepted| accepted.reply) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_whose_disk_fails_refuses_says_why_and_goes_on_with_all_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Moody::default();
    let (log, diary) = open_on(dir.path(), &disk).await;
    propose(&log, 0..100).await;
    let acknowledged = diary.commands();

    disk.fails(true);
    assert!(matches!(write(&log, "under way").await, Err(ProposeError::Stopped(_))), "its outcome is not known");
    let failure = in_time("the failure is told", log.failed()).await;
    assert!(matches!(failure, Failure::Disk { .. }), "{failure:?}");
    let where_it_is = dir.path().join("log").display().to_string();
    assert!(failure.to_string().starts_with(&format!("the disk that holds {where_it_is} has failed: ")), "{failure}");
    assert!(!log.is_leader());
    assert_eq!(log.leadership().borrow().leader, None);
    assert_eq!(write(&log, "refused").await, Err(ProposeError::Disk(failure.clone())));
    assert_eq!(log.lease_barrier().await, Err(ProposeError::Disk(failure.clone())));
    let first = log.read(0..u64::MAX).unwrap_or_else(|error| panic!("what is there is read on: {error}")).next().unwrap();
    assert!(first.is_ok());

    let early = Diary::default();
    assert!(matches!(log.reopen(early).await, Err(OpenError::Io { .. })), "it does not work yet");
    assert_eq!(log.failure(), Some(failure));

    disk.fails(false);
    let again = Diary::default();
    log.reopen(again.clone()).await.unwrap();
    assert!(log.is_leader());
    assert_eq!(log.failure(), None);
    let mut found = again.commands();
    found.retain(|command| command != "under way");
    assert_eq!(found, acknowledged);
    propose(&log, 100..120).await;
    assert!(again.commands().contains(&"command-119".to_owned()));
    assert!(!again.commands().contains(&"refused".to_owned()));
    let before = again.commands();
    log.shutdown().await;
    let (log, after) = open(dir.path()).await;
    assert_eq!(after.commands(), before);
    assert_eq!(log.recovery().torn, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_failed_sync_left_in_memory_is_on_disk_before_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Moody::default();
    let (log, _) = open_on(dir.path(), &disk).await;
    propose(&log, 0..10).await;
    disk.fails(true);
    write(&log, "under way").await.unwrap_err();
    in_time("the failure is told", log.failed()).await;
    disk.fails(false);
    let again = Diary::default();
    log.reopen(again.clone()).await.unwrap();
    assert!(again.commands().contains(&"under way".to_owned()), "it reads as if it was there");
    propose(&log, 10..20).await;
    let acknowledged = again.commands();
    log.shutdown().await;
    disk.power_cut();
    let (_log, found) = open(dir.path()).await;
    assert_eq!(found.commands(), acknowledged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_while_nobody_writes_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Moody::default();
    let (log, _) = open_on(dir.path(), &disk).await;
    propose(&log, 0..5).await;
    // The mark behind what was written is set a moment later.
    disk.fails(true);
    in_time("the failure is told", log.failed()).await;
    in_time("it does not lead", async { log.leadership().wait_for(|now| !now.is_leader).await.map(|_| ()) }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_the_log_when_it_needs_another_file_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Moody::default();
    let (log, diary) = open_on(dir.path(), &disk).await;
    disk.full.store(true, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    for n in 0.. {
        let text = format!("full-{n}");
        match write(&log, &text).await {
            Ok(_) => acknowledged.push(text),
            Err(_) => break,
        }
    }
    assert!(acknowledged.len() > 5, "what was reserved is used");
    in_time("the failure is told", log.failed()).await;
    assert_eq!(diary.commands(), acknowledged);
    disk.full.store(false, Ordering::SeqCst);
    let again = Diary::default();
    log.reopen(again.clone()).await.unwrap();
    assert!(again.commands().starts_with(&acknowledged));
    write(&log, "after").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_works_or_is_shut_down_is_not_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path()).await;
    assert!(matches!(log.reopen(Diary::default()).await, Err(OpenError::Start(_))));
    log.shutdown().await;
    assert!(matches!(log.reopen(Diary::default()).await, Err(OpenError::Start(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_go_on_without_a_server_whose_disk_failed_and_it_catches_up() {
    let disks: BTreeMap<NodeId, Moody> = (1..=3).map(|id| (id, Moody::default())).collect();
    let given = disks.iter().map(|(id, disk)| (*id, Arc::new(disk.clone()) as Arc<dyn Disk>)).collect();
    let mut cluster = Cluster::founded_on(3, given).await;
    for round in 0..4 {
        let leader = cluster.write(&format!("before-{round}")).await;
        // The leader, and then one that follows.
        let victim = if round % 2 == 0 { leader } else { leader % 3 + 1 };
        disks[&victim].fails(true);
        let during = format!("during-{round}");
        let leads = cluster.write(&during).await;
        assert_ne!(leads, victim);
        let failure = in_time("it has noticed", cluster.log(victim).failed()).await;
        assert!(matches!(failure, Failure::Disk { .. }), "{failure:?}");
        assert!(!cluster.log(victim).is_leader());
        cluster.reopen(victim).await.unwrap_err();
        disks[&victim].fails(false);
        cluster.reopen(victim).await.unwrap();
        cluster.until("it has what it missed", |it| it.has(victim, &during)).await;
        cluster.write(&format!("after-{round}")).await;
    }
    cluster.until_all_agree().await;
}
