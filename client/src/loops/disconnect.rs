//! Stops allocations that must not outlive the contact with the servers (`stop_after_client_disconnect`).

use std::sync::Arc;
use std::time::Duration;

use songline_model::{Dur, Time};
use songline_rpc::Servers;

use super::{Host, Loops, Runner};
use crate::core::Input;

/// Interval of the check.
const PERIOD: Duration = Duration::from_secs(5);
/// Grace period of a node that has had no contact since its start.
const STARTUP_GRACE: Dur = Dur::from_secs(50);

impl<S: Servers, H: Host> Loops<S, H> {
    pub(super) async fn stop_when_cut_off(self: Arc<Self>) {
        let started = self.now();
        loop {
            let limits = self.all().into_values().filter_map(|runner| {
                let limit = runner.alloc().group()?.stop_after_client_disconnect?;
                Some((runner, limit))
            });
            let mut period = PERIOD;
            for (runner, limit) in limits {
                period = period.min(limit.to_std());
                if self.now() > self.cut_off_since(started).plus(limit) {
                    runner.tell(Input::Destroy);
                }
            }
            tokio::time::sleep(period.max(Duration::from_millis(100))).await;
        }
    }

    fn cut_off_since(&self, started: Time) -> Time {
        self.heard_at.lock().unwrap_or_else(|| started.plus(STARTUP_GRACE))
    }
}
