//! Contents of an archive that the state made of it does not have, counted while the records are read.

use std::collections::{BTreeMap, BTreeSet};

use songline_api::NotCarried;
use songline_model::RootKeyId;

/// Counts of what stays behind.
#[derive(Default)]
pub(super) struct Losses {
    /// Job versions, none of which has its source.
    pub job_versions: u64,
    /// Tokens of Vault that the servers would have revoked.
    pub vault_accessors: u64,
    /// Tokens of Consul that the servers would have revoked.
    pub consul_accessors: u64,
    /// Root keys without a key file.
    pub keys_missing: BTreeSet<RootKeyId>,
    /// Variables by root key.
    pub variables_of_key: BTreeMap<RootKeyId, u64>,
    /// Allocations with identities by root key.
    pub allocs_of_key: BTreeMap<RootKeyId, u64>,
    /// Left-out records by type.
    pub unknown: BTreeMap<u8, u64>,
}

impl Losses {
    /// The list for users, with a reason each.
    pub(super) fn list(&self) -> Vec<NotCarried> {
        let mut list = Vec::new();
        let mut add = |what: String, count: u64, reason: &str| {
            list.push(NotCarried { what, count, reason: reason.to_owned() });
        };
        add(
            "job sources".into(),
            self.job_versions,
            "the archive has no texts of job files; a job has a source again once it is registered",
        );
        add("autopilot configuration".into(), 1, "the archive does not have it; the servers start with the defaults");
        add("one-time tokens".into(), 0, "the archive does not have them; they were valid for 10 minutes");
        add("event and object history".into(), 0, "the archive does not have it; history begins with the import");
        if self.vault_accessors > 0 {
            add(
                "Vault accessors".into(),
                self.vault_accessors,
                "tokens of Vault are not managed; they end with their TTL",
            );
        }
        if self.consul_accessors > 0 {
            add(
                "Consul accessors".into(),
                self.consul_accessors,
                "tokens of Consul are not managed; delete them in Consul",
            );
        }
        for key in &self.keys_missing {
            add(format!("root key {key}"), 1, "its key file is missing: copy KEYID.nks.json from a server's keystore");
            if let Some(&count) = self.variables_of_key.get(key) {
                add(format!("items of variables of root key {key}"), count, "they cannot be decrypted without the key");
            }
            if let Some(&count) = self.allocs_of_key.get(key) {
                add(
                    format!("identities of allocations of root key {key}"),
                    count,
                    "they cannot be verified without the key",
                );
            }
        }
        for (kind, &count) in &self.unknown {
            add(format!("records of type {kind}"), count, "the type is unknown, and `skip_unknown` was given");
        }
        list
    }
}
