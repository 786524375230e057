//! Dials servers' ports. The protocols over the connections are elsewhere.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::FirstByte;
use super::link::{Conn, Network, Tcp};
use super::tls::Tls;
use super::trust::{OtherEnd, Refused, ServerTrust};

/// Timeout of dialling.
const DIAL_WITHIN: Duration = Duration::from_secs(10);

/// Dials servers. Clones share the settings.
#[derive(Debug, Clone)]
pub struct Dialer {
    network: Arc<dyn Network>,
    tls: Option<Tls>,
    servers: Option<ServerTrust>,
    /// Whether servers of other regions are dialled.
    of_any_region: bool,
}

impl Dialer {
    /// A dialer over TCP without TLS.
    pub fn plain() -> Self {
        Self::over(Arc::new(Tcp))
    }

    /// A dialer over another network than TCP, without TLS.
    pub fn over(network: Arc<dyn Network>) -> Self {
        Self { network, tls: None, servers: None, of_any_region: false }
    }

    /// A dialer with TLS: it presents its own certificate and verifies the other end's.
    pub fn secured(tls: Tls) -> Self {
        Self { tls: Some(tls), ..Self::plain() }
    }

    /// The dialer for a server: on connections between servers it proves that it is one.
    #[must_use]
    pub fn of_server(self, servers: ServerTrust) -> Self {
        Self { servers: Some(servers), ..self }
    }

    /// The dialer for servers of other regions: their certificates have the names of their regions.
    #[must_use]
    pub fn of_any_region(self) -> Self {
        Self { of_any_region: true, ..self }
    }

    /// The dialer for servers of one other region, whose certificates have to name it.
    #[must_use]
    pub fn of_region(self, region: &str) -> Self {
        let servers = self.servers.map(|servers| servers.in_region(region));
        Self { servers, of_any_region: true, ..self }
    }

    /// Connects to `address` (`host:port`) and sends the first byte. If only servers use that byte, both ends have
    /// proved that they are servers when this returns. An error of kind `PermissionDenied` holds a [`super::Refused`].
    pub async fn connect(&self, address: &str, first: FirstByte) -> io::Result<Conn> {
        let connect = async {
            if !first.is_of_servers() {
                let (mut conn, ..) = self.open(address).await?;
                conn.write_all(&[first as u8]).await?;
                conn.flush().await?;
                return Ok(conn);
            }
            let servers = self.servers.as_ref().ok_or(Refused::NoServer)?;
            match self.connect_to_server(address, first, servers, servers.has_key()).await {
                Err(error) if servers.may_dial_open(&error) => {
                    self.connect_to_server(address, first, servers, false).await
                }
                connected => connected,
            }
        };
        let slow = |_| {
            io::Error::new(io::ErrorKind::TimedOut, format!("{address} did not answer in {} s", DIAL_WITHIN.as_secs()))
        };
        tokio::time::timeout(DIAL_WITHIN, connect).await.map_err(slow)?
    }

    async fn connect_to_server(
        &self,
        address: &str,
        first: FirstByte,
        servers: &ServerTrust,
        sealed: bool,
    ) -> io::Result<Conn> {
        let (conn, ip, names) = self.open(address).await?;
        servers.dial(first, conn, OtherEnd { ip, names: names.as_deref() }, sealed).await
    }

    /// Opens a connection, with TLS if this dialer has it. Returns the connection, the other end's address, and the
    /// names of the region in its certificate (`None` without TLS). The first byte is not sent yet.
    async fn open(&self, address: &str) -> io::Result<(Conn, IpAddr, Option<Arc<[String]>>)> {
        let (mut stream, from) = self.network.connect(address).await?;
        let ip = from.ip();
        let Some(tls) = &self.tls else { return Ok((stream, ip, None)) };
        stream.write_all(&[FirstByte::Tls as u8]).await?;
        let (stream, names) =
            if self.of_any_region { tls.connect_to_region(stream).await? } else { tls.connect(stream).await? };
        Ok((Box::new(stream), ip, Some(names)))
    }
}
