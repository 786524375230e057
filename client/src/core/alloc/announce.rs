//! Decides which workloads' services are announced, and when an announcement is withdrawn. The shell registers the
//! services.

use std::collections::BTreeSet;

use songline_model::{Allocation, Service, Str};

use super::{AllocRunner, Effect, Phase};

/// A workload with services: a group as a whole, or one of its tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Services of the group.
    Group,
    /// Services of this task.
    Task(Str),
}

/// Provider whose registrations are rows of the servers.
pub const NOMAD_PROVIDER: &str = "nomad";

impl Workload {
    /// The workloads of an allocation.
    pub fn all(alloc: &Allocation) -> Vec<Workload> {
        let tasks = alloc.group().into_iter().flat_map(|group| group.tasks.iter().flatten());
        tasks.map(|task| Workload::Task(task.name.clone())).chain([Workload::Group]).collect()
    }

    /// Services of the workload in an allocation.
    pub fn services<'a>(&self, alloc: &'a Allocation) -> impl Iterator<Item = &'a Service> {
        let services = alloc.group().and_then(|group| match self {
            Workload::Group => group.services.as_ref(),
            Workload::Task(name) => group.task(name)?.services.as_ref(),
        });
        services.into_iter().flatten()
    }

    /// Services of the workload that this provider registers.
    pub fn services_of<'a>(&self, alloc: &'a Allocation, provider: &'static str) -> impl Iterator<Item = &'a Service> {
        self.services(alloc).filter(move |service| service.provider == provider)
    }
}

/// Announcements of an allocation.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Whether the group's own services are announced: from set-up until the group is stopped, except while a restart
    /// waits for the group's shutdown delay.
    pub(super) group_serves: bool,
    /// Whether the group's services are withdrawn and announced again in this step, because its tasks restart.
    pub(super) group_anew: bool,
    /// Whether the servers' copy has changed, so that the announcements may have to change.
    pub(super) look_again: bool,
    by_us: BTreeSet<Workload>,
    /// Workloads that an earlier agent may have announced.
    perhaps: BTreeSet<Workload>,
}

impl AllocRunner {
    fn with_services(&self) -> BTreeSet<Workload> {
        let all = Workload::all(&self.alloc).into_iter();
        all.filter(|workload| workload.services(&self.alloc).next().is_some()).collect()
    }

    /// Marks every workload as possibly announced by an earlier agent.
    pub(super) fn restore_announced(&mut self) {
        self.announced.perhaps = self.with_services();
    }

    /// Adds the changes of announcements to the effects of a step: services are withdrawn before anything is stopped.
    pub(super) fn announce(&mut self, fx: Vec<Effect>) -> Vec<Effect> {
        if matches!(self.phase, Phase::New | Phase::Restoring(_)) {
            return fx;
        }
        if self.phase == Phase::Done {
            self.announced.group_serves = false;
        }
        let look_again = std::mem::take(&mut self.announced.look_again);
        let wanted: BTreeSet<Workload> = self
            .with_services()
            .into_iter()
            .filter(|workload| match workload {
                Workload::Group => self.announced.group_serves,
                Workload::Task(name) => self.tasks.get(name).is_some_and(super::TaskRunner::serves),
            })
            .collect();
        let group_anew = std::mem::take(&mut self.announced.group_anew);
        let known = |workload: &&Workload| match workload {
            Workload::Group if group_anew => true,
            _ => !wanted.contains(*workload) && !self.still_begins(workload),
        };
        let gone: Vec<Workload> = self.announced.by_us.union(&self.announced.perhaps).filter(known).cloned().collect();
        let mut out: Vec<Effect> = Vec::with_capacity(fx.len() + gone.len() + 1);
        for workload in gone {
            self.announced.by_us.remove(&workload);
            self.announced.perhaps.remove(&workload);
            out.push(Effect::Withdraw { of: workload });
        }
        out.extend(fx);
        for workload in wanted {
            self.announced.perhaps.remove(&workload);
            let begins = self.announced.by_us.insert(workload.clone());
            if begins || look_again {
                out.push(Effect::Announce { of: workload, begins });
            }
        }
        out
    }

    /// Whether a group that an earlier agent announced stays announced while this agent sets it up again.
    fn still_begins(&self, workload: &Workload) -> bool {
        *workload == Workload::Group && self.phase == Phase::SettingUp
    }
}
