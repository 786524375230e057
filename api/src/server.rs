//! Interface of the server behind the HTTP API. The shell implements its traits; this crate has no log, scheduler or
//! node agent of its own.
//!
//! A handler names the traits that it uses. Routing and forwarding need all of them: [`Server`].

mod agent;
mod cluster;
mod leading;
mod logins;
mod nodes;
mod reads;
mod regions;
mod schedules;
mod status;
mod upkeep;
mod writes;

pub use agent::{AclSettings, Agent, AgentInfo};
pub use cluster::{Cluster, ClusterHealth, Member, MemberHealth};
pub use leading::{Leader, Leading, PassFailure};
pub use logins::Logins;
pub use nodes::Nodes;
pub use reads::{Contact, Reads};
pub use regions::Regions;
pub use schedules::{CORE_SCHEDULER, PlannedJob, SCHEDULERS, SchedulerPool, SchedulerWorker, Schedules, WhatIfFailure};
pub use status::{AgentSelf, Health, Served, Status, Wellness};
pub use upkeep::{
    NotCarried, Refilling, RestoreChoices, RestoreError, RestoreReport, RestoredTable, SavedArchive, Upkeep,
};
pub use writes::{Proposal, ProposeError, Writes, Written};

/// The whole server behind the HTTP API. Every type with all of the traits is one.
pub trait Server: Writes + Regions + Cluster + Nodes + Schedules + Upkeep + Logins + Status {}

impl<S: Writes + Regions + Cluster + Nodes + Schedules + Upkeep + Logins + Status> Server for S {}
