//! Cluster membership among servers: discovering servers, founding a cluster, joining one, staying a member.
//!
//! There is no gossip. A server greets the configured servers to join and the current members; greetings name further
//! servers. The log alone decides about members and their addresses.

mod archives;
pub(crate) mod autopilot;
mod founding;
pub(crate) mod kek;
mod leave;
mod membership;
mod number;
pub(crate) mod peers;
mod regions;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use songline_api::Leader;
use songline_log::NodeId as ServerId;
use songline_rpc::port::{Conn, Dialer, ServerTrust};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::number::id_of;
pub use self::number::{id_text, identity};
use self::peers::{Answers, Peers, Topic};
use self::regions::{Addresses, Regions, ToRegions};
use super::{Core, StartError, watching};
use crate::trust;

/// Interval at which a server without a cluster looks for one.
const SEEK_EVERY: Duration = Duration::from_millis(500);
/// Interval of greetings between members.
const GREET_EVERY: Duration = Duration::from_secs(2);
/// Timeout of a greeting.
const GREET_WITHIN: Duration = Duration::from_secs(2);
/// Timeout of joining, which includes the leader's commit.
const JOIN_WITHIN: Duration = Duration::from_secs(10);
/// Time without a leader after which a server no longer assumes that it is still a member.
const LEADERLESS_MAX: Duration = Duration::from_secs(5);
/// Validity of a server's promise to found a cluster with one particular set of servers.
const PROMISE_HOLDS: Duration = Duration::from_secs(30);

/// This server's knowledge of the other servers.
pub struct Cluster {
    id: ServerId,
    address: String,
    peers: Peers,
    known: Mutex<BTreeMap<ServerId, Known>>,
    promised: Mutex<Option<(BTreeMap<ServerId, String>, Instant)>>,
    /// The leader, by the last greeting that named one.
    hearsay: watch::Sender<Option<ServerId>>,
    /// Cancelled when this server is about to leave: the server then stops looking for its cluster.
    leaving: CancellationToken,
    /// Servers that an operator removed, and when. Kept by the leader.
    removed: Mutex<BTreeMap<ServerId, Instant>>,
    /// Reasons why servers did not answer, by address. A reason is logged when it changes.
    silent: Mutex<BTreeMap<String, String>>,
    regions: Regions,
}

#[derive(Debug, Clone)]
struct Known {
    greeting: Greeting,
    heard: Instant,
    /// Time of its last answer. A server whose requests arrive may still be unable to receive ours.
    answered: Option<Instant>,
}

/// A server's description of itself to other servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Greeting {
    id: ServerId,
    name: String,
    region: String,
    /// Authoritative region; empty from a server that does not know it yet.
    #[serde(default)]
    authoritative_region: String,
    datacenter: String,
    version: String,
    address: String,
    serf_port: u16,
    expect: usize,
    non_voting: bool,
    /// Whether the sender belongs to a cluster.
    initialized: bool,
    leader: Option<ServerId>,
    members: BTreeMap<ServerId, String>,
    /// Addresses of the servers that the sender knows.
    knows: BTreeSet<String>,
    /// Addresses of the servers of other regions that the sender knows, by region.
    #[serde(default)]
    regions: Addresses,
}

#[derive(Debug, Serialize, Deserialize)]
struct JoinRequest {
    id: ServerId,
    name: String,
    region: String,
    address: String,
}

#[derive(Debug, Serialize, Deserialize)]
enum JoinAnswer {
    /// The server is now a member at this address.
    Welcome,
    /// Only the leader can decide; this is its address.
    Ask(String),
}

/// A server as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerSeen {
    /// Server id.
    pub(crate) id: ServerId,
    /// Name with region; empty while the server was not heard of since this server started.
    pub(crate) name: String,
    /// `host:port` of the server's one port.
    pub(crate) address: String,
    /// Region.
    pub(crate) region: String,
    /// Datacenter.
    pub(crate) datacenter: String,
    /// Version of the reference whose interface the server implements.
    pub(crate) version: String,
    /// Port of membership, as announced.
    pub(crate) serf_port: u16,
    /// Whether the server is a voter.
    pub(crate) voter: bool,
    /// Whether the server is the leader of its region.
    pub(crate) leader: bool,
    /// Time since the last greeting; `None` when there was none since this server started. Zero for this server
    /// itself.
    pub(crate) heard: Option<Duration>,
}

