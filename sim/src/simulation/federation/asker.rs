//! HTTP requests of a user who knows the servers of all regions.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::super::callers::MANAGEMENT;
use super::super::http::{self, Answer};
use super::super::network::Network;
use super::super::record::Record;
use super::super::run::Cluster;
use super::super::server::Host;

/// Number of attempts before an operation is given up.
const ATTEMPTS_MAX: u32 = 3;

/// A request: what it is for, its method and its path.
pub(super) type Request<'a> = (&'a str, &'static str, &'a str);

/// Asks with the management token.
pub(super) struct Asker {
    /// Randomness of the user.
    pub(super) rng: SmallRng,
    /// Machines of each region's servers.
    regions: Vec<Vec<Arc<Host>>>,
    network: Arc<Network>,
    /// The record.
    pub(super) record: Arc<Record>,
}

impl Asker {
    /// A user who knows all machines.
    pub(super) fn new(seed: u64, regions: &[Cluster], network: &Arc<Network>) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            regions: regions.iter().map(|region| region.hosts.clone()).collect(),
            network: Arc::clone(network),
            record: Arc::clone(&regions[0].record),
        }
    }

    /// Place of any region.
    pub(super) fn any_region(&mut self) -> usize {
        self.rng.random_range(0..self.regions.len())
    }

    /// Waits for a random time.
    pub(super) async fn pause(&mut self, most_ms: u64) {
        let pause = self.rng.random_range(most_ms / 20..most_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    /// Asks any server of the region at a place. Repeats what fails, up to a number of attempts.
    pub(super) async fn ask(
        &mut self,
        place: usize,
        (what, method, path): Request<'_>,
        body: &Value,
    ) -> Option<Answer> {
        let mut answer = None;
        for _ in 0..ATTEMPTS_MAX {
            let hosts = &self.regions[place];
            let host = Arc::clone(&hosts[self.rng.random_range(0..hosts.len())]);
            answer = http::ask(&self.network, &host, Some(MANAGEMENT), (method, path), body.to_string()).await;
            if answer.as_ref().is_some_and(|(status, _)| *status < 500) {
                break;
            }
            self.pause(1500).await;
        }
        let told = match &answer {
            None => "no answer".to_owned(),
            Some((200, _)) => "200".to_owned(),
            Some((status, body)) => format!("{status} {}", String::from_utf8_lossy(body)),
        };
        self.record.note(&format!("user of region {place}: {what}: {told}"));
        answer
    }
}
