//! Network settings of an agent: listening and advertised addresses, and TLS. Binding, dialling and reading
//! certificates is done elsewhere.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use songline_server::config::with_port;

/// One address for each listener; an absent one takes the common address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// HTTP.
    pub http: Option<String>,
    /// The node RPC and server-to-server traffic.
    pub rpc: Option<String>,
    /// The second port, which configurations for the reference name to join a server. It speaks the same protocols as
    /// `rpc`.
    pub serf: Option<String>,
}

/// The `tls` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Whether the HTTP port speaks TLS.
    pub http: bool,
    /// Whether the servers' port speaks TLS, with certificates on both sides.
    pub rpc: bool,
    /// Whether a server's certificate must name its role and region: `server.<region>.nomad`.
    pub verify_server_hostname: bool,
    /// Whether HTTPS callers have to present a certificate.
    pub verify_https_client: bool,
    /// Whether the servers' port also accepts connections without TLS, while a cluster is being migrated to TLS.
    pub rpc_upgrade_mode: bool,
    /// CA certificate, PEM.
    pub ca_file: Option<PathBuf>,
    /// This agent's certificate, PEM.
    pub cert_file: Option<PathBuf>,
    /// The private key, PEM.
    pub key_file: Option<PathBuf>,
    /// Oldest TLS version that is accepted.
    pub min_version: TlsVersion,
}

/// A TLS version. Versions before 1.2 are not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            http: false,
            rpc: false,
            verify_server_hostname: false,
            verify_https_client: false,
            rpc_upgrade_mode: false,
            ca_file: None,
            cert_file: None,
            key_file: None,
            min_version: TlsVersion::Tls12,
        }
    }
}

impl TlsConfig {
    /// Validates the block. An error names the setting that an enabled feature lacks.
    pub fn check(&self) -> anyhow::Result<()> {
        if !self.http && !self.rpc {
            return Ok(());
        }
        if self.cert_file.is_none() || self.key_file.is_none() {
            anyhow::bail!("tls: cert_file and key_file are needed where http or rpc is on");
        }
        if self.ca_file.is_none() && (self.rpc || self.verify_https_client) {
            anyhow::bail!("tls: ca_file is needed to verify certificates");
        }
        Ok(())
    }
}

/// Address that others dial: the `advertise` setting, or else the listening address. An unspecified listening address
/// (all interfaces) is replaced by the source address of outgoing packets.
pub fn advertised(advertise: Option<&str>, bound: SocketAddr) -> String {
    match advertise {
        Some(address) => with_port(address, bound.port()),
        None if bound.ip().is_unspecified() => SocketAddr::new(outward_ip(), bound.port()).to_string(),
        None => bound.to_string(),
    }
}

/// Source address of outgoing packets; the loopback address when there is no route.
fn outward_ip() -> IpAddr {
    // Connecting a UDP socket sends nothing: the kernel only chooses a route. The target address is reserved for
    // documentation.
    let ask = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    };
    ask().unwrap_or(Ipv4Addr::LOCALHOST.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_advertise_address_wins_and_a_wildcard_is_never_advertised() {
        let everywhere: SocketAddr = "0.0.0.0:4647".parse().expect("is an address");
        assert_eq!(advertised(Some("192.0.2.7"), everywhere), "192.0.2.7:4647");
        assert_eq!(advertised(Some("192.0.2.7:1"), everywhere), "192.0.2.7:1");
        assert!(!advertised(None, everywhere).starts_with("0.0.0.0"));
    }
}
