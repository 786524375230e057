//! Objects that all regions share: each region has those of the authoritative region, and its own local tokens.

use std::collections::{BTreeMap, BTreeSet};

/// Digests of objects by kind and key.
pub type Objects = BTreeMap<(&'static str, String), String>;

/// Objects of one region at rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replica {
    /// The region.
    pub region: String,
    /// The objects that all regions share.
    pub shared: Objects,
    /// Keys of the tokens that are valid in the region alone.
    pub local_tokens: BTreeSet<String>,
    /// Keys of the local tokens that were made there and that nobody has asked to delete.
    pub wanted_tokens: BTreeSet<String>,
}

/// A region that has other objects than the authoritative one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// An object that the authoritative region has is missing.
    #[error("{region} lacks the {kind} {key}")]
    Missing {
        /// The region.
        region: String,
        /// Kind of the object.
        kind: &'static str,
        /// Its key.
        key: String,
    },
    /// An object that the authoritative region does not have.
    #[error("{region} has the {kind} {key}, which the authoritative region does not have")]
    Surplus {
        /// The region.
        region: String,
        /// Kind of the object.
        kind: &'static str,
        /// Its key.
        key: String,
    },
    /// An object with another content.
    #[error("{region} has another {kind} {key} than the authoritative region")]
    Differs {
        /// The region.
        region: String,
        /// Kind of the object.
        kind: &'static str,
        /// Its key.
        key: String,
    },
    /// A local token is gone.
    #[error("{region} has lost its local token {key}")]
    LocalToken {
        /// The region.
        region: String,
        /// Accessor id of the token.
        key: String,
    },
}

/// Checks that a region has exactly the shared objects of the authoritative one, and has kept its own tokens.
///
/// # Errors
/// The first difference.
pub fn replica_is_equal(authoritative: &Replica, replica: &Replica) -> Result<(), ReplicaError> {
    let region = || replica.region.clone();
    for ((kind, key), digest) in &authoritative.shared {
        match replica.shared.get(&(*kind, key.clone())) {
            None => return Err(ReplicaError::Missing { region: region(), kind, key: key.clone() }),
            Some(own) if own != digest => {
                return Err(ReplicaError::Differs { region: region(), kind, key: key.clone() });
            }
            Some(_) => {}
        }
    }
    if let Some((kind, key)) = replica.shared.keys().find(|key| !authoritative.shared.contains_key(*key)).cloned() {
        return Err(ReplicaError::Surplus { region: region(), kind, key });
    }
    match replica.wanted_tokens.difference(&replica.local_tokens).next() {
        Some(key) => Err(ReplicaError::LocalToken { region: region(), key: key.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
