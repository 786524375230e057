//! What servers must agree on: one leader per term, and the same state after the same entry.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Who was seen leading, by term.
#[derive(Debug, Clone, Default)]
pub struct Leaders(BTreeMap<u64, u64>);

impl Leaders {
    /// Notes that `server` leads in `term`. An error when another one does: the cluster's brain is split.
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

    /// In how many terms somebody led.
    pub fn terms(&self) -> usize {
        self.0.len()
    }
}

/// Digests of the state that servers had after some entries.
#[derive(Debug, Clone, Default)]
pub struct Digests(BTreeMap<u64, (u128, u64)>);

impl Digests {
    /// Notes the digest of `server` after the entry at `index`. An error when another server had another one there.
    pub fn note(&mut self, index: u64, server: u64, digest: u128) -> Result<(), String> {
        match self.0.entry(index) {
            Entry::Vacant(vacant) => {
                vacant.insert((digest, server));
                Ok(())
            }
            Entry::Occupied(known) if known.get().0 == digest => Ok(()),
            Entry::Occupied(known) => {
                let (other, by) = known.get();
                Err(format!("after index {index} server {by} has digest {other:032x} and server {server} {digest:032x}"))
            }
        }
    }

    /// After how many entries digests were compared or wait for another.
    pub fn places(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
