//! Numbers of holders: how many allocations of one node hold a port, a core or a device. An allocation that is stopping
//! and its replacement may hold the same one, so it is free only when the last of them lets go.

use std::collections::BTreeMap;

/// Number of holders of each key that has any.
#[derive(Debug, Clone)]
pub struct Holders<K>(BTreeMap<K, u32>);

impl<K> Default for Holders<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Holders<K> {
    /// Adds a holder. False: the key has another one already.
    pub fn take(&mut self, key: K) -> bool {
        let holders = self.0.entry(key).or_insert(0);
        *holders += 1;
        *holders == 1
    }

    /// Removes a holder. True: the key had one.
    pub fn release(&mut self, key: &K) -> bool {
        let Some(holders) = self.0.get_mut(key) else { return false };
        *holders -= 1;
        if *holders == 0 {
            self.0.remove(key);
        }
        true
    }

    /// Whether the key has a holder.
    pub fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Whether no key has a holder.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
