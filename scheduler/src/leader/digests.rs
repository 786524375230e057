//! State comparison between servers: every so many entries the leader proposes its digests, and every server compares
//! them with its own. The reaction of a server that differs is elsewhere.

use songline_commands::CheckDigest;
use songline_model::Blob;
use songline_projections::{Digest, SCHEMA, State};

/// Decides when states are compared.
#[derive(Debug)]
pub struct Digests {
    every: u64,
    next: u64,
}

impl Digests {
    /// A machine whose next comparison is due at the next multiple of `every` entries.
    pub fn new(every: u64, view: &State) -> Self {
        Self { every, next: view.applied_index() / every + 1 }
    }

    /// The digests to propose, if a comparison is due.
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
            tables: view
                .table_digests()
                .into_iter()
                .map(|(table, digest)| (table.name().into(), blob(digest)))
                .collect(),
        })
    }
}