impl Cluster {
    pub(crate) fn new(id: ServerId, address: String, dialer: Dialer, authoritative_region: &str) -> Self {
        Self {
            id,
            address,
            regions: Regions::new(&dialer, authoritative_region),
            peers: Peers::new(dialer),
            known: Mutex::default(),
            promised: Mutex::default(),
            hearsay: watch::Sender::new(None),
            leaving: CancellationToken::new(),
            removed: Mutex::default(),
            silent: Mutex::default(),
        }
    }

    /// This server's id.
    pub fn id(&self) -> ServerId {
        self.id
    }

    /// Address that others dial to reach this server.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn transport(&self) -> Peers {
        self.peers.clone()
    }

    /// Records a server's greeting, received as a question or as an answer.
    fn note(&self, greeting: Greeting, is_answer: bool) {
        if greeting.id != self.id {
            let leader = greeting.leader;
            self.hearsay.send_if_modified(|known| leader.is_some() && std::mem::replace(known, leader) != leader);
            let (mut known, now) = (self.known.lock(), Instant::now());
            let before = known.get(&greeting.id).and_then(|it| it.answered);
            let answered = if is_answer { Some(now) } else { before };
            known.insert(greeting.id, Known { greeting, heard: now, answered });
        }
    }

    /// Logs that a server does not answer, once for every reason.
    fn note_silence(&self, address: &str, why: String) {
        let mut silent = self.silent.lock();
        if silent.get(address) == Some(&why) {
            return tracing::debug!(address, why, "a server still does not answer");
        }
        tracing::warn!(address, why, "a server does not answer");
        silent.insert(address.to_owned(), why);
    }
}

impl Cluster {
    /// Changes of the leader, as other servers report it.
    pub(super) fn hearsay(&self) -> watch::Receiver<Option<ServerId>> {
        self.hearsay.subscribe()
    }

    /// Returns when the leader, at `address`, has left two greetings in a row unanswered.
    pub(super) async fn deaf(&self, address: &str) {
        let began = Instant::now();
        loop {
            tokio::time::sleep(GREET_WITHIN / 4).await;
            // A leader without a recent greeting, because this server is busy, does not count as unresponsive.
            if !self.silent.lock().contains_key(address) {
                continue;
            }
            let answered =
                self.known.lock().values().find(|it| it.greeting.address == address).and_then(|it| it.answered);
            if answered.unwrap_or(began).elapsed() > 2 * GREET_EVERY + GREET_WITHIN {
                return;
            }
        }
    }

    /// Address of the leader that others reported lately. Never this server: such a report would be outdated.
    pub(super) fn leader_of_others(&self) -> Option<String> {
        let known = self.known.lock();
        let fresh = known.values().filter(|it| it.heard.elapsed() < LEADERLESS_MAX);
        let newest =
            fresh.filter(|it| it.greeting.leader.is_some_and(|leader| leader != self.id)).max_by_key(|it| it.heard)?;
        newest.greeting.members.get(&newest.greeting.leader?).cloned()
    }
}

/// Serves another server over a connection of first byte `Peers`.
pub(crate) async fn accept(core: &Arc<Core>, conn: Conn, from: SocketAddr) {
    if let Err(error) = peers::serve(conn, &**core).await {
        tracing::debug!(%from, %error, "a connection of another server ended");
    }
}

/// Serves a server of another region over a connection of first byte `Regions`.
pub(crate) async fn accept_region(core: &Arc<Core>, conn: Conn, from: SocketAddr) {
    if let Err(error) = peers::serve(conn, &ToRegions(Arc::clone(core))).await {
        tracing::debug!(%from, %error, "a connection of a server of another region ended");
    }
}

/// Looks for a cluster, or greets the members of this one, until the server shuts down.
pub(crate) fn start(core: &Arc<Core>) {
    core.recall_regions();
    let leaving = core.cluster().leaving.clone();
    watching::until_shutdown(core, async move |own| {
        let look = async {
            while let Some(wait) = look_around(&own).await {
                tokio::time::sleep(wait).await;
            }
        };
        tokio::select! {
            () = look => {}
            () = leaving.cancelled() => {}
        }
    });
}

