//! Whether a reader may go on. A token that expires or a changed policy ends its stream; the implementation of the trait decides.

use std::sync::Arc;

use super::subscription::Subscription;

/// Asked before everything that a stream sends, and whenever the hub has news. It must not wait: what it looks at is in memory.
pub trait Permit: Send + Sync + 'static {
    /// Why the stream has to end, in the words that it ends with; `None`: it may go on.
    fn refusal(&self) -> Option<String>;
}

impl Subscription {
    /// The same stream, as long as `permit` does not refuse it.
    pub fn permitted_by(mut self, permit: Arc<dyn Permit>) -> Self {
        self.permit = Some(permit);
        self
    }
}
