//! Flag of a connection whose client does not read.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set when a connection is closed because its client does not read. Requests carry the flag, so that a stream can
/// log its cursor then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stalled(pub(crate) Arc<AtomicBool>);
