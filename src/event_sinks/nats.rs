//! NATS: each frame is one message that a stream of JetStream has stored before the next one is sent. The part of the
//! protocol that this needs is small, so it is spoken here: `HPUB` with a reply subject, and its acknowledgement.

mod protocol;

use std::time::Duration;

use bytes::BytesMut;
use reqwest::Url;
use serde_json::{Value, json};
use songline_model::{EventSink, Secret};
use songline_server::event_sinks::{Delivering, DeliveryError, Frame, Parcel, Receiver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use uuid::Uuid;

use super::socket::{self, Socket};
use protocol::Message;

/// Port of NATS.
const PORT: u16 = 4222;
/// Timeout of connecting and of the acknowledgement of a frame.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest message of a NATS server that is read, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A subject of a NATS server.
pub(super) struct Nats {
    name: String,
    run: u64,
    host: String,
    port: u16,
    tls: bool,
    subject: String,
    secret: Secret,
    connection: Option<Connection>,
}

struct Connection {
    wire: Box<dyn Socket>,
    read: BytesMut,
    /// Beginning of the reply subjects.
    inbox: String,
    sent: u64,
    payload_bytes_max: usize,
}

fn error(text: impl std::fmt::Display) -> DeliveryError {
    DeliveryError(format!("NATS: {text}"))
}

impl Nats {
    pub(super) fn new(sink: &EventSink, run: u64) -> Result<Self, DeliveryError> {
        let url = Url::parse(&sink.address).map_err(error)?;
        Ok(Self {
            name: sink.id.to_string(),
            run,
            host: url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(PORT),
            tls: url.scheme() == "tls",
            subject: sink.subject.to_string(),
            secret: sink.secret.clone(),
            connection: None,
        })
    }

    async fn publish_all(&mut self, parcel: &Parcel) -> Result<(), DeliveryError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        for frame in &parcel.frames {
            let acknowledged = timeout(TIMEOUT, self.publish(&mut connection, frame)).await;
            acknowledged.map_err(|_| error("the server did not acknowledge a message"))??;
        }
        // A connection with an error is not used again.
        self.connection = Some(connection);
        Ok(())
    }

    async fn connect(&self) -> Result<Connection, DeliveryError> {
        let connected = timeout(TIMEOUT, self.greet()).await;
        connected.map_err(|_| error(format!("{}:{} does not answer", self.host, self.port)))?
    }

    async fn greet(&self) -> Result<Connection, DeliveryError> {
        let wire = socket::connect(&self.host, self.port).await;
        let mut connection = Connection::new(wire.map_err(|why| error(format!("{}:{}: {why}", self.host, self.port)))?);
        let Message::Info(info) = connection.next().await? else {
            return Err(error("the server does not greet"));
        };
        let told: Value = serde_json::from_slice(&info).map_err(error)?;
        connection.payload_bytes_max =
            told["max_payload"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        if self.tls || told["tls_required"] == true {
            connection.wire = socket::secured(connection.wire, &self.host).await.map_err(error)?;
        }
        connection.write(&format!("CONNECT {}\r\nPING\r\n", self.credentials())).await?;
        loop {
            match connection.next().await? {
                Message::Pong => break,
                Message::Refused(why) => return Err(error(why)),
                Message::Info(_) | Message::Ping | Message::Ok | Message::Delivery { .. } => {}
            }
        }
        let subscribe = format!("SUB {}.* 1\r\n", connection.inbox);
        connection.write(&subscribe).await?;
        Ok(connection)
    }

    /// Options of this connection for the server. A secret with a colon is a user with a password, any other is a token.
    fn credentials(&self) -> Value {
        let mut told = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "protocol": 1,
            "lang": "rust", "version": env!("CARGO_PKG_VERSION"), "name": format!("songline event sink {}", self.name),
        });
        match self.secret.reveal().split_once(':') {
            Some((user, password)) => (told["user"], told["pass"]) = (user.into(), password.into()),
            None if !self.secret.is_empty() => told["auth_token"] = self.secret.reveal().into(),
            None => {}
        }
        told
    }

    /// Publishes a frame and waits until a stream has stored it.
    async fn publish(&self, connection: &mut Connection, frame: &Frame) -> Result<(), DeliveryError> {
        let payload = frame.line.strip_suffix(b"\n").unwrap_or(&frame.line);
        if payload.len() > connection.payload_bytes_max {
            return Err(error(format!(
                "the frame at index {} has {} bytes, the server takes {}",
                frame.position,
                payload.len(),
                connection.payload_bytes_max
            )));
        }
        connection.sent += 1;
        let reply = format!("{}.{}", connection.inbox, connection.sent);
        // A stream drops a message whose id it has stored within its window of duplicates.
        let id = format!("{}-{}-{}", self.name, self.run, frame.position);
        let bytes = protocol::publication(&self.subject, &reply, &id, frame.position, payload);
        connection.wire.write_all(&bytes).await.map_err(error)?;
        connection.wire.flush().await.map_err(error)?;
        loop {
            match connection.next().await? {
                Message::Delivery { subject, status, payload } if subject == reply.as_bytes() => {
                    return stored(status.as_deref(), &payload);
                }
                Message::Ping => connection.write("PONG\r\n").await?,
                Message::Refused(why) => return Err(error(why)),
                Message::Delivery { .. } | Message::Info(_) | Message::Pong | Message::Ok => {}
            }
        }
    }
}

/// Reads the acknowledgement of a message.
fn stored(status: Option<&str>, payload: &[u8]) -> Result<(), DeliveryError> {
    if status == Some("503") {
        return Err(error("no stream of JetStream takes the subject"));
    }
    let told: Value = serde_json::from_slice(payload).map_err(|_| error("the acknowledgement is no JSON"))?;
    match told["error"]["description"].as_str() {
        Some(why) => Err(error(why)),
        None if told["stream"].is_string() => Ok(()),
        None => Err(error("the acknowledgement is not that of a stream")),
    }
}

impl Connection {
    fn new(wire: Box<dyn Socket>) -> Self {
        let inbox = format!("_INBOX.{}", Uuid::new_v4().simple());
        Self { wire, read: BytesMut::new(), inbox, sent: 0, payload_bytes_max: 0 }
    }

    async fn write(&mut self, text: &str) -> Result<(), DeliveryError> {
        self.wire.write_all(text.as_bytes()).await.map_err(error)?;
        self.wire.flush().await.map_err(error)
    }

    /// The next message of the server.
    async fn next(&mut self) -> Result<Message, DeliveryError> {
        loop {
            if let Some(message) = protocol::message(&mut self.read).map_err(error)? {
                return Ok(message);
            }
            if self.read.len() > MESSAGE_BYTES_MAX {
                return Err(error("a message of the server is too long"));
            }
            if self.wire.read_buf(&mut self.read).await.map_err(error)? == 0 {
                return Err(error("the server has closed the connection"));
            }
        }
    }
}

impl Receiver for Nats {
    fn deliver<'a>(&'a mut self, parcel: &'a Parcel) -> Delivering<'a> {
        Box::pin(self.publish_all(parcel))
    }
}
