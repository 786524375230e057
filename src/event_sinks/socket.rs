//! Connections to receivers that are no HTTP servers: TCP, with TLS where it is wanted.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use songline_client::tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection of either kind.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Socket for T {}

/// Connects to a TCP port.
pub(super) async fn connect(host: &str, port: u16) -> io::Result<Box<dyn Socket>> {
    let stream = TcpStream::connect((host, port)).await?;
    // Small requests wait for their answers.
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// Begins TLS on a connection. The certificate must be for `host`, and from an authority of the system.
pub(super) async fn secured(socket: Box<dyn Socket>, host: &str) -> io::Result<Box<dyn Socket>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::new(tls::client_config()));
    Ok(Box::new(connector.connect(name, socket).await?))
}