/// One round of greetings. Returns the delay until the next round; `None` when the server is gone.
async fn look_around(own: &Weak<Core>) -> Option<Duration> {
    let core = own.upgrade()?;
    core.greet_regions().await;
    if core.facts.config.starts_alone() && core.log().members().borrow().addresses.len() <= 1 {
        core.keep_own_address().await;
        return Some(GREET_EVERY);
    }
    if core.stays_away() {
        return Some(GREET_EVERY);
    }
    core.greet_all().await;
    if core.disk_trouble().is_some() {
        // Greetings are the only source of the leader's address then.
        return Some(SEEK_EVERY);
    }
    let initialized = core.log().is_initialized().await.unwrap_or(true);
    let seeking = !initialized || core.is_forgotten();
    if !seeking {
        core.keep_own_address().await;
        return Some(GREET_EVERY);
    }
    if !core.join_a_cluster().await && !initialized {
        core.found_a_cluster().await;
    }
    Some(SEEK_EVERY)
}

impl Core {
    /// Cluster membership of this server.
    pub fn cluster(&self) -> &Cluster {
        &self.connections.cluster
    }

    /// Checks that this server can authenticate the members in its log: a server whose configuration names no other
    /// server may still have members.
    pub(super) fn trust_members(&self, trust: &ServerTrust) -> Result<(), StartError> {
        let mut addresses = self.other_servers();
        if addresses.is_empty() || trust.is_settled() {
            return Ok(());
        }
        addresses.push(self.connections.cluster.address.clone());
        addresses.retain(|address| !trust::is_ip_of_this_machine(address));
        if addresses.is_empty() {
            trust.take_same_machine();
            return Ok(());
        }
        Err(StartError::Unproven(trust::advice(&addresses, &self.facts.info.region)))
    }

    /// Address of the leader, if there is one.
    pub(crate) fn leader_address(&self) -> Option<String> {
        match self.leader() {
            Leader::Here => Some(self.connections.cluster.address.clone()),
            Leader::At(address) => Some(address.to_string()),
            Leader::Unknown => None,
        }
    }

    /// Addresses of all servers of the cluster.
    pub(crate) fn server_addresses(&self) -> Vec<String> {
        let members = self.log().members();
        let addresses: Vec<String> = members.borrow().addresses.values().cloned().collect();
        // A server without a cluster knows only its own address.
        if addresses.is_empty() { vec![self.connections.cluster.address.clone()] } else { addresses }
    }

    /// All servers of the cluster, by id.
    pub(crate) fn servers_seen(&self) -> Vec<ServerSeen> {
        let members = self.log().members().borrow().clone();
        let leader = self.log().leadership().borrow().leader;
        let known = self.connections.cluster.known.lock().clone();
        let own = self.greeting();
        let seen = members.addresses.into_iter().map(|(id, address)| {
            let heard = if id == self.connections.cluster.id {
                Some(Duration::ZERO)
            } else {
                known.get(&id).map(|it| it.heard.elapsed())
            };
            let greeting =
                if id == self.connections.cluster.id { Some(&own) } else { known.get(&id).map(|it| &it.greeting) };
            let text = |of: fn(&Greeting) -> &String| greeting.map_or_else(String::new, |it| of(it).clone());
            ServerSeen {
                id,
                name: text(|it| &it.name),
                region: text(|it| &it.region),
                datacenter: text(|it| &it.datacenter),
                version: text(|it| &it.version),
                serf_port: greeting.map_or(0, |it| it.serf_port),
                voter: members.voters.iter().any(|voters| voters.contains(&id)),
                leader: leader == Some(id),
                heard,
                address,
            }
        });
        seen.collect()
    }

