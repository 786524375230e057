//! Carries long work on: proposes one slice after another for as long as some is under way.
//! Which slice is next and how large it is, is the scheduler's `work` machine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, Cause, Kind};
use songline_scheduler::leader::work::Pacer;

use super::{Core, lock};

/// How long to wait after a slice that could not be written.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Starts the loop; it ends with the server. What was under way before goes on.
pub(crate) fn start(core: &Arc<Core>) {
    let core = Arc::clone(core);
    tokio::spawn(async move {
        let shutdown = core.shutdown.clone();
        tokio::select! {
            () = run(&core) => {}
            () = shutdown.cancelled() => {}
        }
    });
}

async fn run(core: &Core) {
    let pacer = Mutex::new(Pacer::new());
    loop {
        // Two slices are on their way at a time: while one applies, the next is made durable.
        tokio::join!(lane(core, &pacer), lane(core, &pacer));
        // A piece of work that was opened since leaves a permit behind.
        core.work_opened.notified().await;
    }
}

/// One slice after another until no work is under way. The last slices may find that the work has ended, and do nothing.
async fn lane(core: &Core, pacer: &Mutex<Pacer>) {
    loop {
        let Some(next) = lock(pacer).next(&core.view()) else { return };
        let cause = Some(Cause::new(next.work.0, Kind::EvalDelete));
        let proposal = Proposal { actor: Actor::Leader("work".into()), cause, idempotency: None, command: next.into() };
        match core.write_timed(proposal).await {
            Ok((_, took)) => lock(pacer).on_applied(took),
            // It is so old that nothing is known of it.
            Err(ProposeError::Rejected(_)) => {}
            Err(error) => {
                tracing::debug!(%error, "a slice of long work could not be written; it is tried again");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}
