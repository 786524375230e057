//! Sessions with servers, one per address, with idle streams for further calls.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::channel::{Channel, open_channel};
use super::line::Line;
use crate::RpcError;
use crate::port::{Dialer, FirstByte};
use crate::yamux::{Session, SessionLimits};

/// Limits of a pool.
#[derive(Debug, Clone)]
pub struct PoolLimits {
    /// Most idle streams kept per session.
    pub idle_streams_max: usize,
    /// Time after which a session without calls is ended.
    pub idle_session: Duration,
    /// Timeouts and bounds of the sessions.
    pub session: SessionLimits,
    /// Whether the pool connects a server to other servers: both ends of each session then prove that they are servers.
    pub of_server: bool,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            idle_streams_max: 2,
            idle_session: Duration::from_mins(5),
            session: SessionLimits::default(),
            of_server: false,
        }
    }
}

/// Callback for every session that the pool makes, with its address, so that calls from the other side can be answered.
pub type OnSession = Arc<dyn Fn(&str, Session) + Send + Sync>;

/// Calls servers by address. Clones share the sessions.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    dialer: Dialer,
    limits: PoolLimits,
    on_session: Option<OnSession>,
    seq: AtomicU64,
    peers: Mutex<BTreeMap<String, Arc<Peer>>>,
}

/// State of one address.
#[derive(Default)]
struct Peer {
    /// Held while dialling, so that concurrent calls share one session.
    dialling: tokio::sync::Mutex<()>,
    live: Mutex<Option<Live>>,
}

/// A session with its idle streams.
struct Live {
    /// Number that tells the session from earlier ones.
    made: u64,
    session: Session,
    idle: Vec<Line>,
    in_use: usize,
    used: Instant,
}

impl Pool {
    /// A pool without sessions.
    pub fn new(dialer: Dialer, limits: PoolLimits, on_session: Option<OnSession>) -> Self {
        let peers = Mutex::default();
        Self { shared: Arc::new(Shared { dialer, limits, on_session, seq: AtomicU64::new(1), peers }) }
    }

    /// Calls `method` of the server at `address` (`host:port`). Has no timeout of its own. Error texts of the server
    /// get the prefix `rpc error: `.
    pub async fn call(&self, address: &str, method: &str, body: &[u8]) -> Result<Bytes, RpcError> {
        let peer = self.peer(address);
        let lost = |error: io::Error| RpcError::Lost(error.to_string());
        let session = self.session_with(address, &peer).await.map_err(lost)?;
        let using = Using::of(&peer, &session);
        let mut line = match using.idle() {
            Some(line) => line,
            None => Line::open(&session).await.map_err(lost)?,
        };
        match line.call(self.next_seq(), method, body).await {
            Ok(Ok(answer)) => {
                using.keep(line, self.shared.limits.idle_streams_max);
                Ok(answer)
            }
            Ok(Err(refused)) => Err(refused.over_a_hop()),
            Err(error) => {
                using.drop_session();
                Err(RpcError::Lost(error.to_string()))
            }
        }
    }

    /// Opens the streaming call `method` of the server at `address`.
    pub async fn stream(&self, address: &str, method: &str, request: &[u8]) -> Result<Channel, RpcError> {
        let peer = self.peer(address);
        let session = self.session_with(address, &peer).await.map_err(|error| RpcError::Lost(error.to_string()))?;
        open_channel(&session, method, request).await.map_err(RpcError::over_a_hop)
    }

    /// The session with `address`; dials if there is none.
    pub async fn session(&self, address: &str) -> io::Result<Session> {
        self.session_with(address, &self.peer(address)).await
    }

