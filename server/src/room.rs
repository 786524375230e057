//! Free disk space: a server that is about to run out refuses writes, gives up leadership, and resumes when there is
//! space again.
//!
//! A write that fails half-way stops a log for good. The server therefore refuses writes while there is still space
//! for every accepted one: a full disk affects neither reads nor acknowledged writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use songline_api::ProposeError;

use super::{Core, watching};

/// Interval at which free space is checked.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Writes are refused below this number of free bytes: the next log segment needs 64 MiB at once, and the derived
/// stores the rest.
const FREE_BYTES_MIN: u64 = 128 << 20;
/// Writes are accepted again at this number of free bytes; the distance to `FREE_BYTES_MIN` prevents flapping.
const FREE_BYTES_AGAIN: u64 = 160 << 20;

/// Whether writes are accepted.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Free bytes when writes were refused last; 0 while they are accepted.
    closed_at: AtomicU64,
}

impl Room {
    /// Records the free bytes. Returns `true` if writes are accepted from now on, `false` if they are refused, `None`
    /// without a change.
    fn note(&self, free: u64) -> Option<bool> {
        let closed = self.closed_at.load(Ordering::Relaxed) > 0;
        if !closed && free < FREE_BYTES_MIN {
            self.closed_at.store(free.max(1), Ordering::Relaxed);
            return Some(false);
        }
        if closed && free >= FREE_BYTES_AGAIN {
            self.closed_at.store(0, Ordering::Relaxed);
            return Some(true);
        }
        None
    }

    /// Refuses while there is not enough free space.
    pub(crate) fn check(&self) -> Result<(), ProposeError> {
        match self.closed_at.load(Ordering::Relaxed) {
            0 => Ok(()),
            free => Err(ProposeError::Unavailable(format!(
                "no space left on this server's disk: {} MiB are free, {} MiB are needed to take writes again",
                free >> 20,
                FREE_BYTES_AGAIN >> 20
            ))),
        }
    }
}

/// Runs a first check, and then one each interval for as long as the server runs.
pub(crate) fn start(core: &Arc<Core>) {
    look(core);
    watching::every(core, LOOK_EVERY, async |core| {
        look(&core);
        core.give_up_leading_without_room().await;
    });
}

fn look(core: &Core) {
    match core.facts.disk.free_bytes(&core.facts.dir).map(|free| (free, core.room.note(free))) {
        Ok((free, Some(false))) => {
            tracing::error!(free_mib = free >> 20, "the disk is nearly full: this server takes no more writes")
        }
        Ok((free, Some(true))) => {
            tracing::info!(free_mib = free >> 20, "there is room on the disk again: this server takes writes")
        }
        Ok((_, None)) => {}
        Err(error) => tracing::warn!(%error, "how full the disk is cannot be told"),
    }
}

impl Core {
    /// Transfers leadership to a server that may have space. A single server stays the leader and still answers
    /// reads.
    async fn give_up_leading_without_room(&self) {
        if self.room.check().is_ok() || !self.log().is_leader() || self.other_servers().is_empty() {
            return;
        }
        match self.hand_over(None).await {
            Ok(()) => tracing::warn!("this server has no room on its disk and has let another lead"),
            Err(error) => {
                tracing::warn!(%error, "this server has no room on its disk, and no other could take the lead")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_stop_below_one_free_space_bound_and_resume_above_a_higher_one() {
        let room = Room::default();
        let told: Vec<_> = [1 << 30, FREE_BYTES_MIN, FREE_BYTES_MIN - 1, FREE_BYTES_MIN + 1, FREE_BYTES_AGAIN]
            .map(|free| room.note(free))
            .into();
        assert_eq!(told, [None, None, Some(false), None, Some(true)]);
        room.note(0);
        let refusal = room.check().expect_err("is refused").to_string();
        assert_eq!(
            refusal,
            "no space left on this server's disk: 0 MiB are free, 160 MiB are needed to take writes again"
        );
    }
}
