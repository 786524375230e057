//! Decides whether the other end of a connection may speak as a server. Both ends use the same rules.
//!
//! | `tls.rpc` | `encrypt` | A server proves itself by |
//! |---|---|---|
//! | on | none | a certificate with the name `server.<region>.nomad` |
//! | off | set | the key: Noise, which also seals the connection |
//! | on | set | both: TLS outside, Noise inside |
//! | off | none | nothing: only servers of the same machine are taken, or every one with `allow_unauthenticated_peers` |
//!
//! Servers of other regions greet and replicate shared objects, over connections of first byte `Regions`: there a
//! certificate with the name of a server of any region will do, and without certificates and key every process of the
//! same machine. Replication needs a management token, too.
//!
//! After the first byte the dialler sends `version u8, sealed u8` and, when sealed, its handshake message. The answer
//! is one byte, 0 or the code of a refusal; when sealed and accepted, the other handshake message follows.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::noise::{HANDSHAKE_BYTES, Handshake};
use super::{Conn, FirstByte};

/// Version of the exchange after the first byte.
const VERSION: u8 = 1;
const WELCOME: u8 = 0;

/// Key that servers prove to each other that they have. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerKey([u8; 32]);

impl ServerKey {
    /// A key with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) fn reveal(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerKey(..)")
    }
}

/// Treatment of servers that prove nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unproven {
    /// They are refused.
    #[default]
    Refused,
    /// They are accepted on this server's own machine.
    SameMachine,
    /// They are accepted at every address.
    Anybody,
}

/// Proofs that a server demands of other servers and gives to them. Clones share their state.
#[derive(Debug, Clone)]
pub struct ServerTrust {
    /// Name in a server's certificate.
    name: Arc<str>,
    /// Name that certificates of other regions need; `None`: that of a server of any region.
    name_elsewhere: Option<Arc<str>>,
    /// Whether the port speaks TLS, so that servers have certificates.
    certificates: bool,
    key: Option<ServerKey>,
    anybody: bool,
    same_machine: Arc<AtomicBool>,
}

/// Reason why a connection may not speak as a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The certificate lacks the name of a server, so it is a node's.
    #[error("the certificate is not that of a server: it lacks the name server.<region>.nomad")]
    Certificate = 1,
    /// One side has an encrypt key and the other proves none.
    #[error("only one of the two servers has an encrypt key")]
    KeyMissing = 2,
    /// The keys differ.
    #[error("the encrypt keys of the two servers differ")]
    KeyDiffers = 3,
    /// Neither side has a key or certificates, and they are not servers of one machine that were told of each
    /// other.
    #[error(
        "without an encrypt key or certificates, only servers that were told of each other on one machine talk to each other"
    )]
    Unproven = 4,
    /// The other side speaks another version.
    #[error("the two servers speak different versions of the protocol between servers")]
    Version = 5,
    /// This agent does not run a server.
    #[error("only servers make and take connections of servers")]
    NoServer = 6,
}

impl Refused {
    fn of(code: u8) -> Option<Self> {
        let all =
            [Self::Certificate, Self::KeyMissing, Self::KeyDiffers, Self::Unproven, Self::Version, Self::NoServer];
        all.into_iter().find(|refused| *refused as u8 == code)
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct OtherEnd<'a> {
    pub(super) ip: IpAddr,
    /// The region's names in its certificate; `None` without TLS.
    pub(super) names: Option<&'a [String]>,
}

impl ServerTrust {
    /// Trust among the servers of a region. `certificates`: their port speaks TLS.
    pub fn new(region: &str, certificates: bool, key: Option<ServerKey>, unproven: Unproven) -> Self {
        Self {
            name: name_in(region),
            name_elsewhere: None,
            certificates,
            key,
            anybody: unproven == Unproven::Anybody,
            same_machine: Arc::new(AtomicBool::new(unproven == Unproven::SameMachine)),
        }
    }

    /// The same trust, and of servers of other regions in those of `region` alone, as far as they have certificates.
    #[must_use]
    pub(super) fn in_region(self, region: &str) -> Self {
        Self { name_elsewhere: Some(name_in(region)), ..self }
    }

    /// Accepts servers of the same machine from now on. Called when all members of this server's cluster have addresses
    /// of this machine.
    pub fn take_same_machine(&self) {
        self.same_machine.store(true, Ordering::Relaxed);
    }

    /// Whether addresses do not matter for the decision: servers have certificates or a key, or all are accepted.
    pub fn is_settled(&self) -> bool {
        self.anybody || self.certificates || self.key.is_some()
    }

    /// Whether there is a key. A dialler with a key first tries to prove it.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Decides whether the other end may speak as a server. `sealed`: it proves the key.
    fn judge(&self, first: FirstByte, other: OtherEnd<'_>, sealed: bool) -> Result<(), Refused> {
        if self.anybody {
            return Ok(());
        }
        let of_any_region = first == FirstByte::Regions;
        let counts = |name: &String| match &self.name_elsewhere {
            Some(elsewhere) if of_any_region => **name == **elsewhere,
            Some(_) | None => **name == *self.name || of_any_region && is_of_a_server(name),
        };
        if other.names.is_some_and(|names| !names.iter().any(counts)) {
            return Err(Refused::Certificate);
        }
        let takes_same_machine = of_any_region || self.same_machine.load(Ordering::Relaxed);
        match (&self.key, sealed) {
            (Some(_), true) => Ok(()),
            (Some(_), false) | (None, true) => Err(Refused::KeyMissing),
            (None, false) if other.names.is_some() => Ok(()),
            (None, false) if takes_same_machine && is_of_this_machine(other.ip) => Ok(()),
            (None, false) => Err(Refused::Unproven),
        }
    }

