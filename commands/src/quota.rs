//! Commands for quotas.

use serde::{Deserialize, Serialize};
use songline_model::{QuotaName, QuotaSpec, Str};

/// Create or update quotas.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertQuotaSpecs {
    /// Whole rows; hashes must be set, indexes are ignored.
    pub quotas: Vec<QuotaSpec>,
    /// The region of the servers, whose limits hold for their allocations and variables.
    pub region: Str,
}

/// Delete quotas: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteQuotaSpecs {
    /// Names of the quotas.
    pub names: Vec<QuotaName>,
}
