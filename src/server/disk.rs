//! A disk that fails: what a server says meanwhile, and how it goes on by itself when the disk works again.
//!
//! A write or a sync of the log that fails ends this server's part in consensus at once: nobody knows what is on the disk, so it neither votes nor
//! leads. What it has applied stays readable. A disk that is merely about to be full is `room`'s business.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use songline_log::{Failure, OpenError};
use songline_model::with_sources;

use super::machine::Machine;
use super::{Core, lock, watching};

/// How soon after its failure the disk is tried; twice as long after every time that it does not work ..
const TRY_AFTER: Duration = Duration::from_secs(1);
/// .. up to this. A failure this soon after it worked counts as the same one.
const TRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// The file that is written to see whether the disk works.
const PROBE: &str = "disk-probe";
/// How long it is, in bytes: several pages, since a full disk may have a few left.
const PROBE_BYTES: usize = 64 << 10;

/// How often the disk has failed, and how often it has come back.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    failures: AtomicU64,
    returns: AtomicU64,
}

impl Disk {
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub fn returns(&self) -> u64 {
        self.returns.load(Ordering::Relaxed)
    }
}

/// Looks after the log's disk for as long as the server runs.
pub(crate) fn start(core: &Arc<Core>) {
    let log = core.log().clone();
    watching::until_shutdown(core, async move |own| {
        let mut wait = TRY_AFTER;
        loop {
            let since = tokio::time::Instant::now();
            // What has failed for good ends the process: see `fence`.
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

/// Tries until the log runs again; `None` when there is nothing to go on with.
async fn come_back(own: &Weak<Core>, wait: &mut Duration) -> Option<()> {
    loop {
        tokio::time::sleep(*wait).await;
        *wait = (*wait * 2).min(TRY_AFTER_MAX);
        let core = own.upgrade()?;
        if core.fence.why().is_some() {
            return None;
        }
        let dir = core.dir.clone();
        let probed = tokio::task::spawn_blocking(move || probe(&dir)).await.map_err(io::Error::other).and_then(|probed| probed);
        if let Err(error) = probed {
            tracing::info!(%error, again_in = ?*wait, "the disk does not work yet");
            continue;
        }
        if let Err(error) = core.room.check() {
            tracing::info!(%error, again_in = ?*wait, "the disk works and has no room yet");
            continue;
        }
        let machine = Machine::again(&core);
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
            Err(error @ (OpenError::Io { .. } | OpenError::Locked { .. } | OpenError::Rebuild(_) | OpenError::Start(_))) => {
                tracing::warn!(error = &error as &dyn std::error::Error, again_in = ?*wait, "the log cannot be opened yet");
            }
        }
    }
}

/// Whether a file can be written in `dir`, kept, and removed.
fn probe(dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&[0x5a; PROBE_BYTES])?;
        file.sync_all()
    });
    // A file that could not be written takes up room all the same.
    let removed = std::fs::remove_file(&path);
    written?;
    removed?;
    File::open(dir)?.sync_all()
}

impl Core {
    /// What is wrong with the disk, and what to do, while this server does not take part because of it.
    pub(crate) fn disk_trouble(&self) -> Option<String> {
        match self.log.get()?.failure()? {
            failure @ Failure::Disk { .. } => {
                Some(format!("{failure}; this server takes no writes until it works and has room, and then goes on by itself"))
            }
            Failure::Consensus(_) => None,
        }
    }

    /// Who leads as others have said lately: to a server that does not take part itself nobody else says it.
    pub(super) fn leader_by_hearsay(&self) -> Option<String> {
        self.cluster.leader_of_others()
    }

    /// The index up to which somebody in this process has announced what was applied.
    pub(super) fn announced(&self) -> u64 {
        *self.applied.borrow()
    }

    /// What the leader's machines are told through.
    pub(super) fn reactions(&self) -> Option<super::machine::Reacting> {
        lock(&self.reactions).clone()
    }
}

#[cfg(test)]
mod tests;
