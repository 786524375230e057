//! Rebuilds the state from files: the newest sound checkpoint, then the entries after it that are known to be
//! committed. Consensus applies the entries beyond those once it runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::{self, Checkpoint, CheckpointInfo};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::history::committed;
use crate::log::Config;
use crate::machine::StateMachine;
use crate::position::{Edge, Position};
use crate::raft::Machine;
use crate::store::{Done, Store, TornTail};

/// Bytes of entries read and applied at a time.
const REPLAY_BYTES: usize = 1 << 20;

/// Result of the rebuild at a start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Position of the checkpoint that was used. `None`: all entries were replayed from the first on.
    pub checkpoint: Option<Position>,
    /// Newer checkpoints that could not be used, with the reasons.
    pub rejected: Vec<CheckpointInfo>,
    /// Number of entries replayed from the log before consensus started.
    pub replayed: u64,
    /// A tail of the log that was never acknowledged and was cut off.
    pub torn: Option<TornTail>,
}

pub(crate) fn recover<S: StateMachine>(config: &Config, state: S) -> Result<(Store, Machine<S>, Recovery), OpenError> {
    let dir = config.checkpoints_dir();
    config.disk.create_dir_all(&dir).map_err(OpenError::io("creating", &dir))?;
    let (store, opened) = Store::open_on(Arc::clone(&config.disk), &config.log_dir(), config.store.clone())?;
    checkpoint::remove_unfinished(config.disk.as_ref(), &dir).map_err(OpenError::io("tidying", &dir))?;
    adopt_received(config.disk.as_ref(), &store, &dir)?;
    let mut machine = Machine::new(state, Arc::clone(&config.disk), dir.clone());
    let mut recovery = Recovery { torn: opened.torn, ..Recovery::default() };

    let mut start = 0;
    if let Some(checkpoint) = newest_sound(config.disk.as_ref(), &dir, &mut recovery.rejected)? {
        start = checkpoint.meta.position.index + 1;
        fits_the_log(&store, &checkpoint)?;
        recovery.checkpoint = Some(checkpoint.meta.position);
        machine.install(checkpoint).map_err(OpenError::Rebuild)?;
    }
    let oldest = store.floor().next;
    if start < oldest {
        let what = format!("entries {start} to {} are needed to rebuild the state and are gone", oldest - 1);
        return Err(OpenError::damaged(&dir, start, what));
    }

    let end = opened.committed.next;
    while start < end {
        let records = store.read(start..end, REPLAY_BYTES).map_err(OpenError::Rebuild)?;
        let count = records.len() as u64;
        let batch = records.into_iter().map(committed).collect::<Result<Vec<_>, _>>().map_err(OpenError::Rebuild)?;
        if batch.is_empty() {
            break;
        }
        machine.apply_batch(batch).map_err(OpenError::Rebuild)?;
        start += count;
        recovery.replayed += count;
    }
    Ok((store, machine, recovery))
}

/// Finishes an installation that a crash may have interrupted: a checkpoint of another server replaces the entries up
/// to it. A damaged one is skipped.
fn adopt_received(disk: &dyn Disk, store: &Store, dir: &Path) -> Result<(), OpenError> {
    for path in checkpoint::received(disk, dir).map_err(OpenError::io("listing", dir))? {
        match Checkpoint::verify(disk, &path) {
            Ok(checkpoint) => begin_behind(store, checkpoint.meta.position)
                .map_err(OpenError::io("emptying the log before", &path))?,
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "a checkpoint of another server is damaged");
                continue;
            }
        }
        checkpoint::adopt(disk, &path, dir).map_err(OpenError::io("renaming", &path))?;
    }
    Ok(())
}

/// Drops the whole log so that it begins after `position`. Keeps it if it has the entry at `position` with the same
/// term.
fn begin_behind(store: &Store, position: Position) -> io::Result<()> {
    let behind = Edge::after(position);
    if store.floor().next >= behind.next {
        return Ok(());
    }
    let there = store.last().next > position.index
        && store.read(position.index..behind.next, 1)?.first().is_some_and(|it| it.position == position);
    if there {
        return Ok(());
    }
    let floor = store.floor().next;
    wait(store, |done| store.truncate(floor.min(store.last().next), done))?;
    wait(store, |done| store.purge(behind, done))
}

/// Makes a change to the store and blocks until it is on disk.
fn wait(store: &Store, change: impl FnOnce(Done) -> io::Result<()>) -> io::Result<()> {
    let (tx, rx) = std::sync::mpsc::channel();
    change(Box::new(move |outcome| drop(tx.send(outcome))))?;
    store.settle();
    rx.recv().map_err(|_| io::Error::other("the log's writer stopped"))?
}

fn newest_sound(
    disk: &dyn Disk,
    dir: &Path,
    rejected: &mut Vec<CheckpointInfo>,
) -> Result<Option<Checkpoint>, OpenError> {
    let paths: Vec<PathBuf> = checkpoint::list(disk, dir).map_err(OpenError::io("listing", dir))?;
    for path in paths {
        match Checkpoint::verify(disk, &path) {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "a checkpoint is damaged, trying an older one");
                rejected.push(CheckpointInfo { path, position: Err(error.to_string()) });
            }
        }
    }
    Ok(None)
}

/// An error if the log ends before the checkpoint: a checkpoint is made of committed entries, so the log has lost some.
fn fits_the_log(store: &Store, checkpoint: &Checkpoint) -> Result<(), OpenError> {
    let position = checkpoint.meta.position;
    let last = store.last();
    if position.index >= last.next {
        let what = format!("the checkpoint has entry {}, but the log ends before {}", position.index, last.next);
        return Err(OpenError::damaged(&checkpoint.path, last.next, what));
    }
    Ok(())
}
