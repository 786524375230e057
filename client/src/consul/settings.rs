//! The block `consul` of an agent.

use songline_model::{Dur, Secret, Str};

use crate::tls::Trust;

/// How the node reaches its Consul agent.
#[derive(Debug, Clone)]
pub struct ConsulSettings {
    /// Address: `host:port`, or an URL with the scheme `http` or `https`.
    pub address: Str,
    /// Token of requests; empty sends none.
    pub token: Secret,
    /// `user:password` of HTTP basic authentication; empty sends none.
    pub auth: Secret,
    /// Whether an address without a scheme is reached over TLS.
    pub ssl: bool,
    /// Certificates of TLS connections.
    pub trust: Trust,
    /// Timeout of one request.
    pub timeout: Dur,
}

impl Default for ConsulSettings {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:8500".into(),
            token: Secret::default(),
            auth: Secret::default(),
            ssl: false,
            trust: Trust::default(),
            timeout: Dur::from_secs(5),
        }
    }
}

impl ConsulSettings {
    /// The address as an URL without a path.
    pub(super) fn url(&self) -> String {
        let address = self.address.trim_end_matches('/');
        if address.contains("://") {
            return address.to_owned();
        }
        format!("{}://{address}", if self.ssl { "https" } else { "http" })
    }
}
