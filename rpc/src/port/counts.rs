//! Bounds on the number of connections per address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::FirstByte;

/// Connections per address that streaming calls may not take, so that plain calls still find room.
const KEPT_FOR_CALLS: usize = 20;

/// Factor on the bound for connections of other agents that forward requests: each request under way takes a
/// connection.
const PASSED_ON_FACTOR: usize = 10;

/// Connections by address. Clones share the counts.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    max: usize,
    by_address: Arc<Mutex<BTreeMap<IpAddr, [usize; KINDS]>>>,
}

const KINDS: usize = 3;

/// Kind that a connection is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Calls, or not known yet.
    Call,
    Streaming,
    /// Connections of other agents that forward requests.
    PassedOn,
}

/// A counted connection. Dropping it releases its count.
#[derive(Debug)]
pub(super) struct Counted {
    counts: Counts,
    from: IpAddr,
    kind: Kind,
}

impl Counts {
    /// At most `max` connections of one address; 0 means unbounded.
    pub(super) fn new(max: usize) -> Self {
        Self { max, by_address: Arc::default() }
    }

    /// Counts a connection; `None`: its address has too many.
    pub(super) fn count(&self, from: IpAddr) -> Option<Counted> {
        self.take(from, Kind::Call).then(|| Counted { counts: self.clone(), from, kind: Kind::Call })
    }

    fn take(&self, from: IpAddr, kind: Kind) -> bool {
        let mut by_address = self.by_address.lock();
        let now = by_address.get(&from).copied().unwrap_or_default();
        let [calls, streaming, passed_on] = now;
        let room = match kind {
            _ if self.max == 0 => true,
            Kind::Call => calls + streaming < self.max,
            Kind::Streaming => calls + streaming < self.max && streaming < self.max.saturating_sub(KEPT_FOR_CALLS),
            Kind::PassedOn => passed_on < self.max * PASSED_ON_FACTOR,
        };
        if room {
            by_address.entry(from).or_default()[kind as usize] += 1;
        }
        room
    }

    fn give(&self, from: IpAddr, kind: Kind) {
        let mut by_address = self.by_address.lock();
        if let Some(counts) = by_address.get_mut(&from) {
            counts[kind as usize] -= 1;
            if *counts == [0; KINDS] {
                by_address.remove(&from);
            }
        }
    }
}

impl Counted {
    /// Counts the connection by its first byte. False when its address has too many of that kind.
    pub(super) fn is_for(&mut self, first: FirstByte) -> bool {
        let kind = match first {
            FirstByte::Streaming => Kind::Streaming,
            FirstByte::Peers
            | FirstByte::Http
            | FirstByte::HttpOfNodes
            | FirstByte::RpcOfServers
            | FirstByte::Regions => Kind::PassedOn,
            FirstByte::Rpc
            | FirstByte::Multiplex
            | FirstByte::MultiplexV2
            | FirstByte::Tls
            | FirstByte::RaftOfReference => return true,
        };
        self.counts.give(self.from, self.kind);
        // Without room it keeps counting as its old kind until it is closed, which the caller does at once.
        let room = self.counts.take(self.from, kind);
        if room {
            self.kind = kind;
        } else {
            let mut by_address = self.counts.by_address.lock();
            by_address.entry(self.from).or_default()[self.kind as usize] += 1;
        }
        room
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.give(self.from, self.kind);
    }
}
