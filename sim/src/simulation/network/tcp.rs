//! Connections of the simulated network: streams of bytes that arrive late, in order and once, as those of TCP. A cut
//! is silence until it is mended, or until the connection is given up. The death of a machine breaks its connections.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_log::NodeId;
use songline_rpc::port::{Conn, Connecting, Listener};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::ending::Ending;
use super::super::record::Record;
use super::{FIRST_NODE, Network};

/// Time of silence after which a connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Interval at which the end of a cut is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Bytes in flight in one direction.
const WINDOW_BYTES: usize = 64 << 10;

/// An accepted connection and the address of the other end.
type Accepted = (Conn, SocketAddr);

/// The network as one life of a machine uses it.
#[derive(Clone)]
pub struct Tcp {
    from: NodeId,
    life: Arc<Ending>,
    network: Arc<Network>,
    record: Arc<Record>,
    /// Address that a node dialled last.
    last: Arc<Mutex<String>>,
}

/// Port of one life of a machine.
#[derive(Debug, Clone)]
pub(super) struct Port {
    id: NodeId,
    life: Arc<Ending>,
    accepted: mpsc::UnboundedSender<Accepted>,
}

/// Receiver of a port's connections.
pub struct SimListener(mpsc::UnboundedReceiver<Accepted>);

impl Tcp {
    /// The network for a life of the machine with this number. The life's end breaks its connections.
    pub fn new(from: NodeId, life: &Arc<Ending>, network: &Arc<Network>, record: &Arc<Record>) -> Self {
        let (life, network, record) = (Arc::clone(life), Arc::clone(network), Arc::clone(record));
        Self { from, life, network, record, last: Arc::default() }
    }

    /// Listens at an address until the life ends, or another life listens there.
    pub fn listen(&self, address: &str) -> SimListener {
        let (accepted, receiver) = mpsc::unbounded_channel();
        self.network.open_port(address, Port { id: self.from, life: Arc::clone(&self.life), accepted });
        SimListener(receiver)
    }

    async fn dial(&self, address: &str) -> io::Result<Accepted> {
        if self.from >= FIRST_NODE && std::mem::replace(&mut *self.last.lock(), address.to_owned()) != address {
            self.record.count(|counts| counts.moves += 1);
        }
        tokio::time::sleep(self.network.passage_surely()).await;
        // A machine without a server does not answer, so the failure takes as long as a dialler waits.
        let silence = || io::Error::new(io::ErrorKind::TimedOut, format!("nothing answers at {address}"));
        let Some(port) = self.network.port(address).filter(|port| !port.life.is_over()) else {
            tokio::time::sleep(LOOK_EVERY).await;
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("nothing listens at {address}")));
        };
        pass(&self.network, self.from, port.id).await.ok_or_else(silence)?;
        pass(&self.network, port.id, self.from).await.ok_or_else(silence)?;
        let (ours, here) = duplex(WINDOW_BYTES);
        let (theirs, there) = duplex(WINDOW_BYTES);
        let accepted = (Box::new(theirs) as Conn, address_of(self.from));
        port.accepted.send(accepted).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        self.connect_ends(here, there, &port);
        Ok((Box::new(ours), address_of(port.id)))
    }

    fn connect_ends(&self, here: DuplexStream, there: DuplexStream, port: &Port) {
        let (here_out, here_in) = split(here);
        let (there_out, there_in) = split(there);
        let ways = [(self.from, port.id, here_out, there_in), (port.id, self.from, there_out, here_in)];
        for (from, to, out, into) in ways {
            let (network, here, there) = (Arc::clone(&self.network), Arc::clone(&self.life), Arc::clone(&port.life));
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = here.over() => {}
                    () = there.over() => {}
                    () = carry(&network, from, to, out, into) => {}
                }
            });
        }
    }
}

/// Carries the bytes of one direction until its sender ends it or the connection breaks.
async fn carry(
    network: &Network,
    from: NodeId,
    to: NodeId,
    mut out: ReadHalf<DuplexStream>,
    mut into: WriteHalf<DuplexStream>,
) {
    let mut buffer = vec![0; WINDOW_BYTES];
    while let Ok(count @ 1..) = out.read(&mut buffer).await {
        tokio::time::sleep(network.passage_surely()).await;
        if pass(network, from, to).await.is_none() || into.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
    // The other end reads the end of the stream; an error means that it has gone.
    let _ = into.shutdown().await;
}

/// Waits while a direction is cut. `None`: for so long that the connection is broken.
async fn pass(network: &Network, from: NodeId, to: NodeId) -> Option<()> {
    let since = Instant::now();
    while network.is_cut(from, to) {
        if since.elapsed() > SILENCE_MAX {
            return None;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Some(())
}

/// Address of the machine with this number, as its peers see it.
fn address_of(id: NodeId) -> SocketAddr {
    let [.., b, c, d] = id.to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, b, c, d)), 4647)
}

impl songline_rpc::port::Network for Tcp {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(self.dial(address))
    }
}

impl Listener for SimListener {
    fn accept(&mut self) -> Connecting<'_> {
        Box::pin(async move {
            match self.0.recv().await {
                Some(accepted) => Ok(accepted),
                // Another life listens at the address.
                None => std::future::pending().await,
            }
        })
    }
}

impl Debug for Tcp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tcp").field("from", &self.from).finish_non_exhaustive()
    }
}
