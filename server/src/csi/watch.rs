//! The loop around the leader's volume watcher: starts the releases that it asks for, and reports how they ended. It
//! ends with the leadership term; the next leader continues from the recorded steps.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use songline_rpc::RpcError;
use songline_scheduler::leader::volumes::Release;

use super::super::leadership::LeadershipTerm;
use super::super::{Core, panics};

/// Longest wait without a look at the clock.
const WAIT_MAX: Duration = Duration::from_mins(5);

/// Starts the loop.
pub(crate) fn start(core: &Arc<Core>, term: &Arc<LeadershipTerm>) {
    let (core, under) = (Arc::clone(core), Arc::clone(term));
    term.spawn(async move { run(&core, &under).await });
}

async fn run(core: &Core, term: &LeadershipTerm) {
    let mut running = FuturesUnordered::new();
    loop {
        let releases = core.leader.volumes.lock().on_time(&core.view(), core.pace());
        running.extend(releases.into_iter().map(|release| carry_out(core, term, release)));
        let deadline = core.leader.volumes.lock().next_deadline();
        let wait = deadline.map_or(WAIT_MAX, |at| at.since(core.pace()).to_std().min(WAIT_MAX));
        tokio::select! {
            Some((release, outcome)) = running.next() => report(core, &release, &outcome),
            // A change after the look above leaves a permit, so this returns at once.
            () = core.leader.volumes_changed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn carry_out(core: &Core, term: &LeadershipTerm, release: Release) -> (Release, Result<u64, RpcError>) {
    let outcome = panics::caught(core.release(term, &release.volume, release.alloc)).await;
    (release, outcome.unwrap_or_else(|panicked| Err(RpcError::remote(panicked.to_string()))))
}

fn report(core: &Core, release: &Release, outcome: &Result<u64, RpcError>) {
    if let Err(error) = outcome {
        let Release { volume, alloc } = release;
        tracing::warn!(
            volume = %volume.id, namespace = %volume.namespace, %alloc, %error,
            "a claim on a volume could not be released; it is tried again"
        );
    }
    core.leader.volumes.lock().on_outcome(release, outcome.is_ok(), core.pace());
}
