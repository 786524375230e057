//! Agreement among servers: one leader per term, and the same state after the same entry.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Observed leaders by term.
#[derive(Debug, Clone, Default)]
pub struct Leaders(BTreeMap<u64, u64>);

impl Leaders {
    /// Records that `server` leads in `term`. An error when another server leads in that term (split brain).
    pub fn note(&mut self, term: u64, server: u64) -> Result<(), String> {
        match self.0.entry(term) {
            Entry::Vacant(vacant) => {
                vacant.insert(server);
                Ok(())
            }
            Entry::Occupied(known) if *known.get() == server => Ok(()),
            Entry::Occupied(known) => Err(format!("term {term} has two leaders: {} and {server}", known.get())),
        }
    }

    /// Number of terms with a leader.
    pub fn terms(&self) -> usize {
        self.0.len()
    }
}

/// Digests of the servers' states after some entries.
#[derive(Debug, Clone, Default)]
pub struct Digests(BTreeMap<u64, (u128, u64)>);

impl Digests {
    /// Records the digest of `server` after the entry at `index`. An error when another server had a different digest
    /// there.
    pub fn note(&mut self, index: u64, server: u64, digest: u128) -> Result<(), String> {
        match self.0.entry(index) {
            Entry::Vacant(vacant) => {
                vacant.insert((digest, server));
                Ok(())
            }
            Entry::Occupied(known) if known.get().0 == digest => Ok(()),
            Entry::Occupied(known) => {
                let (other, by) = known.get();
                Err(format!(
                    "after index {index} server {by} has digest {other:032x} and server {server} {digest:032x}"
                ))
            }
        }
    }

    /// Number of entries with a digest.
    pub fn places(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
