//! The brokers of a cluster: which of them leads which partition, and a connection to each that is needed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use songline_model::{Broker, Secret};

use super::connection::Connection;
use super::{Batch, Failure, REPLICAS_WAIT, protocol};

/// How a topic is reached.
#[derive(Debug)]
pub(super) struct Access {
    /// Brokers that know the others.
    pub brokers: Vec<Broker>,
    pub tls: bool,
    /// Name of this client, for the logs of brokers.
    pub client: String,
    pub topic: String,
    /// User and password with a colon between them, or nothing.
    pub secret: Secret,
}

/// Leaders of a topic's partitions. Metadata that turns out to be old is thrown away with its connections.
#[derive(Debug)]
pub(super) struct Cluster {
    brokers: BTreeMap<i32, Broker>,
    /// Broker that leads each partition.
    pub leaders: Vec<Option<i32>>,
    connections: BTreeMap<i32, Connection>,
}

impl Cluster {
    /// The broker that leads a partition.
    pub fn leader(&self, partition: i32) -> Result<i32, Failure> {
        let leader = usize::try_from(partition).ok().and_then(|at| self.leaders.get(at).copied().flatten());
        leader.ok_or_else(|| Failure::Other(format!("partition {partition} has no leader")))
    }
}

impl Access {
    /// Asks the brokers of the address, one after another, for the leaders of the topic's partitions.
    pub async fn discover(&self) -> Result<Cluster, Failure> {
        let mut failures = Vec::new();
        for broker in &self.brokers {
            match self.ask_for_leaders(broker).await {
                Ok(cluster) => return Ok(cluster),
                Err(why) => failures.push(why.to_string()),
            }
        }
        Err(Failure::Other(failures.join("; ")))
    }

    async fn ask_for_leaders(&self, broker: &Broker) -> Result<Cluster, Failure> {
        let mut connection = Connection::open(self, broker).await?;
        let answer = connection.ask(protocol::METADATA, &protocol::metadata(&self.topic)).await?;
        let told = protocol::read_metadata(answer).map_err(|why| Failure::Other(format!("{broker}: {why}")))?;
        if told.error != 0 || told.leaders.is_empty() {
            let (why, _) = protocol::meaning(if told.error == 0 { 3 } else { told.error });
            return Err(Failure::Other(format!("topic {:?}: {why}", self.topic)));
        }
        Ok(Cluster { brokers: told.brokers, leaders: told.leaders, connections: BTreeMap::new() })
    }

    /// Has a broker store batches by partition. Returns the code of each of them.
    pub async fn produce(
        &self,
        cluster: &mut Cluster,
        leader: i32,
        batches: &[Batch],
    ) -> Result<BTreeMap<i32, i16>, Failure> {
        let connection = match cluster.connections.entry(leader) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => {
                let broker = cluster.brokers.get(&leader);
                let broker = broker.ok_or_else(|| Failure::Other(format!("the cluster has no broker {leader}")))?;
                new.insert(Connection::open(self, broker).await?)
            }
        };
        let wait_ms = i32::try_from(REPLICAS_WAIT.as_millis()).expect("the wait is below a minute");
        let lent = batches.iter().map(|(partition, batch)| (*partition, &batch[..]));
        let answer = connection.ask(protocol::PRODUCE, &protocol::produce(&self.topic, wait_ms, lent)).await?;
        let codes = protocol::read_produced(answer).map_err(Failure::other)?;
        match batches.iter().find(|(partition, _)| !codes.contains_key(partition)) {
            Some((partition, _)) => Err(Failure::Other(format!("the broker did not answer for partition {partition}"))),
            None => Ok(codes),
        }
    }
}
