//! The applied state as readers of this server see it. The state machine (`machine.rs`) is the only writer.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use songline_events::watch::Watches;
use songline_projections::State;
use songline_scheduler::leader::gc::TimeTable;
use tokio::sync::watch;

use super::apply_times::ApplyTimes;
use super::past::PastStates;

/// The newest state, its readers that wait, and past states.
pub(crate) struct Published {
    pub(super) view: ArcSwap<State>,
    /// Index of the newest applied entry.
    pub(super) applied: watch::Sender<u64>,
    /// Blocking queries.
    pub(super) watches: Watches,
    /// Times at which indexes were applied.
    pub(super) times: Mutex<TimeTable>,
    pub(super) apply_times: ApplyTimes,
    pub(super) past: PastStates,
}

impl Default for Published {
    fn default() -> Self {
        Self {
            view: ArcSwap::from_pointee(State::new()),
            applied: watch::Sender::new(0),
            watches: Watches::default(),
            times: Mutex::default(),
            apply_times: ApplyTimes::default(),
            past: PastStates::default(),
        }
    }
}

impl Published {
    /// Newest applied state.
    pub(super) fn view(&self) -> Arc<State> {
        self.view.load_full()
    }

    /// Index up to which this process has announced applied entries to its subscribers.
    pub(super) fn applied_index(&self) -> u64 {
        *self.applied.borrow()
    }

    /// Waits until the entry at `index` is applied. `None` after `within`.
    pub(super) async fn wait_for_index(&self, index: u64, within: Duration) -> Option<Arc<State>> {
        let mut applied = self.applied.subscribe();
        let reached = tokio::time::timeout(within, applied.wait_for(|at| *at >= index)).await;
        matches!(reached, Ok(Ok(_))).then(|| self.view())
    }
}
