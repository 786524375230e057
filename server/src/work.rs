//! Continues long work: proposes one slice after another while some is pending. The scheduler's `work` machine
//! chooses the next slice and its size.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, Cause, ContinueWork, Kind};
use songline_scheduler::leader::work::Pacer;

use super::Core;
use super::leadership::LeadershipTerm;

/// Delay after a slice that could not be written.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Number of slices in flight: while one is applied, the next is made durable. More would be applied as one batch,
/// which blocks all other entries for the time of all of them.
const SLICES_AT_ONCE: usize = 2;

/// Starts the loop; it ends with the leadership term. Work that was pending before continues.
pub(crate) fn start(core: &Arc<Core>, term: &Arc<LeadershipTerm>) {
    let (core, under) = (Arc::clone(core), Arc::clone(term));
    term.spawn(async move { run(&core, &under).await });
}

/// Proposes slices. Their order does not matter: each continues from the state of its work when it is applied. The
/// last slice in flight may find that everything is done.
async fn run(core: &Core, term: &LeadershipTerm) {
    let mut pacer = Pacer::new();
    let mut on_their_way = FuturesUnordered::new();
    loop {
        while on_their_way.len() < SLICES_AT_ONCE
            && let Some(next) = pacer.next(&core.view())
        {
            on_their_way.push(write(core, term, next));
        }
        tokio::select! {
            Some(took) = on_their_way.next() => {
                if let Some(took) = took {
                    pacer.on_applied(took);
                }
            }
            // Work that is opened after the check above leaves a permit, so this returns at once.
            () = core.leader.work_opened.notified(), if on_their_way.len() < SLICES_AT_ONCE => {}
        }
    }
}

/// Writes a slice. Returns the duration of applying it, if it was applied.
async fn write(core: &Core, term: &LeadershipTerm, slice: ContinueWork) -> Option<Duration> {
    let cause = Some(Cause::new(slice.work.0, Kind::EvalDelete));
    let proposal = Proposal { actor: Actor::Leader("work".into()), cause, idempotency: None, command: slice.into() };
    match core.write_under(term, proposal).await {
        Ok((_, took)) => Some(took),
        // The slice is so old that its work no longer exists.
        Err(ProposeError::Rejected(_)) => None,
        Err(error) => {
            tracing::debug!(%error, "a slice of long work could not be written; it is tried again");
            tokio::time::sleep(RETRY_AFTER).await;
            None
        }
    }
}