    /// Next number for a call.
    pub fn next_seq(&self) -> u64 {
        self.shared.seq.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends the session with `address`, if there is one.
    pub fn forget(&self, address: &str) {
        let peer = self.shared.peers.lock().remove(address);
        if let Some(live) = peer.and_then(|peer| peer.live.lock().take()) {
            live.session.close();
        }
    }

    /// Ends all sessions.
    pub fn close(&self) {
        for peer in std::mem::take(&mut *self.shared.peers.lock()).into_values() {
            if let Some(live) = peer.live.lock().take() {
                live.session.close();
            }
        }
    }

    fn peer(&self, address: &str) -> Arc<Peer> {
        Arc::clone(self.shared.peers.lock().entry(address.to_owned()).or_default())
    }

    async fn session_with(&self, address: &str, peer: &Arc<Peer>) -> io::Result<Session> {
        if let Some(session) = peer.session() {
            return Ok(session);
        }
        let _dialling = peer.dialling.lock().await;
        if let Some(session) = peer.session() {
            return Ok(session);
        }
        let first = if self.shared.limits.of_server { FirstByte::RpcOfServers } else { FirstByte::MultiplexV2 };
        let conn = self.shared.dialer.connect(address, first).await?;
        let session = Session::dialled(conn, self.shared.limits.session.clone());
        let made = self.next_seq();
        *peer.live.lock() =
            Some(Live { made, session: session.clone(), idle: Vec::new(), in_use: 0, used: Instant::now() });
        tokio::spawn(end_when_idle(Arc::downgrade(peer), made, self.shared.limits.idle_session));
        if let Some(on_session) = &self.shared.on_session {
            on_session(address, session.clone());
        }
        Ok(session)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("addresses", &self.shared.peers.lock().keys()).finish_non_exhaustive()
    }
}

/// A call in progress. Dropping it decrements the session's count, however the call ends.
struct Using<'a> {
    peer: &'a Peer,
    session: &'a Session,
}

impl<'a> Using<'a> {
    fn of(peer: &'a Peer, session: &'a Session) -> Self {
        let using = Self { peer, session };
        using.of_live(|live| live.in_use += 1);
        using
    }

    /// Takes an idle stream.
    fn idle(&self) -> Option<Line> {
        let mut line = None;
        self.of_live(|live| line = live.idle.pop());
        line
    }

    fn of_live(&self, change: impl FnOnce(&mut Live)) {
        if let Some(live) = self.peer.live.lock().as_mut().filter(|live| live.session.is(self.session)) {
            change(live);
        }
    }

    fn keep(&self, line: Line, idle_max: usize) {
        self.of_live(|live| {
            if live.idle.len() < idle_max {
                live.idle.push(line);
            }
        });
    }

    fn drop_session(&self) {
        let mut live = self.peer.live.lock();
        if live.as_ref().is_some_and(|live| live.session.is(self.session)) {
            *live = None;
        }
    }
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.of_live(|live| {
            live.in_use = live.in_use.saturating_sub(1);
            live.used = Instant::now();
        });
    }
}

impl Peer {
    fn session(&self) -> Option<Session> {
        let live = self.live.lock();
        live.as_ref().filter(|live| live.session.ended().is_none()).map(|live| live.session.clone())
    }

    /// Ends the session numbered `made` if it carried nothing for `idle`. Returns whether that session is gone.
    fn end_if_idle(&self, made: u64, idle: Duration) -> bool {
        let mut live = self.live.lock();
        if live.as_ref().is_some_and(|live| live.made != made) {
            return true;
        }
        let over = match live.as_ref() {
            // Streams opened by the other side, and streaming calls, count as uses too.
            Some(now) if now.session.ended().is_none() => {
                now.in_use == 0 && now.session.streams() <= now.idle.len() && now.used.elapsed() >= idle
            }
            Some(_) | None => true,
        };
        if over && let Some(gone) = live.take() {
            gone.session.close();
        }
        over
    }
}

async fn end_when_idle(peer: Weak<Peer>, made: u64, idle: Duration) {
    loop {
        tokio::time::sleep(idle / 4).await;
        if peer.upgrade().is_none_or(|peer| peer.end_if_idle(made, idle)) {
            return;
        }
    }
}
