//! Network settings of an agent: listening and advertised addresses, TLS, and the servers to join. Binding, dialling
//! and reading certificates is done elsewhere.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use base64::Engine;
use ring::rand::{SecureRandom, SystemRandom};
use songline_model::Dur;

/// Port of servers for addresses without a port.
pub const DEFAULT_RPC_PORT: u16 = 4647;

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

/// Servers to join: `server_join`, or the older keys with the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinConfig {
    /// Addresses that are tried until one answers; `host` or `host:port`.
    pub retry_join: Vec<String>,
    /// Addresses that are tried once, at start: if none of them answers the agent does not start.
    pub start_join: Vec<String>,
    /// Number of attempts at `retry_join` before the agent gives up; 0 is no bound.
    pub retry_max: u64,
    /// Delay between two attempts.
    pub retry_interval: Dur,
}

impl Default for JoinConfig {
    fn default() -> Self {
        Self { retry_join: Vec::new(), start_join: Vec::new(), retry_max: 0, retry_interval: Dur::from_secs(30) }
    }
}

impl JoinConfig {
    /// Whether no server to join is configured.
    pub fn is_empty(&self) -> bool {
        self.retry_join.is_empty() && self.start_join.is_empty()
    }

    /// All addresses with ports; an address without a port gets the servers' default port.
    pub fn addresses(&self) -> Vec<String> {
        self.start_join.iter().chain(&self.retry_join).map(|address| with_port(address, DEFAULT_RPC_PORT)).collect()
    }

    /// Refuses addresses that cannot be dialled.
    pub fn check(&self, block: &str) -> anyhow::Result<()> {
        for address in self.start_join.iter().chain(&self.retry_join) {
            if address.contains("provider=") {
                anyhow::bail!("{block}: {address:?} asks a cloud for addresses, which is not offered: name the addresses");
            }
            if address.trim().is_empty() || address.contains(char::is_whitespace) {
                anyhow::bail!("{block}: {address:?} is not an address");
            }
        }
        Ok(())
    }
}

/// The `encrypt` key, which servers share: it authenticates them and encrypts their traffic. Never printed or shown.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptKey(Vec<u8>);

impl std::fmt::Debug for EncryptKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EncryptKey(..)")
    }
}

impl EncryptKey {
    /// Parses a key as configurations hold it: base64 of 16, 24 or 32 bytes.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        let bytes = bytes.map_err(|error| anyhow::anyhow!("Invalid encryption key: {error}"))?;
        if !matches!(bytes.len(), 16 | 24 | 32) {
            anyhow::bail!("Invalid encryption key: key size must be 16, 24 or 32 bytes");
        }
        Ok(Self(bytes))
    }

    /// Generates a key, in the form that configurations hold.
    pub fn generate() -> anyhow::Result<String> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system has no random bytes for a key"))?;
        Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    /// The key's bytes.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

/// `host:port` of an address that may lack a port. A bare IPv6 address gets its brackets.
pub fn with_port(address: &str, port: u16) -> String {
    if address.parse::<SocketAddr>().is_ok() {
        return address.to_owned();
    }
    match address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) if address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => address.to_owned(),
        Err(_) => format!("{address}:{port}"),
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
    fn an_address_without_a_port_gets_that_of_servers() {
        for (told, meant) in [
            ("10.0.0.1", "10.0.0.1:4647"),
            ("10.0.0.1:4648", "10.0.0.1:4648"),
            ("s1.example", "s1.example:4647"),
            ("s1.example:99", "s1.example:99"),
            ("::1", "[::1]:4647"),
            ("[::1]", "[::1]:4647"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(with_port(told, DEFAULT_RPC_PORT), meant);
        }
    }

    #[test]
    fn an_encryption_key_has_one_of_three_sizes() {
        assert_eq!(EncryptKey::parse("AAAAAAAAAAAAAAAAAAAAAA==").map(|key| key.reveal().len()).ok(), Some(16));
        let (one, other) = (EncryptKey::generate().expect("there is randomness"), EncryptKey::generate().expect("there is randomness"));
        assert_eq!(EncryptKey::parse(&one).expect("is a key").reveal().len(), 32);
        assert_ne!(one, other);
        for bad in ["AAAA", "not base64!"] {
            let error = EncryptKey::parse(bad).expect_err("is refused").to_string();
            assert!(error.starts_with("Invalid encryption key: "), "{error}");
        }
    }

    #[test]
    fn what_is_advertised_wins_and_nobody_is_sent_to_everywhere() {
        let everywhere: SocketAddr = "0.0.0.0:4647".parse().expect("is an address");
        assert_eq!(advertised(Some("192.0.2.7"), everywhere), "192.0.2.7:4647");
        assert_eq!(advertised(Some("192.0.2.7:1"), everywhere), "192.0.2.7:1");
        assert!(!advertised(None, everywhere).starts_with("0.0.0.0"));
    }
}
