//! Fencing: a server that detects that its own state is wrong stops serving, reports the reason for a few seconds,
//! and ends its process. The detecting module gives the reason; the agent ends the process.

use std::time::Duration;

use futures_util::future::BoxFuture;
use songline_log::Failure;
use tokio::sync::watch;

use super::Core;

/// Time for which a fenced server still reports that it is fenced.
const TELL_FOR: Duration = Duration::from_secs(5);
/// Longest wait for the workers to finish.
const WORKERS_WAIT: Duration = Duration::from_secs(1);

/// The reason why the server has fenced itself, if it has.
#[derive(Debug)]
pub(crate) struct Fence(watch::Sender<Option<String>>);

impl Default for Fence {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Fence {
    /// Fences the server. Only the first reason is kept.
    pub(crate) fn set(&self, why: String) {
        tracing::error!(why, "this server fences itself");
        self.0.send_if_modified(|now| {
            let first = now.is_none();
            now.get_or_insert(why);
            first
        });
    }

    /// The reason for the fence, if the server is fenced.
    pub(crate) fn why(&self) -> Option<String> {
        self.0.borrow().clone()
    }
}

impl Core {
    /// Returns when this server cannot continue: it is fenced and clients had time to read the reason, or its log has
    /// failed. The caller then has to end the process.
    pub fn failed(&self) -> BoxFuture<'_, String> {
        Box::pin(self.failed_for_any_reason())
    }

    async fn failed_for_any_reason(&self) -> String {
        let mut fenced = self.fence.0.subscribe();
        let failure = tokio::select! {
            biased;
            // The fence lives as long as the server, so its sender cannot be gone.
            _ = fenced.wait_for(Option::is_some) => None,
            failure = self.failed_for_good() => Some(failure),
        };
        // The fence stops applying, so the log may have reported its failure first. The fence's reason takes
        // precedence.
        let why = match (self.fence.why(), failure) {
            (Some(why), _) => {
                tokio::time::sleep(TELL_FOR).await;
                why
            }
            (None, failure) => failure.unwrap_or_else(|| "the server is gone".to_owned()),
        };
        self.end_workers().await;
        why
    }

    /// Returns when consensus has failed for another reason than a failing disk.
    async fn failed_for_good(&self) -> String {
        let mut failures = self.log().failures();
        let for_good = |failure: &Option<Failure>| matches!(failure, Some(Failure::Consensus(_)));
        match failures.wait_for(for_good).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure.to_string(),
            // Unreachable: the log lives as long as the server.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Stops the workers' threads, which must not outlive the runtime that they block on.
    async fn end_workers(&self) {
        self.shutdown.cancel();
        let ended = async {
            while !self.workers.shown().workers.is_empty() {
                self.leader.work.notify_waiters();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // A worker in the middle of a long step is left behind.
        let _ = tokio::time::timeout(WORKERS_WAIT, ended).await;
    }
}

#[cfg(test)]
mod tests {
    use super::Fence;

    #[test]
    fn fence_keeps_its_first_reason() {
        let fence = Fence::default();
        assert_eq!(fence.why(), None);
        fence.set("the digest differs".into());
        fence.set("the log has stopped".into());
        assert_eq!(fence.why().as_deref(), Some("the digest differs"));
    }
}
