//! A server that knows of itself that its state is wrong fences itself: it serves nothing more, says why for a while, and its process ends.
//! What is wrong is told by whoever notices; that the process ends is the agent's business.

use std::time::Duration;

use tokio::sync::watch;

use super::Core;

/// How long a fenced server still answers that it is.
const TELL_FOR: Duration = Duration::from_secs(5);

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
    /// Returns when this server cannot go on: fenced, and after everybody had time to hear why; or its log has failed.
    pub async fn failed(&self) -> String {
        let mut fenced = self.fence.0.subscribe();
        let failure = tokio::select! {
            biased;
            why = fenced.wait_for(Option::is_some) => why.ok().and_then(|why| why.clone()),
            failure = self.log().failed() => {
                // Applying stops because of the fence, so the log may say it first.
                let why = self.fence.why();
                if why.is_none() {
                    return failure.to_string();
                }
                why
            }
        };
        match failure {
            Some(why) => {
                tokio::time::sleep(TELL_FOR).await;
                why
            }
            // The fence goes with the server.
            None => std::future::pending().await,
        }
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
