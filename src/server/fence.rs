//! A server that knows of itself that its state is wrong fences itself: it serves nothing more, says why for a while, and its process ends.
//! What is wrong is told by whoever notices; that the process ends is the agent's business.

use std::time::Duration;

use songline_log::Failure;
use tokio::sync::watch;

use super::Core;

/// How long a fenced server still answers that it is.
const TELL_FOR: Duration = Duration::from_secs(5);
/// How long the workers have for what they do.
const WORKERS_WAIT: Duration = Duration::from_secs(1);

/// Whether a server has fenced itself, and why.
#[derive(Debug)]
pub(crate) struct Fence(watch::Sender<Option<String>>);

impl Default for Fence {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Fence {
    /// Fences the server, for the first reason that is given.
    pub fn set(&self, why: String) {
        tracing::error!(why, "this server fences itself");
        self.0.send_if_modified(|now| {
            let first = now.is_none();
            now.get_or_insert(why);
            first
        });
    }

    /// Why the server is fenced, if it is.
    pub fn why(&self) -> Option<String> {
        self.0.borrow().clone()
    }
}

impl Core {
    /// Returns when this server cannot go on: fenced, and after everybody had time to hear why; or its log has failed. What is left to do is
    /// to end the process.
    pub async fn failed(&self) -> String {
        let mut fenced = self.fence.0.subscribe();
        let failure = tokio::select! {
            biased;
            // The fence goes with the server, so somebody is always there to tell.
            _ = fenced.wait_for(Option::is_some) => None,
            failure = self.failed_for_good() => Some(failure),
        };
        // Applying stops because of the fence, so the log may have said it first.
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

    /// Returns when consensus has failed, and not for want of a disk that works.
    async fn failed_for_good(&self) -> String {
        let mut failures = self.log().failures();
        let for_good = |failure: &Option<Failure>| matches!(failure, Some(Failure::Consensus(_)));
        match failures.wait_for(for_good).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure.to_string(),
            // The log lives as long as the server.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Their threads must not outlive the runtime that they wait in.
    async fn end_workers(&self) {
        self.shutdown.cancel();
        let ended = async {
            while !self.workers.shown().workers.is_empty() {
                self.work.notify_waiters();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // One that is in the middle of something long is left behind.
        let _ = tokio::time::timeout(WORKERS_WAIT, ended).await;
    }
}

#[cfg(test)]
mod tests {
    use super::Fence;

    #[test]
    fn the_first_reason_is_the_one_that_is_told() {
        let fence = Fence::default();
        assert_eq!(fence.why(), None);
        fence.set("the digest differs".into());
        fence.set("the log has stopped".into());
        assert_eq!(fence.why().as_deref(), Some("the digest differs"));
    }
}
