//! Connections to servers' ports. Who speaks what over them is not here.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::FirstByte;
use super::tls::Tls;

/// How long a connection may take to be made.
const DIAL_WITHIN: Duration = Duration::from_secs(10);

/// A connection whose first byte has been said, with or without TLS below.
pub type Conn = Box<dyn Duplex>;

/// Bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Duplex for T {}

/// Makes connections. Clones share what they are made with.
#[derive(Debug, Clone, Default)]
pub struct Dialer {
    tls: Option<Tls>,
}

impl Dialer {
    /// One without TLS.
    pub fn plain() -> Self {
        Self::default()
    }

    /// One with TLS: it shows its own certificate and looks at the other's.
    pub fn secured(tls: Tls) -> Self {
        Self { tls: Some(tls) }
    }

    /// Connects to `address` (`host:port`) and says what the connection is.
    pub async fn connect(&self, address: &str, first: FirstByte) -> io::Result<Conn> {
        let connect = async {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let Some(tls) = &self.tls else {
                stream.write_all(&[first as u8]).await?;
                return Ok(Box::new(stream) as Conn);
            };
            stream.write_all(&[FirstByte::Tls as u8]).await?;
            let mut stream = tls.connect(stream).await?;
            stream.write_all(&[first as u8]).await?;
            stream.flush().await?;
            Ok(Box::new(stream) as Conn)
        };
        let slow = |_| io::Error::new(io::ErrorKind::TimedOut, format!("{address} did not answer in {} s", DIAL_WITHIN.as_secs()));
        tokio::time::timeout(DIAL_WITHIN, connect).await.map_err(slow)?
    }
}
