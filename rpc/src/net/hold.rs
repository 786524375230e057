//! Bytes of requests that a session's streams have taken in. They count towards the session's budget
//! (`SessionLimits::unread_bytes_max`) together with its unread bytes.

use std::io;

use super::Caller;
use crate::yamux::Session;

/// The share of one stream in its session's budget. Dropping it gives the share back.
pub(super) struct Hold {
    session: Session,
    bytes: usize,
}

impl Hold {
    /// The share of a stream of this caller. `None` without a bound: servers trust each other, and a connection without
    /// streams holds only one request.
    pub(super) fn of(caller: &Caller) -> Option<Self> {
        let session = caller.session.clone().filter(|_| !caller.is_server)?;
        Some(Self { session, bytes: 0 })
    }

    /// Sets the number of bytes that the stream holds. Ends the session, and fails, when all streams together hold too
    /// many.
    pub(super) fn set(&mut self, bytes: usize) -> io::Result<()> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        self.session.hold(before, bytes)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.session.release(self.bytes);
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
