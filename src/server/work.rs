//! Carries long work on: proposes one slice after another for as long as some is under way.
//! Which slice is next and how large it is, is the scheduler's `work` machine.

use std::sync::Arc;
use std::time::Duration;

use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, Cause, Kind};
use songline_scheduler::leader::work::Pacer;

use super::Core;
use super::leadership::Reign;

/// How long to wait after a slice that could not be written.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Starts the loop; it ends with the reign. What was under way before goes on.
pub(crate) fn start(core: &Arc<Core>, reign: &Arc<Reign>) {
    let (core, under) = (Arc::clone(core), Arc::clone(reign));
    reign.spawn(async move { run(&core, &under).await });
}

/// One at a time: two of them in one batch would hold everybody up for twice as long.
async fn run(core: &Core, reign: &Reign) {
    let mut pacer = Pacer::new();
    loop {
        // A piece of work that is opened after this look leaves a permit behind.
        let Some(next) = pacer.next(&core.view()) else {
            core.work_opened.notified().await;
            continue;
        };
        let cause = Some(Cause::new(next.work.0, Kind::EvalDelete));
        let proposal = Proposal { actor: Actor::Leader("work".into()), cause, idempotency: None, command: next.into() };
        match core.write_under(reign, proposal).await {
            Ok((_, took)) => pacer.on_applied(took),
            // It is so old that nothing is known of it.
            Err(ProposeError::Rejected(_)) => {}
            Err(error) => {
                tracing::debug!(%error, "a slice of long work could not be written; it is tried again");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}
