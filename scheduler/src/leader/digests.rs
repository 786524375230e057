//! When the servers compare their states: every so many entries, what the leader has is written for all to hold theirs against.
//! What becomes of a server that has something else is not here.

use songline_commands::CheckDigest;
use songline_model::Blob;
use songline_projections::{Digest, SCHEMA, State};

/// Up to where states were compared.
#[derive(Debug)]
pub struct Digests {
    every: u64,
    next: u64,
}

impl Digests {
    /// A new leader waits for the next multiple of `every` entries.
    pub fn new(every: u64, view: &State) -> Self {
        Self { every, next: view.applied_index() / every + 1 }
    }

    /// What is to be compared now, if it is time.
    pub fn take_due(&mut self, view: &State) -> Option<CheckDigest> {
        let reached = view.applied_index() / self.every;
        if reached < self.next {
            return None;
        }
        self.next = reached + 1;
        let blob = |digest: Digest| Blob(digest.as_bytes().to_vec());
        Some(CheckDigest {
            schema: SCHEMA,
            through: view.applied_index(),
            total: blob(view.digest()),
            tables: view.table_digests().into_iter().map(|(table, digest)| (table.name().into(), blob(digest))).collect(),
        })
    }
}
