//! Members of the cluster, and their encoding in the log. Consensus changes the membership.

use std::collections::{BTreeMap, BTreeSet};

use crate::position::{u32_at, u64_at};

/// Number of a server within its cluster.
pub type NodeId = u64;

/// The members of the cluster from an entry on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// The voters. Two sets while the membership changes (joint consensus): a majority of each set is needed then.
    pub voters: Vec<BTreeSet<NodeId>>,
    /// Address of every member, voting or not.
    pub addresses: BTreeMap<NodeId, String>,
}

impl Members {
    /// Whether these servers are a majority of the voters; of both sets while the membership changes.
    pub fn has_majority(&self, servers: &BTreeSet<NodeId>) -> bool {
        self.voters.iter().all(|voters| voters.intersection(servers).count() * 2 > voters.len())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_len(&mut out, self.voters.len());
        for set in &self.voters {
            put_len(&mut out, set.len());
            for id in set {
                out.extend_from_slice(&id.to_le_bytes());
            }
        }
        put_len(&mut out, self.addresses.len());
        for (id, address) in &self.addresses {
            out.extend_from_slice(&id.to_le_bytes());
            put_len(&mut out, address.len());
            out.extend_from_slice(address.as_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut at = 0;
        let len = |at: &mut usize| {
            *at += 4;
            u32_at(bytes, *at - 4)
        };
        let id = |at: &mut usize| {
            *at += 8;
            u64_at(bytes, *at - 8)
        };
        let mut members = Self::default();
        for _ in 0..len(&mut at)? {
            let mut set = BTreeSet::new();
            for _ in 0..len(&mut at)? {
                set.insert(id(&mut at)?);
            }
            members.voters.push(set);
        }
        for _ in 0..len(&mut at)? {
            let node = id(&mut at)?;
            let end = (len(&mut at)? as usize).checked_add(at)?;
            let address = std::str::from_utf8(bytes.get(at..end)?).ok()?;
            members.addresses.insert(node, address.to_owned());
            at = end;
        }
        (at == bytes.len()).then_some(members)
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a cluster has fewer than 2^32 members");
    out.extend_from_slice(&len.to_le_bytes());
}

#[cfg(test)]
mod tests;
