//! Connections between agents: TCP, or the simulated network of a simulation. Bytes only: what they mean is decided by
//! the first of them.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Duplex for T {}

/// A connection, with or without TLS.
pub type Conn = Box<dyn Duplex>;

/// A connection or an error, later. `SocketAddr` is the address of the other end.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<(Conn, SocketAddr)>> + Send + 'a>>;

/// Opens connections.
pub trait Network: Debug + Send + Sync + 'static {
    /// Connects to `address` (`host:port`). Has no timeout of its own.
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a>;
}

/// Accepts connections at one address.
pub trait Listener: Send + 'static {
    /// Waits for the next connection. A call that is dropped before its end loses no connection.
    fn accept(&mut self) -> Connecting<'_>;
}

impl Listener for Box<dyn Listener> {
    fn accept(&mut self) -> Connecting<'_> {
        (**self).accept()
    }
}

/// The machine's TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Network for Tcp {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let to = stream.peer_addr()?;
            Ok((Box::new(stream) as Conn, to))
        })
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> Connecting<'_> {
        Box::pin(async move {
            let (stream, from) = TcpListener::accept(self).await?;
            // An error means that the connection is closed already, which its first read reports.
            let _ = stream.set_nodelay(true);
            Ok((Box::new(stream) as Conn, from))
        })
    }
}
