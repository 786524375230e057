//! JSON form of a quota's use, Nomad's `QuotaUsage`.

use std::collections::BTreeMap;

use serde::Serialize;
use songline_model::{Blob, QuotaLimit, QuotaName, QuotaSpec, QuotaUsage};

/// Amounts that the namespaces of a quota use, in the form of its limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct QuotaUsageView {
    /// Name of the quota.
    pub name: QuotaName,
    /// The use by the hash of the limit, in base64. Empty when the quota has no limit in this region.
    pub used: BTreeMap<String, QuotaLimit>,
    /// Index of the quota's first write.
    pub create_index: u64,
    /// Index at which the use or the limit changed last.
    pub modify_index: u64,
}

impl QuotaUsageView {
    /// The view of a quota's use under its limits.
    pub fn new(usage: &QuotaUsage, spec: &QuotaSpec) -> Self {
        let limit = spec.limit(&usage.region).map(|limit| {
            let hash = limit.hash.as_ref().map(Blob::to_string).unwrap_or_default();
            (hash, limit.filled_with(&usage.used))
        });
        Self {
            name: usage.name.clone(),
            used: limit.into_iter().collect(),
            create_index: spec.create_index,
            modify_index: usage.modify_index.max(spec.modify_index),
        }
    }
}