    fn greeting(&self) -> Greeting {
        let log = self.log();
        let members = log.members().borrow().addresses.clone();
        let known = self.connections.cluster.known.lock();
        Greeting {
            id: self.connections.cluster.id,
            name: self.facts.info.name.clone(),
            region: self.facts.info.region.clone(),
            authoritative_region: self.facts.info.authoritative_region.clone(),
            datacenter: self.facts.info.datacenter.clone(),
            version: self.facts.info.version.clone(),
            address: self.connections.cluster.address.clone(),
            serf_port: self.facts.info.serf_port,
            expect: self.facts.config.expected(),
            non_voting: self.facts.config.non_voting_server,
            initialized: !members.is_empty(),
            leader: log.leadership().borrow().leader,
            knows: known.values().map(|it| it.greeting.address.clone()).collect(),
            members,
            regions: self.regions_known(),
        }
    }

    /// Greets all configured servers and members, and records their answers.
    async fn greet_all(&self) {
        let mut addresses: BTreeSet<String> = self.facts.config.join.addresses().into_iter().collect();
        addresses.extend(self.log().members().borrow().addresses.values().cloned());
        {
            let known = self.connections.cluster.known.lock();
            let fresh = known.values().filter(|it| it.heard.elapsed() < PROMISE_HOLDS);
            addresses.extend(fresh.flat_map(|it| it.greeting.knows.iter().chain([&it.greeting.address]).cloned()));
        }
        addresses.remove(&self.connections.cluster.address);
        addresses.remove("");
        let own = encode(&self.greeting());
        let greetings = addresses
            .iter()
            .map(|address| self.connections.cluster.peers.ask(address, Topic::Greeting, &own, GREET_WITHIN));
        for (answer, address) in futures_util::future::join_all(greetings).await.into_iter().zip(&addresses) {
            match answer.map_err(|error| error.to_string()).and_then(|answer| decode::<Greeting>(&answer)) {
                Ok(greeting) if greeting.region == self.facts.info.region => {
                    self.connections.cluster.silent.lock().remove(address);
                    self.hear_of_regions(&greeting.regions);
                    self.connections.cluster.note(greeting, true);
                }
                Ok(greeting) => self.note_region(greeting, true),
                Err(why) => self.connections.cluster.note_silence(address, why),
            }
        }
    }

    /// Whether this server believes that it is a member while the others do not list it, or list it at another
    /// address.
    fn is_forgotten(&self) -> bool {
        let log = self.log();
        let contact = log.last_contact();
        if log.is_leader() || contact.is_some_and(|contact| contact < LEADERLESS_MAX) {
            return false;
        }
        let known = self.connections.cluster.known.lock();
        known.values().any(|it| {
            let greeting = &it.greeting;
            it.heard.elapsed() < LEADERLESS_MAX
                && greeting.leader.is_some()
                && greeting
                    .members
                    .get(&self.connections.cluster.id)
                    .is_none_or(|address| *address != self.connections.cluster.address)
        })
    }

    /// Reports this server's address to the leader when the log has another one.
    async fn keep_own_address(&self) {
        let listed = self.log().members().borrow().addresses.get(&self.connections.cluster.id).cloned();
        if listed.is_none_or(|address| address == self.connections.cluster.address) {
            return;
        }
        if self.log().is_leader() {
            if let Err(error) =
                self.log().add_learner(self.connections.cluster.id, &self.connections.cluster.address).await
            {
                tracing::warn!(%error, "could not write where this server is now; it is tried again");
            }
        } else if let Some(leader) = self.leader_address() {
            self.join_at(leader).await;
        }
    }

    /// Asks a discovered cluster to admit this server. Returns whether there is such a cluster.
    async fn join_a_cluster(&self) -> bool {
        let address = {
            let known = self.connections.cluster.known.lock();
            let fresh = known.values().filter(|it| it.heard.elapsed() < LEADERLESS_MAX && it.greeting.initialized);
            let with_leader = fresh.filter_map(|it| {
                let leader = it.greeting.leader?;
                it.greeting.members.get(&leader).cloned()
            });
            with_leader.into_iter().next()
        };
        match address {
            Some(address) => {
                self.join_at(address).await;
                true
            }
            None => false,
        }
    }

