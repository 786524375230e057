//! A client of all servers: it keeps one connection to each, goes on to another server when one fails it, and comes back later.
//! Not here: what is asked, and what is made of the answers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::http::{Answer, Connection, Request};

/// How long an answer may take before nobody waits for it any more.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a server that failed is left alone.
const SHUNNED: Duration = Duration::from_millis(500);
/// How many requests go to one server before the next has its turn.
const TURN: u32 = 16;

/// What became of a request.
#[derive(Debug)]
pub enum Said {
    Answer(Answer),
    /// Nothing was sent: it has certainly not happened.
    NotSent,
    /// It was sent, and then nothing came back.
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
    /// A client that begins with server `first`.
    pub fn new(addresses: &[SocketAddr], first: usize) -> Caller {
        let servers = addresses.iter().map(|address| Peer { address: *address, connection: None, shunned_until: None });
        Caller { servers: servers.collect(), at: first % addresses.len().max(1), turn: 0 }
    }

    /// The server whose turn it is.
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
        // All have failed lately. The one that failed first is the likeliest to have come back.
        let first = (0..self.servers.len()).min_by_key(|n| self.servers[*n].shunned_until);
        self.at = first.unwrap_or_default();
        self.at
    }

    /// Asks one server.
    pub fn call(&mut self, server: usize, request: &Request) -> Said {
        let peer = &mut self.servers[server];
        let deadline = Instant::now() + PATIENCE;
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
