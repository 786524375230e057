//! Servers of other regions: met by greetings, listed among the members, and reached by forwarded requests.
//!
//! Regions share no log. A server knows one of another region from an operator's join or from another server's greeting,
//! which names further servers of its sender's region and of the regions that the sender knows. So one join is enough
//! for a region to meet all others. The addresses are kept in a file, so that a restarted region finds them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use songline_log::NodeId as ServerId;
use songline_rpc::port::Dialer;
use tokio::time::Instant;

use super::peers::{Answers, AskError, Peers, Topic};
use super::{Core, GREET_WITHIN, Greeting, Known, ServerSeen, decode, encode};

/// Time without an answer after which a server of another region is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(24);
/// File with the addresses of the servers of other regions.
const FILE: &str = "regions.json";

/// Knowledge about other regions.
pub(super) struct Regions {
    peers: Peers,
    /// Connections to the authoritative region, to which this server shows a token and whose answers it writes.
    authoritative: Peers,
    known: Mutex<BTreeMap<String, BTreeMap<ServerId, Known>>>,
    /// Addresses that were heard of and not greeted yet.
    heard_of: Mutex<Addresses>,
    /// Content of the file.
    written: Mutex<Addresses>,
}

/// Addresses of servers by region.
pub(super) type Addresses = BTreeMap<String, BTreeSet<String>>;

impl Regions {
    /// Knowledge of a server that dials others with `dialer`.
    pub(super) fn new(dialer: &Dialer, authoritative_region: &str) -> Self {
        let peers = Peers::of_regions(dialer.clone().of_any_region());
        let authoritative = Peers::of_regions(dialer.clone().of_region(authoritative_region));
        Self { peers, authoritative, known: Mutex::default(), heard_of: Mutex::default(), written: Mutex::default() }
    }

    /// Records the greeting of a server of another region.
    fn note(&self, greeting: Greeting, is_answer: bool) {
        let (mut known, now) = (self.known.lock(), Instant::now());
        let region = known.entry(greeting.region.clone()).or_default();
        // A wiped server comes back at its address with a new id.
        region.retain(|id, it| *id == greeting.id || it.greeting.address != greeting.address);
        let before = region.get(&greeting.id).and_then(|it| it.answered);
        let answered = if is_answer { Some(now) } else { before };
        region.insert(greeting.id, Known { greeting, heard: now, answered });
    }

    /// Addresses of all servers of other regions, also of those that were only heard of.
    fn addresses(&self) -> Addresses {
        let mut all = self.heard_of.lock().clone();
        for (region, servers) in &*self.known.lock() {
            let addresses = servers.values().map(|it| it.greeting.address.clone());
            all.entry(region.clone()).or_default().extend(addresses);
        }
        all
    }

    /// Adds addresses to be greeted.
    fn hear_of(&self, region: &str, addresses: impl IntoIterator<Item = String>) {
        self.heard_of.lock().entry(region.to_owned()).or_default().extend(addresses);
    }
}

impl Core {
    fn regions(&self) -> &Regions {
        &self.connections.cluster.regions
    }

    /// Addresses of the servers of other regions that answered, by region.
    pub(super) fn regions_known(&self) -> Addresses {
        let known = self.regions().known.lock();
        let addresses = |servers: &BTreeMap<ServerId, Known>| {
            servers.values().filter(|it| it.answered.is_some()).map(|it| it.greeting.address.clone()).collect()
        };
        known.iter().map(|(region, servers)| (region.clone(), addresses(servers))).collect()
    }

    /// Names of all known regions, this server's among them, in alphabetical order.
    pub(crate) fn known_regions(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.regions().known.lock().keys().cloned().collect();
        names.insert(self.facts.info.region.clone());
        names.into_iter().collect()
    }

    /// Addresses of the servers of another region: those that answered last come first.
    pub(crate) fn servers_of_region(&self, region: &str) -> Vec<String> {
        let known = self.regions().known.lock();
        let mut servers: Vec<&Known> = known.get(region).into_iter().flat_map(BTreeMap::values).collect();
        servers.sort_by_key(|it| std::cmp::Reverse(it.heard));
        servers.into_iter().map(|it| it.greeting.address.clone()).collect()
    }

    /// Names of the other regions whose servers name this one as their authoritative region, in alphabetical order.
    pub(crate) fn followers(&self) -> Vec<String> {
        let known = self.regions().known.lock();
        let follows = |it: &Known| it.greeting.authoritative_region == self.facts.info.region;
        let followers = known.iter().filter(|(_, servers)| servers.values().any(follows));
        followers.map(|(region, _)| region.clone()).collect()
    }

    /// Addresses of the servers of another region, with the one first that last called itself the leader.
    pub(crate) fn leader_of_region(&self, region: &str) -> Vec<String> {
        let known = self.regions().known.lock();
        let mut servers: Vec<&Known> = known.get(region).into_iter().flat_map(BTreeMap::values).collect();
        let leads = |it: &Known| it.greeting.leader == Some(it.greeting.id);
        servers.sort_by_key(|it| (!leads(it), std::cmp::Reverse(it.heard)));
        servers.into_iter().map(|it| it.greeting.address.clone()).collect()
    }

    /// Asks a server of the authoritative region about the objects of all regions. `federation` has the questions. A
    /// server with a certificate of another region gets no question: it could keep the token of the question.
    pub(crate) async fn ask_about_objects(
        &self,
        address: &str,
        question: &[u8],
        within: Duration,
    ) -> Result<Bytes, AskError> {
        self.regions().authoritative.ask(address, Topic::Objects, question, within).await
    }