    async fn join_at(&self, mut address: String) {
        let request = JoinRequest {
            id: self.connections.cluster.id,
            name: self.facts.info.name.clone(),
            region: self.facts.info.region.clone(),
            address: self.connections.cluster.address.clone(),
        };
        let request = encode(&request);
        // A former leader may name its successor. A longer chain of referrals means that no server knows the leader.
        for _ in 0..3 {
            let asked = self.connections.cluster.peers.ask(&address, Topic::Join, &request, JOIN_WITHIN).await;
            match asked.map_err(|error| error.to_string()).and_then(|answer| decode(&answer)) {
                Ok(JoinAnswer::Welcome) => {
                    tracing::info!(%address, "joined a cluster");
                    return;
                }
                Ok(JoinAnswer::Ask(leader)) => address = leader,
                Err(error) => {
                    tracing::warn!(%address, %error, "could not join; it is tried again");
                    return;
                }
            }
        }
    }

    /// Admits a server as a learner. Autopilot decides later about its vote.
    async fn let_in(&self, request: JoinRequest) -> Result<JoinAnswer, String> {
        if request.region != self.facts.info.region {
            return Err(format!(
                "server {} is of region {:?}, this cluster of {:?}",
                request.name, request.region, self.facts.info.region
            ));
        }
        if !self.log().is_leader() {
            return self.leader_address().map(JoinAnswer::Ask).ok_or_else(|| "No cluster leader".into());
        }
        // A live server that was removed may come back, but not before others can see that it was removed. One that had not
        // heard of its leader yet would ask at once.
        if self.connections.cluster.removed.lock().get(&request.id).is_some_and(|at| at.elapsed() < LEADERLESS_MAX) {
            return Err(format!("server {} was removed less than {LEADERLESS_MAX:?} ago", request.name));
        }
        let listed = self.log().members().borrow().addresses.clone();
        if let Some(listed) = listed.get(&request.id).filter(|address| **address != request.address) {
            // The same id at another address: the server has moved, unless its old address still answers.
            let asked = self
                .connections
                .cluster
                .peers
                .ask(listed, Topic::Greeting, &encode(&self.greeting()), GREET_WITHIN)
                .await;
            let there = asked.ok().and_then(|answer| decode::<Greeting>(&answer).ok());
            if there.is_some_and(|there| there.id == request.id) {
                return Err(format!(
                    "server {} has the same id and is at {listed}: remove the file `id` of one that was copied",
                    request.id
                ));
            }
        }
        let usurped = listed.iter().find(|(id, address)| **id != request.id && **address == request.address);
        if let Some((old, _)) = usurped {
            // A wiped server comes back at its address with a new id. The old id is removed.
            self.log().remove(*old).await.map_err(|error| error.to_string())?;
        }
        self.log().add_learner(request.id, &request.address).await.map_err(|error| error.to_string())?;
        tracing::info!(id = request.id, name = %request.name, address = %request.address, "a server joined");
        Ok(JoinAnswer::Welcome)
    }
}

impl Answers for Core {
    async fn answer(&self, topic: Topic, question: Bytes) -> Result<Bytes, String> {
        let Some(log) = self.log.get() else { return Err("the server is starting".into()) };
        match topic {
            Topic::Consensus => {
                // Refuse before the disk is full: an entry that cannot be stored must not be accepted.
                self.room.check().map_err(|error| error.to_string())?;
                if let Some(why) = self.disk_trouble() {
                    return Err(why);
                }
                Ok(log.receive(question).await)
            }
            Topic::Greeting => {
                let theirs: Greeting = decode(&question)?;
                if theirs.region == self.facts.info.region {
                    self.hear_of_regions(&theirs.regions);
                    self.connections.cluster.note(theirs, false);
                }
                Ok(encode(&self.greeting()))
            }
            Topic::Join => Ok(encode(&self.let_in(decode(&question)?).await?)),
            Topic::Leave => Ok(encode(&self.let_go(decode(&question)?).await?)),
            Topic::Promise => self.promise(&decode(&question)?).map(|()| Bytes::new()),
            Topic::KeyEncryptionKey => self.answer_about_kek(&question),
            Topic::Archive => self.answer_about_archive(&question).await,
            Topic::Objects => Err("only servers of other regions ask about the objects of all regions".into()),
        }
    }
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Bytes {
    rmp_serde::to_vec_named(value).expect("what servers tell each other has a form in msgpack").into()
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    rmp_serde::from_slice(bytes).map_err(|error| format!("not what servers say to each other: {error}"))
}

#[cfg(test)]
mod attacks;
