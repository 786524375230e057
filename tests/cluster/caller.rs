//! A client of all servers: it keeps one connection to each, fails over to another server, and returns to a failed
//! one later. Callers define the requests and interpret the answers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::http::{Answer, Connection, Request};

/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Time for which a failed server is skipped.
const SHUNNED: Duration = Duration::from_millis(500);
/// Number of requests to one server before the next one is used.
const TURN: u32 = 16;

/// Result of a request.
#[derive(Debug)]
pub enum Said {
    Answer(Answer),
    /// Nothing was sent: the request has certainly had no effect.
    NotSent,
    /// The request was sent and not answered.
    Silence,
}

/// One client.
pub struct Caller {
    servers: Vec<Peer>,
    at: usize,
    turn: u32,
}

struct Peer {
    address: SocketAddr,
    connection: Option<Connection>,
    shunned_until: Option<Instant>,
}

impl Caller {
    /// Creates a client that begins with server `first`.
    pub fn new(addresses: &[SocketAddr], first: usize) -> Caller {
        let servers = addresses.iter().map(|address| Peer { address: *address, connection: None, shunned_until: None });
        Caller { servers: servers.collect(), at: first % addresses.len().max(1), turn: 0 }
    }

    /// The server to use for the next request.
    pub fn server(&mut self) -> usize {
        self.turn += 1;
        if self.turn.is_multiple_of(TURN) {
            self.at = (self.at + 1) % self.servers.len();
        }
        let now = Instant::now();
        let open = |peer: &Peer| peer.shunned_until.is_none_or(|until| until <= now);
        for step in 0..self.servers.len() {
            let n = (self.at + step) % self.servers.len();
            if open(&self.servers[n]) {
                self.at = n;
                return n;
            }
        }
        // All servers have failed lately. The one that failed first is the likeliest to have recovered.
        let first = (0..self.servers.len()).min_by_key(|n| self.servers[*n].shunned_until);
        self.at = first.unwrap_or_default();
        self.at
    }

    /// Sends a request to one server.
    pub fn call(&mut self, server: usize, request: &Request) -> Said {
        let peer = &mut self.servers[server];
        let deadline = Instant::now() + TIMEOUT;
        let mut connection = match peer.connection.take() {
            Some(connection) => connection,
            None => match Connection::open(peer.address, deadline) {
                Ok(connection) => connection,
                Err(_) => {
                    self.shun(server);
                    return Said::NotSent;
                }
            },
        };
        match connection.call(request, deadline) {
            Ok(answer) => {
                peer.connection = Some(connection);
                if answer.head.status >= 500 {
                    self.shun(server);
                }
                Said::Answer(answer)
            }
            Err(_) => {
                self.shun(server);
                Said::Silence
            }
        }
    }

    fn shun(&mut self, server: usize) {
        self.servers[server].shunned_until = Some(Instant::now() + SHUNNED);
    }
}
