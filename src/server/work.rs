//! Carries long work on: proposes one slice after another for as long as some is under way.
//! Which slice is next and how large it is, is the scheduler's `work` machine.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, Cause, ContinueWork, Kind};
use songline_scheduler::leader::work::Pacer;

use super::Core;
use super::leadership::Reign;

/// How long to wait after a slice that could not be written.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// So many slices are on their way at once: while one applies, the next is made durable. More would only come in one batch, which holds
/// everybody up for as long as all of them take.
const SLICES_AT_ONCE: usize = 2;

/// Starts the loop; it ends with the reign. What was under way before goes on.
pub(crate) fn start(core: &Arc<Core>, reign: &Arc<Reign>) {
    let (core, under) = (Arc::clone(core), Arc::clone(reign));
    reign.spawn(async move { run(&core, &under).await });
}

/// Slices need no order: each goes on from where its work stands when it is applied. The last one on its way may find that all is done.
async fn run(core: &Core, reign: &Reign) {
    let mut pacer = Pacer::new();
    let mut on_their_way = FuturesUnordered::new();
    loop {
        while on_their_way.len() < SLICES_AT_ONCE
            && let Some(next) = pacer.next(&core.view())
        {
            on_their_way.push(write(core, reign, next));
        }
        tokio::select! {
            Some(took) = on_their_way.next() => {
                if let Some(took) = took {
                    pacer.on_applied(took);
                }
            }
            // A piece of work that is opened after the look above leaves a permit behind.
            () = core.work_opened.notified(), if on_their_way.len() < SLICES_AT_ONCE => {}
        }
    }
}

/// Writes a slice. Answers how long applying it took, if it was.
async fn write(core: &Core, reign: &Reign, slice: ContinueWork) -> Option<Duration> {
    let cause = Some(Cause::new(slice.work.0, Kind::EvalDelete));
    let proposal = Proposal { actor: Actor::Leader("work".into()), cause, idempotency: None, command: slice.into() };
    match core.write_under(reign, proposal).await {
        Ok((_, took)) => Some(took),
        // It is so old that nothing is known of it.
        Err(ProposeError::Rejected(_)) => None,
        Err(error) => {
            tracing::debug!(%error, "a slice of long work could not be written; it is tried again");
            tokio::time::sleep(RETRY_AFTER).await;
            None
        }
    }
}
