//! Bounds the log and its replay time: takes checkpoints, drops old segments that checkpoints cover, and archives that
//! only entries of such segments name.

use std::sync::{Arc, Weak};

use super::archives::Tidying;
use super::surroundings::Unsaved;
use super::{Core, Keeping, watching};

/// Starts the loop; it ends with the server.
pub(crate) fn start(core: &Arc<Core>) {
    let keeping = core.facts.surroundings.keeping;
    watching::until_shutdown(core, move |core| run(core, keeping));
}

async fn run(core: Weak<Core>, keeping: Keeping) {
    let mut checked = tokio::time::Instant::now();
    let mut archives = Tidying::default();
    loop {
        tokio::time::sleep(keeping.look_every).await;
        let Some(core) = core.upgrade() else { return };
        core.published.past.forget_unused();
        core.published.past.witness(core.view());
        let log = core.log();
        if log.failure().is_some() {
            continue;
        }
        archives.look(&core).await;
        let applied = log.applied().map_or(0, |position| position.index);
        let saved = log.checkpointed().map_or(0, |position| position.index);
        let unsaved = Unsaved {
            entries: applied.saturating_sub(saved),
            log_bytes: log.unsaved_bytes(),
            checkpoint_bytes: log.checkpoint_bytes(),
            age: checked.elapsed(),
        };
        if !keeping.is_due(unsaved) {
            continue;
        }
        checked = tokio::time::Instant::now();
        if let Err(error) = log.checkpoint_now().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "no checkpoint was made; the next one is tried later"
            );
            continue;
        }
        let now_ms = u64::try_from(core.now().nanos() / 1_000_000).unwrap_or(0);
        match log.retain(now_ms).await {
            Ok(dropped) if dropped.segments > 0 => {
                tracing::info!(
                    segments = dropped.segments,
                    bytes = dropped.bytes,
                    below = dropped.below,
                    "old log segments dropped"
                );
                forget_derived(&core);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "old log segments could not be dropped")
            }
        }
    }
}

/// Drops history below the oldest log entry, because it could not be rebuilt from the log.
pub(super) fn forget_derived(core: &Core) {
    let oldest = core.log().oldest_index() + core.view().base();
    // First the object history, which copies the rows that it refers to and will not find any more.
    if let Err(error) = core.object_history().forget_before(oldest, core.events()) {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the record of what old entries did could not be dropped; their events are kept until then"
        );
        return;
    }
    if let Err(error) = core.events().forget_before(oldest) {
        tracing::warn!(error = &error as &dyn std::error::Error, "old events could not be dropped");
    }
}
