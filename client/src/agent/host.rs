//! Surroundings of the loops of a real node: runners with drivers and directories, and the agent's database.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocId, Allocation, Dur, Str};
use songline_rpc::AllocReport;

use super::gc::Collector;
use crate::core::{AllocRunner, Input};
use crate::loops::{self, Host, Left};
use crate::network;
use crate::previous::MigrateTokens;
use crate::runner::{Begin, Restored, Runner, Shared};
use crate::state;

/// The host of a real node's loops.
pub(crate) struct AgentHost {
    pub shared: Arc<Shared>,
    pub collector: Arc<Collector>,
    /// Tokens for the data of previous allocations, as of the servers' last answer.
    pub tokens: MigrateTokens,
}

impl loops::Runner for Runner {
    fn tell(&self, input: Input) {
        Runner::tell(self, input);
    }

    fn reconnect(&self, update: Arc<Allocation>) {
        Runner::reconnect(self, update);
    }

    fn alloc(&self) -> Arc<Allocation> {
        self.view().alloc
    }

    fn report(&self) -> AllocReport {
        self.view().update
    }

    fn is_destroyed(&self) -> bool {
        self.view().destroyed
    }
}

impl Host for AgentHost {
    type Runner = Runner;
    type Restored = Box<Restored>;

    fn refusal(&self, alloc: &Allocation) -> Option<String> {
        network::refusal(alloc, &self.shared.drivers)
    }

    fn kill_timeout_max(&self) -> Dur {
        self.shared.config.kill_timeout_max
    }

    fn start(&self, machine: AllocRunner, begin: loops::Begin<Runner, Box<Restored>>) -> Arc<Runner> {
        let begin = match begin {
            loops::Begin::Anew => Begin::Start,
            loops::Begin::After(earlier) => Begin::After(earlier),
            loops::Begin::Restored(restored) => Begin::Restore(restored),
        };
        Runner::spawn(Arc::clone(&self.shared), machine, begin)
    }

    fn put_registered(&self) {
        self.shared.state.put_registered();
    }

    fn put_alloc(&self, alloc: &Arc<Allocation>) {
        self.shared.state.put_alloc(alloc);
    }

    fn put_acknowledged(&self, report: &AllocReport) {
        self.shared.state.put_acknowledged(report);
    }

    fn forget(&self, id: &AllocId) {
        self.shared.state.forget_later(id);
    }

    fn take_migrate_tokens(&self, tokens: BTreeMap<AllocId, Str>) {
        *self.tokens.lock() = tokens;
    }

    fn make_room(&self, coming: &[Arc<Allocation>]) {
        self.collector.make_room(coming);
    }

    fn on_synced(&self) {
        self.collector.look();
    }
}

/// An allocation as the loops restore it.
pub(super) fn left(stored: state::Left) -> Left<Box<Restored>> {
    let state::Left { alloc, tasks, health, checks, network, volumes, acknowledged } = stored;
    let began = !tasks.is_empty();
    let restored = Box::new(Restored { tasks, health, checks, network, volumes });
    Left { alloc: Arc::new(alloc), acknowledged, restored: began.then_some(restored) }
}
