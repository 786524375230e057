//! How many connections there are from where, and when that is too many.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::FirstByte;

/// How many connections of an address streaming calls leave to others.
const KEPT_FOR_CALLS: usize = 20;

/// How many times as many connections other agents may have for what they pass on: each request under way takes one.
const PASSED_ON_FACTOR: usize = 10;

/// Connections by address. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    max: usize,
    by_address: Arc<Mutex<BTreeMap<IpAddr, [usize; KINDS]>>>,
}

const KINDS: usize = 3;

/// What a connection counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Calls, or nothing yet.
    Call,
    Streaming,
    /// Of other agents.
    PassedOn,
}

/// A connection that counts as long as this is there.
#[derive(Debug)]
pub(super) struct Counted {
    counts: Counts,
    from: IpAddr,
    kind: Kind,
}

impl Counts {
    /// At most `max` from one address; 0 is no bound.
    pub(super) fn new(max: usize) -> Self {
        Self { max, by_address: Arc::default() }
    }

    /// Counts a connection; `None`: there are enough of it.
    pub(super) fn count(&self, from: IpAddr) -> Option<Counted> {
        self.take(from, Kind::Call).then(|| Counted { counts: self.clone(), from, kind: Kind::Call })
    }

    fn take(&self, from: IpAddr, kind: Kind) -> bool {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = by_address.get_mut(&from) {
            counts[kind as usize] -= 1;
            if *counts == [0; KINDS] {
                by_address.remove(&from);
            }
        }
    }
}

impl Counted {
    /// Now that it is known what the connection is for: whether there may be one more of those.
    pub(super) fn is_for(&mut self, first: FirstByte) -> bool {
        let kind = match first {
            FirstByte::Streaming => Kind::Streaming,
            FirstByte::Peers | FirstByte::Http | FirstByte::HttpOfNodes | FirstByte::RpcOfServers => Kind::PassedOn,
            FirstByte::Rpc | FirstByte::Multiplex | FirstByte::MultiplexV2 | FirstByte::Tls | FirstByte::RaftOfReference => return true,
        };
        self.counts.give(self.from, self.kind);
        // Should there be no room it goes on as what it was, which is on its way out.
        let room = self.counts.take(self.from, kind);
        if room {
            self.kind = kind;
        } else {
            let mut by_address = self.counts.by_address.lock().unwrap_or_else(PoisonError::into_inner);
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
