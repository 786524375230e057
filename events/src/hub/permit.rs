//! Permits of streams. An expired token or a changed policy ends its stream; the implementation of [`Permit`]
//! decides.

/// Asked before every piece that a stream sends, and on every notification of the hub. It must not block: it reads
/// memory only.
pub trait Permit: Send + Sync + 'static {
    /// Reason why the stream has to end, which is also the text of its last frame; `None` while it may go on.
    fn refusal(&self) -> Option<String>;
}