    /// The servers of other regions.
    pub(crate) fn seen_in_other_regions(&self) -> Vec<ServerSeen> {
        let known = self.regions().known.lock();
        let seen = known.values().flat_map(BTreeMap::values).map(|it| {
            let greeting = &it.greeting;
            ServerSeen {
                id: greeting.id,
                name: greeting.name.clone(),
                address: greeting.address.clone(),
                region: greeting.region.clone(),
                datacenter: greeting.datacenter.clone(),
                version: greeting.version.clone(),
                serf_port: greeting.serf_port,
                voter: !greeting.non_voting,
                leader: greeting.leader == Some(greeting.id),
                heard: it.answered.map(|answered| answered.elapsed()),
            }
        });
        seen.collect()
    }

    /// Greets the server at an address, whatever its region.
    pub(super) async fn greet_any_region(&self, address: &str) -> Result<Greeting, String> {
        let own = encode(&self.greeting());
        let asked = self.regions().peers.ask(address, Topic::Greeting, &own, GREET_WITHIN).await;
        decode(&asked.map_err(|error| error.to_string())?)
    }

    /// Records what a server of another region says about itself, about the others there, and about further regions.
    pub(super) fn note_region(&self, greeting: Greeting, is_answer: bool) {
        let others = greeting.members.values().chain(&greeting.knows).filter(|other| **other != greeting.address);
        self.regions().hear_of(&greeting.region, others.cloned());
        self.hear_of_regions(&greeting.regions);
        self.regions().note(greeting, is_answer);
        self.keep_regions();
    }

    /// Records addresses of servers of other regions that another server knows. An address says nothing yet: its server
    /// is greeted and proves itself, or is forgotten.
    pub(super) fn hear_of_regions(&self, theirs: &Addresses) {
        for (region, addresses) in theirs.iter().filter(|(region, _)| **region != self.facts.info.region) {
            self.regions().hear_of(region, addresses.iter().cloned());
        }
    }

    /// Greets all servers of other regions, and keeps their addresses.
    pub(super) async fn greet_regions(&self) {
        let all = self.regions().addresses();
        let mut addresses: BTreeSet<String> = all.into_values().flatten().collect();
        // A server that starts alone greets the configured servers only here: they are of other regions.
        if self.facts.config.starts_alone() {
            addresses.extend(self.facts.config.join.addresses());
            addresses.remove(&self.connections.cluster.address);
        }
        if addresses.is_empty() {
            return;
        }
        let greetings = addresses.iter().map(|address| self.greet_any_region(address));
        for (answer, address) in futures_util::future::join_all(greetings).await.into_iter().zip(&addresses) {
            match answer {
                Ok(greeting) if greeting.region != self.facts.info.region => {
                    self.connections.cluster.silent.lock().remove(address);
                    self.note_region(greeting, true);
                }
                Ok(_) => {}
                Err(why) => self.connections.cluster.note_silence(address, why),
            }
        }
        // An address that answers is known by its server from now on; the others are only tried once.
        self.regions().heard_of.lock().clear();
        self.regions().known.lock().retain(|_, servers| {
            servers.retain(|_, it| it.heard.elapsed() < FORGOTTEN_AFTER);
            !servers.is_empty()
        });
        self.keep_regions();
    }

    /// Forgets a server of another region by its name.
    pub(crate) fn forget_in_region(&self, name: &str) {
        self.regions().known.lock().retain(|_, servers| {
            servers.retain(|_, it| it.greeting.name != name);
            !servers.is_empty()
        });
    }

    /// Writes the addresses when they have changed.
    fn keep_regions(&self) {
        let now: Addresses = self.regions().addresses();
        let mut written = self.regions().written.lock();
        if now == *written {
            return;
        }
        let content = serde_json::to_vec(&now).expect("a map of texts has a form in JSON");
        match self.facts.disk.put(&self.facts.dir.join(FILE), &content, false) {
            Ok(()) => *written = now,
            Err(error) => tracing::warn!(%error, "writing the addresses of other regions"),
        }
    }

    /// Reads the addresses that an earlier start has written.
    pub(super) fn recall_regions(&self) {
        let Ok(content) = self.facts.disk.read(&self.facts.dir.join(FILE)) else { return };
        match serde_json::from_slice::<Addresses>(&content) {
            Ok(kept) => {
                self.hear_of_regions(&kept);
                *self.regions().written.lock() = kept;
            }
            Err(error) => tracing::warn!(%error, "the file with the addresses of other regions is unreadable"),
        }
    }
}

/// Answers servers of other regions: they may greet, and with a management token replicate the objects of all regions.
pub(super) struct ToRegions(pub(super) Arc<Core>);

impl Answers for ToRegions {
    async fn answer(&self, topic: Topic, question: Bytes) -> Result<Bytes, String> {
        if self.0.log.get().is_none() {
            return Err("the server is starting".into());
        }
        match topic {
            Topic::Greeting => {}
            Topic::Objects => return self.0.answer_region(&question).await,
            Topic::Consensus
            | Topic::Join
            | Topic::Promise
            | Topic::KeyEncryptionKey
            | Topic::Archive
            | Topic::Leave => return Err("servers of other regions may not ask this".into()),
        }
        let theirs: Greeting = decode(&question)?;
        // A server of this region that does not know the region of this one yet greets here, too.
        if theirs.region != self.0.facts.info.region {
            self.0.note_region(theirs, false);
        }
        Ok(encode(&self.0.greeting()))
    }
}
