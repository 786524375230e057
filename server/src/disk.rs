//! Disk failures: the server's answers meanwhile, and its recovery when the disk works again.
//!
//! A failed write or sync of the log ends this server's part in consensus at once: the content of the disk is
//! unknown, so the server neither votes nor leads. Applied state stays readable. Module `room` handles a disk that is
//! merely about to be full.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use songline_log::{Disk as FileSystem, Failure, Open, OpenError};
use songline_model::with_sources;

use super::machine::Machine;
use super::{Core, watching};

/// Delay from a failure to the first probe of the disk; doubled after every failed probe ..
const TRY_AFTER: Duration = Duration::from_secs(1);
/// .. up to this. A failure this soon after a recovery continues the back-off of the previous failure.
const TRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// File that probes write.
const PROBE: &str = "disk-probe";
/// Size of the probe file in bytes: several pages, since a full disk may have a few pages left.
const PROBE_BYTES: usize = 64 << 10;

/// Numbers of failures and recoveries of the disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    failures: AtomicU64,
    returns: AtomicU64,
}

impl Disk {
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Relaxed)
    }
}

/// Watches the log's disk for as long as the server runs.
pub(crate) fn start(core: &Arc<Core>) {
    let log = core.log().clone();
    watching::until_shutdown(core, async move |own| {
        let mut wait = TRY_AFTER;
        loop {
            let since = tokio::time::Instant::now();
            // Any other failure is permanent and ends the process: see `fence`.
            let Failure::Disk { dir, why } = log.failed().await else { return };
            let Some(core) = own.upgrade() else { return };
            core.disk.failures.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                dir = %dir.display(),
                why,
                "this server's disk has failed: it neither leads nor votes, serves stale reads, and goes on once the disk works"
            );
            if since.elapsed() > TRY_AFTER_MAX {
                wait = TRY_AFTER;
            }
            drop(core);
            if come_back(&own, &mut wait).await.is_none() {
                return;
            }
        }
    });
}

/// Probes the disk until the log runs again; `None` when the server is gone.
async fn come_back(own: &Weak<Core>, wait: &mut Duration) -> Option<()> {
    loop {
        tokio::time::sleep(*wait).await;
        *wait = (*wait * 2).min(TRY_AFTER_MAX);
        let core = own.upgrade()?;
        if core.fence.why().is_some() {
            return None;
        }
        let (dir, disk) = (core.facts.dir.clone(), Arc::clone(&core.facts.disk));
        let probing = Arc::clone(&disk);
        let probed = disk.blocking(move || probe(&*probing, &dir)).await.and_then(|probed| probed);
        if let Err(error) = probed {
            tracing::info!(%error, again_in = ?*wait, "the disk does not work yet");
            continue;
        }
        if let Err(error) = core.room.check() {
            tracing::info!(%error, again_in = ?*wait, "the disk works and has no room yet");
            continue;
        }
        let machine = Machine::again(&core);
        if let Some(observer) = &core.facts.surroundings.observer {
            observer.began_anew();
        }
        match core.log().reopen(machine).await {
            Ok(()) => {
                core.disk.returns.fetch_add(1, Ordering::Relaxed);
                tracing::info!(recovery = ?core.log().recovery(), "the disk works again: this server takes part again");
                return Some(());
            }
            Err(error @ (OpenError::Damaged { .. } | OpenError::Format { .. })) => {
                core.fence.set(with_sources(&error));
                return None;
            }
            Err(
                error @ (OpenError::Io { .. } | OpenError::Locked { .. } | OpenError::Rebuild(_) | OpenError::Start(_)),
            ) => {
                tracing::warn!(error = &error as &dyn std::error::Error, again_in = ?*wait, "the log cannot be opened yet");
            }
        }
    }
}

/// Whether a file in `dir` can be written, synced and removed.
fn probe(disk: &dyn FileSystem, dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE);
    let written = disk.open(&path, Open::Create).and_then(|file| {
        file.write_all_at(&[0x5a; PROBE_BYTES], 0)?;
        file.sync_all()
    });
    // Remove the file even if writing it failed: a partial file takes up space.
    let removed = disk.remove(&path);
    written?;
    removed?;
    disk.sync_dir(dir)
}

impl Core {
    /// The disk's failure and the remedy, while this server is out of consensus because of it.
    pub(crate) fn disk_trouble(&self) -> Option<String> {
        match self.log.get()?.failure()? {
            failure @ Failure::Disk { .. } => Some(format!(
                "{failure}; this server takes no writes until it works and has room, and then goes on by itself"
            )),
            Failure::Consensus(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
