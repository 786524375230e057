//! The block `vault` of an agent, as far as its node uses it.

use songline_model::Str;

use crate::tls::Trust;

/// Address and trust of Vault.
#[derive(Debug, Clone, Default)]
pub struct VaultSettings {
    /// Address, an URL with the scheme `http` or `https`.
    pub address: Str,
    /// Vault's namespace of tasks that name none.
    pub namespace: Str,
    /// Certificates of TLS connections.
    pub trust: Trust,
}
