//! Several regions in one simulation: each is a cluster with servers, a leader and nodes of its own, and one of them is
//! authoritative. Servers of different regions meet over the same simulated network as those of one, so the product
//! replicates, registers and rolls out as it does on machines. Users write the objects that all regions share
//! (`keeper`) and register jobs of several regions (`traveller`).

mod asker;
mod keeper;
mod settled;
mod traveller;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;

use super::network::Network;
use super::plan::{Fault, Plan, REGIONS_MAX, What};
use super::record::{Record, Violation};
use super::run::{Cluster, NETWORK_SEED, QUIET_AT_LAST, REST_WITHIN, Report, SCHEDULERS};
use super::server::{Cluster as Shared, address_of};
use asker::Asker;
use keeper::Keeper;
use traveller::Traveller;

/// Names of the regions by their places.
const REGIONS: [&str; REGIONS_MAX] = ["east", "north", "west"];
/// Distance between the numbers of the first machines of two regions.
const MACHINES_APART: u64 = 16;
/// Number of users who register jobs.
const TRAVELLERS: u64 = 2;

/// Accessor ids of the local tokens that were made in each region and that nobody has asked to delete.
type LocalTokens = Arc<Mutex<Vec<BTreeSet<String>>>>;

/// The regions.
pub(super) struct Federation {
    network: Arc<Network>,
    regions: Vec<Cluster>,
    /// Place of the authoritative region.
    authoritative: usize,
    local_tokens: LocalTokens,
}

/// Number of the first machine of the region at a place.
fn first_machine(place: usize) -> u64 {
    1 + MACHINES_APART * place as u64
}

impl Federation {
    /// The regions of a plan. None of their machines runs.
    pub(super) fn new(plan: &Plan) -> Self {
        let network = Network::new(plan.seed ^ NETWORK_SEED);
        let names = &REGIONS[..plan.regions];
        let authoritative = usize::try_from(plan.seed % names.len() as u64).unwrap_or_default();
        let records = Record::of_regions(plan.sabotage, names);
        let region = |(place, record): (usize, Record)| {
            // One join is enough for all regions to meet.
            let joins = if place == 0 { Vec::new() } else { vec![address_of(first_machine(0))] };
            let shared = Shared {
                region: names[place],
                authoritative: names[authoritative],
                first: first_machine(place),
                joins,
                ..Shared::alone(plan.servers, SCHEDULERS, true)
            };
            Cluster::of(&shared, plan, &network, Arc::new(record))
        };
        let regions: Vec<Cluster> = records.into_iter().enumerate().map(region).collect();
        let local_tokens = Arc::new(Mutex::new(vec![BTreeSet::new(); regions.len()]));
        Self { network, regions, authoritative, local_tokens }
    }

    /// Carries out a plan.
    pub(super) async fn run(self, plan: &Plan) -> Report {
        let record = Arc::clone(self.record());
        let ended = tokio::time::timeout(plan.length + QUIET_AT_LAST * 5 + REST_WITHIN, self.play(plan)).await;
        if ended.is_err() {
            record.found(Violation::Stuck("the simulation does not come to its end".to_owned()));
        }
        self.regions.iter().for_each(Cluster::let_go);
        let mut counts = record.counts();
        self.regions[1..].iter().for_each(|region| counts.add(&region.record.of_log()));
        Report {
            digest: record.digest(),
            counts,
            simulated: record.started().elapsed(),
            violation: record.violation(),
            lines: record.lines(),
        }
    }

    /// The record of the first region, which shares its story with the others.
    fn record(&self) -> &Arc<Record> {
        &self.regions[0].record
    }

    async fn play(&self, plan: &Plan) {
        join_all(self.regions.iter().map(Cluster::begin_servers)).await;
        self.regions.iter().for_each(Cluster::begin_nodes);
        let seed = |number: u64| plan.seed.wrapping_mul(1013).wrapping_add(number);
        let enough = Arc::new(AtomicBool::new(false));
        let asker = |number| Asker::new(seed(number), &self.regions, &self.network);
        let keeper = Keeper::new(asker(1), self.authoritative, &self.local_tokens, &enough);
        let mut users = vec![tokio::spawn(keeper.run())];
        for number in 0..TRAVELLERS {
            let traveller = Traveller::new(number, asker(10 + number), &REGIONS[..plan.regions], &enough);
            users.push(tokio::spawn(traveller.run()));
        }
        for fault in &plan.faults {
            if self.regions[0].found_before(fault.at).await {
                return;
            }
            self.begin(fault);
        }
        if self.regions[0].found_before(plan.length).await {
            return;
        }
        self.record().note("all is well from here on");
        self.regions.iter().for_each(Cluster::heal);
        tokio::time::sleep(Duration::from_secs(25)).await;
        enough.store(true, Ordering::Relaxed);
        for user in users {
            if tokio::time::timeout(QUIET_AT_LAST * 2, user).await.is_err() {
                self.record().found(Violation::Stuck("a user of several regions gets no answer".to_owned()));
            }
        }
        for region in &self.regions {
            region.come_to_rest().await;
        }
        self.comes_to_rest().await;
    }

    /// Begins a fault, and ends it in time.
    fn begin(&self, fault: &Fault) {
        let region = &self.regions[fault.region];
        region.begin(fault);
        let cut = |other: &Cluster, both: bool| {
            let pairs =
                region.hosts.iter().flat_map(|host| other.hosts.iter().map(|there| (host.machine(), there.machine())));
            let directions =
                pairs.flat_map(|(here, there)| [(here, there)].into_iter().chain(both.then_some((there, here))));
            region.cut_directions(fault.lasts, directions.collect());
        };
        match &fault.what {
            What::CutRegions(other) => cut(&self.regions[*other], true),
            What::MuteRegion(other) => cut(&self.regions[*other], false),
            What::IsolateRegion => {
                for (place, other) in self.regions.iter().enumerate() {
                    if place != fault.region {
                        cut(other, true);
                    }
                }
            }
            What::Crash(_)
            | What::CrashWriting(..)
            | What::Blackout
            | What::Isolate(_)
            | What::Mute(_)
            | What::Deaf(_)
            | What::OneWay(..)
            | What::Storm { .. }
            | What::Full(_)
            | What::Failing(_)
            | What::Transfer
            | What::Clock(..)
            | What::Demote(_)
            | What::Flip(..)
            | What::Lose(_)
            | What::Exchange(_)
            | What::CutNode(_)
            | What::CutNodeFrom(..)
            | What::CutNodesFrom(_)
            | What::StopAgent(_)
            | What::KillNode(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
