//! Kafka: the messages of a delivery are stored by all replicas in sync before the next delivery begins. One request is
//! under way for each partition, so that its messages stay in the order of the log. The part of the protocol that this
//! needs is small, so it is spoken here: five plain requests, and batches without compression.

mod cluster;
mod connection;
mod messages;
mod protocol;
mod records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::BytesMut;
use songline_model::{Brokers, EventSink, PartitionKey, Time};
use songline_server::event_sinks::{Delivering, DeliveryError, Parcel, Receiver};

use cluster::{Access, Cluster};
use messages::{Message, messages, partition};

/// Time that the replicas have to store a batch.
const REPLICAS_WAIT: Duration = Duration::from_secs(20);
/// Messages of one batch, in bytes. Half of what a topic takes unless it says otherwise.
const BATCH_BYTES_MAX: usize = 512 * 1024;

/// A topic of Kafka.
pub(super) struct Kafka {
    name: String,
    access: Access,
    key: PartitionKey,
    /// The leaders and connections of the last delivery.
    cluster: Option<Cluster>,
}

/// A partition and the bytes of a batch for it.
type Batch = (i32, BytesMut);

/// Failure of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Failure {
    /// The connection broke or the partition has another leader: another try with fresh metadata may succeed at once.
    #[error("{0}")]
    Stale(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    fn other(text: impl ToString) -> Self {
        Self::Other(text.to_string())
    }
}

impl Kafka {
    pub(super) fn new(sink: &EventSink) -> Result<Self, DeliveryError> {
        let Brokers { tls, brokers } =
            Brokers::parse(&sink.address).map_err(|why| DeliveryError(format!("the address is not usable: {why}")))?;
        let access = Access {
            brokers,
            tls,
            client: format!("songline-{}", sink.id),
            topic: sink.subject.to_string(),
            secret: sink.secret.clone(),
        };
        Ok(Self { name: sink.id.to_string(), access, key: sink.partition_key, cluster: None })
    }

    async fn publish_all(&mut self, parcel: &Parcel) -> Result<(), Failure> {
        let mut all = Vec::new();
        for frame in &parcel.frames {
            all.extend(messages(frame, self.key, &self.name).map_err(Failure::other)?);
        }
        let mut waiting = None;
        let is_reused = self.cluster.is_some();
        match self.publish(&all, &mut waiting, parcel.at).await {
            // Brokers close connections that are not used for a while, and partitions change their leaders.
            Err(Failure::Stale(_)) if is_reused => self.publish(&all, &mut waiting, parcel.at).await,
            done => done,
        }
    }

    /// Sends what is waiting; at first, all messages. A cluster with an error is not used again.
    async fn publish(&mut self, all: &[Message], waiting: &mut Option<Waiting>, at: Time) -> Result<(), Failure> {
        let mut cluster = match self.cluster.take() {
            Some(cluster) => cluster,
            None => self.access.discover().await?,
        };
        let partitions = cluster.leaders.len();
        let waiting = match waiting {
            Some(waiting) if waiting.partitions == partitions => waiting,
            // The topic has more partitions than before: keys have others.
            old => old.insert(Waiting::of(all, partitions)),
        };
        while let Some((leader, batches)) = waiting.next(&cluster, at)? {
            let codes = self.access.produce(&mut cluster, leader, &batches).await?;
            waiting.answered(&codes)?;
        }
        self.cluster = Some(cluster);
        Ok(())
    }
}

impl Receiver for Kafka {
    fn deliver<'a>(&'a mut self, parcel: &'a Parcel) -> Delivering<'a> {
        Box::pin(async move { self.publish_all(parcel).await.map_err(|why| DeliveryError(format!("Kafka: {why}"))) })
    }
}

/// Batches that are not stored yet.
#[derive(Debug)]
struct Waiting {
    /// Number of partitions of the topic.
    partitions: usize,
    /// The batches of each partition, in their order. No list and no batch is empty.
    batches: BTreeMap<i32, VecDeque<Vec<Message>>>,
}

impl Waiting {
    fn of(all: &[Message], partitions: usize) -> Self {
        let mut batches: BTreeMap<i32, VecDeque<Vec<Message>>> = BTreeMap::new();
        for message in all {
            let targets = match &message.key {
                Some(key) => {
                    let one = partition(key, partitions);
                    one..one + 1
                }
                None => 0..partitions,
            };
            for target in targets {
                // Metadata counts partitions in 32 bits.
                let of_partition = batches.entry(target as i32).or_default();
                match of_partition.back_mut() {
                    Some(last) if bytes(last) + records::size(message) <= BATCH_BYTES_MAX => last.push(message.clone()),
                    Some(_) | None => of_partition.push_back(vec![message.clone()]),
                }
            }
        }
        Self { partitions, batches }
    }

    /// A broker, and the next batch of each partition that it leads. `None`: nothing is waiting.
    fn next(&self, cluster: &Cluster, at: Time) -> Result<Option<(i32, Vec<Batch>)>, Failure> {
        let Some(first) = self.batches.keys().next() else { return Ok(None) };
        let leader = cluster.leader(*first)?;
        let led = self.batches.iter().filter(|(partition, _)| cluster.leader(**partition) == Ok(leader));
        let next = led.filter_map(|(partition, batches)| Some((*partition, records::batch(batches.front()?, at))));
        Ok(Some((leader, next.collect())))
    }

    /// Takes the batches away that are stored. Returns the first failure after all of them.
    fn answered(&mut self, codes: &BTreeMap<i32, i16>) -> Result<(), Failure> {
        let mut failure = Ok(());
        for (partition, code) in codes {
            let Some(batches) = self.batches.get_mut(partition) else { continue };
            let Some(batch) = batches.pop_front() else { continue };
            match *code {
                0 => {}
                // The topic takes less than others do: a shorter batch may be short enough.
                code if protocol::is_too_large(code) && batch.len() > 1 => {
                    let (first, second) = batch.split_at(batch.len() / 2);
                    batches.push_front(second.to_vec());
                    batches.push_front(first.to_vec());
                }
                code => {
                    if failure.is_ok() {
                        failure = Err(refused(*partition, &batch, code));
                    }
                    batches.push_front(batch);
                }
            }
            if batches.is_empty() {
                self.batches.remove(partition);
            }
        }
        failure
    }
}

fn bytes(batch: &[Message]) -> usize {
    batch.iter().map(records::size).sum()
}

fn refused(partition: i32, batch: &[Message], code: i16) -> Failure {
    let (why, is_stale) = protocol::meaning(code);
    let text = match batch {
        [only] if protocol::is_too_large(code) => {
            format!("the message at index {} has {} bytes: {why}", only.position, only.payload.len())
        }
        _ => format!("partition {partition}: {why}"),
    };
    if is_stale { Failure::Stale(text) } else { Failure::Other(text) }
}
