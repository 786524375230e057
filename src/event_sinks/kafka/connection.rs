//! One connection to a broker: authentication, and requests with their answers, one after another.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use songline_model::Broker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::cluster::Access;
use super::protocol::{self, Api};
use super::{Failure, REPLICAS_WAIT};
use crate::event_sinks::socket::{self, Socket};

/// Timeout of connecting, authentication included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an answer: replicas have `REPLICAS_WAIT`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(REPLICAS_WAIT.as_secs() + 10);
/// Longest answer that is read, in bytes: the metadata of a topic with 100,000 partitions.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The mechanism of user and password.
const PLAIN: &str = "PLAIN";

/// A connection to a broker.
pub(super) struct Connection {
    socket: Box<dyn Socket>,
    broker: Broker,
    client: String,
    asked: i32,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("broker", &self.broker).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, and authenticates if there is a user.
    pub async fn open(access: &Access, broker: &Broker) -> Result<Self, Failure> {
        match timeout(CONNECT_TIMEOUT, Self::greet(access, broker)).await {
            Ok(opened) => opened,
            Err(_) => Err(Failure::Other(format!("{broker} does not answer"))),
        }
    }

    async fn greet(access: &Access, broker: &Broker) -> Result<Self, Failure> {
        let failed = |why: io::Error| Failure::Other(format!("{broker}: {why}"));
        let mut socket = socket::connect(&broker.host, broker.port).await.map_err(failed)?;
        if access.tls {
            socket = socket::secured(socket, &broker.host).await.map_err(failed)?;
        }
        let mut connection = Self { socket, broker: broker.clone(), client: access.client.clone(), asked: 0 };
        connection.check_versions().await?;
        if let Some((user, password)) = access.secret.reveal().split_once(':') {
            connection.authenticate(user, password).await?;
        }
        Ok(connection)
    }

    /// Refuses a broker that is too old or too new.
    async fn check_versions(&mut self) -> Result<(), Failure> {
        let answer = self.ask(protocol::API_VERSIONS, &[]).await?;
        for api in [protocol::METADATA, protocol::PRODUCE] {
            let (takes, versions) = protocol::takes(answer.clone(), api).map_err(|why| self.failure(why))?;
            if !takes {
                return Err(self.failure(format!("the broker takes {versions} of request {}", api.name)));
            }
        }
        Ok(())
    }

    async fn authenticate(&mut self, user: &str, password: &str) -> Result<(), Failure> {
        let answer = self.ask(protocol::SASL_HANDSHAKE, &protocol::mechanism(PLAIN)).await?;
        let (code, names) = protocol::read_mechanisms(answer).map_err(|why| self.failure(why))?;
        if code != 0 {
            let (why, _) = protocol::meaning(code);
            return Err(self.failure(format!("SASL/{PLAIN}: {why}; it takes {}", names.join(", "))));
        }
        let told = protocol::authentication(format!("\0{user}\0{password}").as_bytes());
        let answer = self.ask(protocol::SASL_AUTHENTICATE, &told).await?;
        match protocol::read_authenticated(answer).map_err(|why| self.failure(why))? {
            (0, _) => Ok(()),
            (code, why) => Err(self.failure(why.unwrap_or_else(|| protocol::meaning(code).0))),
        }
    }

    /// Sends a request and waits for its answer, which is returned without its header.
    pub async fn ask(&mut self, api: Api, body: &[u8]) -> Result<Bytes, Failure> {
        self.asked = self.asked.wrapping_add(1);
        let request = protocol::request(api, self.asked, &self.client, body);
        let answer = match timeout(ANSWER_TIMEOUT, self.exchange(&request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => return Err(self.failure(error)),
            Ok(Err(error)) => return Err(Failure::Stale(format!("{}: {error}", self.broker))),
            Err(_) => return Err(self.failure(format!("no answer to request {}", api.name))),
        };
        Ok(answer)
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Bytes> {
        self.socket.write_all(request).await?;
        self.socket.flush().await?;
        let length = self.socket.read_i32().await?;
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
        let length = usize::try_from(length).ok().filter(|length| (4..=ANSWER_BYTES_MAX).contains(length));
        let length = length.ok_or_else(|| invalid("the answer has an impossible length"))?;
        let mut answer = BytesMut::zeroed(length);
        self.socket.read_exact(&mut answer).await?;
        if answer.get_i32() != self.asked {
            return Err(invalid("the answer is that of another request"));
        }
        Ok(answer.freeze())
    }

    fn failure(&self, why: impl fmt::Display) -> Failure {
        Failure::Other(format!("{}: {why}", self.broker))
    }
}
