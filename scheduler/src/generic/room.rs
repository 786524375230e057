//! Search for room on a node whose resources ran out: allocations of lower priority give way until the new one fits,
//! and those without which it fits as well are spared.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::Arc;

use songline_model::{AllocId, Allocation, Amount, Job, Node};
use songline_projections::State;

use super::ask::Ask;
use super::grant::{Grant, Lack};
use super::usage::Usage;
use crate::devices::victims;
use crate::network;
use crate::preempt::{self, Candidate};
use crate::seed::Seed;

/// Resources of a node for one allocation, and the allocations that give way to it.
pub(super) struct Room {
    pub grant: Grant,
    pub victims: Vec<Arc<Allocation>>,
    /// Resources of the allocations that give way for a port or a device. Those that give way for CPU, memory or disk
    /// still count in the fit score, as in Nomad.
    pub gone: Amount,
    /// Preemption score; `None`: nothing gives way.
    pub score: Option<f64>,
}

/// A search on one node. It changes a copy of the node's usage only.
pub(super) struct Search<'a> {
    pub ask: &'a Ask,
    pub node: &'a Node,
    pub job: &'a Job,
    pub view: &'a State,
    /// The node's usage without the allocations that leave.
    pub usage: Usage,
    /// The allocations that the plan stops, and those that leave.
    pub stopped: BTreeSet<AllocId>,
    /// The allocations that may still give way, those of the lowest priority first.
    pub staying: Vec<Candidate>,
    pub leaving: Vec<Candidate>,
}

impl Search<'_> {
    /// Finds the allocations that have to leave; `Err` is what is missing even if all leave that may.
    pub fn find(mut self, seed: &mut Seed) -> Result<Room, Lack> {
        let mut first: Option<Lack> = None;
        while let Err(lack) = self.attempt(&mut seed.clone()) {
            // Of CPU, memory and disk, the one that was missing before anything gave way is told.
            let first = match &first {
                Some(first) if discriminant(first) == discriminant(&lack) => first,
                Some(_) | None => first.insert(lack.clone()),
            };
            let next = self.next(&lack);
            if next.is_empty() {
                return Err(first.clone());
            }
            for position in next.into_iter().rev() {
                let mut victim = self.staying.remove(position);
                victim.for_room = matches!(lack, Lack::Room { .. });
                self.evict(victim);
            }
        }
        self.spare(seed);
        let grant = self.attempt(seed)?;
        let priorities: Vec<i64> = self.leaving.iter().map(|victim| victim.priority).collect();
        let others = self.leaving.iter().filter(|victim| !victim.for_room);
        let gone = others.fold(Amount::default(), |sum, victim| sum.plus(victim.uses));
        let victims = self.leaving.into_iter().map(|victim| victim.alloc).collect();
        Ok(Room { grant, victims, gone, score: preempt::score(&priorities) })
    }

    fn attempt(&mut self, seed: &mut Seed) -> Result<Grant, Lack> {
        Grant::find(self.ask, self.node, &mut self.usage, (self.view, &self.stopped), seed)
    }

    /// Positions of the allocations that give way next for what is missing, in ascending order. Empty: none can help.
    fn next(&mut self, lack: &Lack) -> Vec<usize> {
        match lack {
            Lack::Fixed(_) => Vec::new(),
            Lack::Ports(_) => {
                let wanted = self.ask.static_ports();
                let holds = |candidate: &Candidate| network::holds(&candidate.alloc, |port| wanted.contains(&port));
                let dynamic = |candidate: &Candidate| network::has_ports(&candidate.alloc);
                let holder = self.staying.iter().position(holds);
                holder.or_else(|| self.staying.iter().position(dynamic)).into_iter().collect()
            }
            Lack::Devices(_) => {
                let held = self.usage.devices(self.view, self.node, &self.stopped).clone();
                let requests = self.ask.tasks.iter().flat_map(|task| &task.devices);
                victims::find(requests, self.node, held, &self.staying)
            }
            Lack::Room { asked, .. } => {
                let freed = self.leaving.iter().fold(*asked, |needed, victim| needed.minus(victim.uses));
                preempt::closest(&self.staying, freed).into_iter().collect()
            }
        }
    }

    /// Takes back each allocation without which the others leave enough room, those of the highest priority first: none
    /// is preempted in vain.
    fn spare(&mut self, seed: &Seed) {
        let mut found = std::mem::take(&mut self.leaving);
        let far = |victim: &Candidate| preempt::distance(self.ask.amount, victim.uses);
        found.sort_by(|one, other| other.priority.cmp(&one.priority).then(far(one).total_cmp(&far(other))));
        for victim in found {
            self.stopped.remove(&victim.alloc.id);
            self.usage.add(&victim.alloc, self.job);
            if self.attempt(&mut seed.clone()).is_err() {
                self.evict(victim);
            }
        }
        self.leaving.sort_by(|one, other| (one.priority, &one.alloc.name).cmp(&(other.priority, &other.alloc.name)));
    }

    fn evict(&mut self, victim: Candidate) {
        self.stopped.insert(victim.alloc.id);
        self.usage.remove(&victim.alloc, self.job);
        self.leaving.push(victim);
    }
}
