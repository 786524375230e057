//! The node's attributes about Vault.

use std::time::Duration;

use songline_model::{Dur, Str};

use super::api::{CallError, SealStatus, Vault};

/// Interval at which Vault is asked while it is away.
pub(crate) const PERIOD: Duration = Duration::from_secs(15);
/// Least interval at which Vault is asked once it was there.
pub(crate) const PERIOD_FOUND: Dur = Dur::from_secs(30);
/// Bound of the random part of that interval, so that the nodes of a cluster ask at different times.
pub(crate) const PERIOD_FOUND_SPREAD: Dur = Dur::from_secs(90);

/// Names of the attributes.
const NAMES: [&str; 4] = ["vault.accessible", "vault.version", "vault.cluster_id", "vault.cluster_name"];

/// Attributes of a node, empty ones for those that it must not have. Without Vault it has none: allocations that need
/// Vault are placed on other nodes.
pub(crate) async fn print(vault: &Vault) -> (Vec<(Str, Str)>, Result<(), CallError>) {
    match vault.seal_status().await {
        Ok(status) => (attributes(&status), Ok(())),
        Err(error) => (NAMES.map(|name| (Str::new_static(name), Str::default())).into(), Err(error)),
    }
}

fn attributes(status: &SealStatus) -> Vec<(Str, Str)> {
    let version = status.version.strip_prefix("Vault ").unwrap_or(&status.version);
    let values = ["true", version, &status.cluster_id, &status.cluster_name];
    NAMES.iter().zip(values).map(|(name, value)| (Str::new_static(name), Str::new(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_vault_is_accessible_and_tells_no_cluster() {
        let sealed = SealStatus { version: "Vault 1.14.8".into(), ..SealStatus::default() };
        let told: Vec<String> = attributes(&sealed).iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(told.join(" "), "vault.accessible=true vault.version=1.14.8 vault.cluster_id= vault.cluster_name=");
    }
}