    /// The dialler's side: sends the first byte, checks the other end, and proves this one.
    pub(super) async fn dial(
        &self,
        first: FirstByte,
        mut conn: Conn,
        other: OtherEnd<'_>,
        sealed: bool,
    ) -> io::Result<Conn> {
        self.judge(first, other, sealed)?;
        let key = self.key.as_ref().filter(|_| sealed);
        let hello = [VERSION, u8::from(sealed)];
        let mut said = vec![first as u8];
        said.extend_from_slice(&hello);
        let mut handshake = key.map(|key| Handshake::dialling(key, &prologue(first, hello))).transpose()?;
        if let Some(handshake) = &mut handshake {
            said.extend_from_slice(&handshake.say()?);
        }
        conn.write_all(&said).await?;
        conn.flush().await?;
        let code = conn.read_u8().await?;
        if code != WELCOME {
            return Err(Refused::of(code).unwrap_or(Refused::Version).into());
        }
        let Some(mut handshake) = handshake else { return Ok(conn) };
        let mut message = [0; HANDSHAKE_BYTES];
        conn.read_exact(&mut message).await?;
        if !handshake.hear(&message) {
            return Err(Refused::KeyDiffers.into());
        }
        Ok(Box::new(handshake.seal(conn)?))
    }

    /// Whether to dial again without the key, because the other end has none. Only if servers without proof are
    /// accepted everywhere.
    pub(super) fn may_dial_open(&self, error: &io::Error) -> bool {
        let refused = error.get_ref().and_then(|error| error.downcast_ref());
        self.anybody && self.key.is_some() && refused == Some(&Refused::KeyMissing)
    }

    /// The acceptor's side, after the first byte. A refusal is sent to the other end before it is returned.
    pub(super) async fn accept(&self, first: FirstByte, mut conn: Conn, other: OtherEnd<'_>) -> io::Result<Conn> {
        match self.welcome(first, &mut conn, other).await? {
            Ok(None) => Ok(conn),
            Ok(Some(handshake)) => Ok(Box::new(handshake.seal(conn)?)),
            Err(refused) => {
                // The code helps the operator of the other server. Sending fails if that server has hung up.
                let _ = conn.write_all(&[refused as u8]).await;
                let _ = conn.shutdown().await;
                Err(refused.into())
            }
        }
    }

    async fn welcome(
        &self,
        first: FirstByte,
        conn: &mut Conn,
        other: OtherEnd<'_>,
    ) -> io::Result<Result<Option<Handshake>, Refused>> {
        let mut hello = [0; 2];
        conn.read_exact(&mut hello).await?;
        let sealed = match hello {
            [VERSION, 0] => false,
            [VERSION, 1] => true,
            _ => return Ok(Err(Refused::Version)),
        };
        let mut message = [0; HANDSHAKE_BYTES];
        if sealed {
            conn.read_exact(&mut message).await?;
        }
        if let Err(refused) = self.judge(first, other, sealed) {
            return Ok(Err(refused));
        }
        if !sealed {
            conn.write_all(&[WELCOME]).await?;
            conn.flush().await?;
            return Ok(Ok(None));
        }
        let Some(key) = &self.key else { return Ok(Err(Refused::KeyMissing)) };
        let mut handshake = Handshake::accepting(key, &prologue(first, hello))?;
        if !handshake.hear(&message) {
            return Ok(Err(Refused::KeyDiffers));
        }
        let mut answer = [WELCOME; 1 + HANDSHAKE_BYTES];
        answer[1..].copy_from_slice(&handshake.say()?);
        conn.write_all(&answer).await?;
        conn.flush().await?;
        Ok(Ok(Some(handshake)))
    }
}

/// Whether an IP address is one of this machine's. No other machine can connect from such an address.
pub fn is_of_this_machine(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    // Only an address of this machine can be bound.
    ip.is_loopback() || !ip.is_unspecified() && std::net::UdpSocket::bind((ip, 0)).is_ok()
}

/// Name in the certificate of a region's servers.
fn name_in(region: &str) -> Arc<str> {
    format!("server.{region}.nomad").into()
}

/// Whether a name in a certificate is that of a server of some region.
pub(super) fn is_of_a_server(name: &str) -> bool {
    name.strip_prefix("server.").and_then(|rest| rest.strip_suffix(".nomad")).is_some_and(|region| !region.is_empty())
}

/// Bytes exchanged in the clear. They are part of the handshake, so that a handshake for one type of connection is
/// useless for another.
fn prologue(first: FirstByte, hello: [u8; 2]) -> Vec<u8> {
    [b"songline servers".as_slice(), &[first as u8], &hello].concat()
}

#[cfg(test)]
mod tests;
