//! Where an agent listens, what it tells others of that, how connections are made safe, and whom a server or node joins.
//! Binding, dialling and reading certificates is not here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use base64::Engine;
use ring::rand::{SecureRandom, SystemRandom};
use songline_model::Dur;

/// The port of servers when an address has none.
pub const DEFAULT_RPC_PORT: u16 = 4647;

/// One text for each thing that an agent listens for; absent: as everything else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// HTTP.
    pub http: Option<String>,
    /// The node RPC and the servers among each other.
    pub rpc: Option<String>,
    /// Membership: what configurations for the reference name when they name a server to join. The same is spoken there.
    pub serf: Option<String>,
}

/// The `tls` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Whether HTTP is HTTPS.
    pub http: bool,
    /// Whether the servers' port speaks TLS, with certificates on both sides.
    pub rpc: bool,
    /// Whether a server has to show that it is one of its region: `server.<region>.nomad`.
    pub verify_server_hostname: bool,
    /// Whether callers of HTTPS have to show a certificate.
    pub verify_https_client: bool,
    /// Whether the servers' port takes connections without TLS all the same, while a cluster is being moved to TLS.
    pub rpc_upgrade_mode: bool,
    /// Who signs certificates, PEM.
    pub ca_file: Option<PathBuf>,
    /// This agent's certificate, PEM.
    pub cert_file: Option<PathBuf>,
    /// Its key, PEM.
    pub key_file: Option<PathBuf>,
    /// The oldest version of TLS that is spoken.
    pub min_version: TlsVersion,
}

/// A version of TLS. Older ones are spoken by nobody here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TlsVersion {
    /// 1.2
    #[default]
    Tls12,
    /// 1.3
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
    /// Says what is missing for what is switched on.
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

/// Whom to join: `server_join`, or the older keys with the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinConfig {
    /// Addresses that are tried until one answers; `host` or `host:port`.
    pub retry_join: Vec<String>,
    /// Addresses that are tried once, at start: if none of them answers the agent does not start.
    pub start_join: Vec<String>,
    /// How often `retry_join` is tried before the agent gives up; 0 is for ever.
    pub retry_max: u64,
    /// How long it waits between two tries.
    pub retry_interval: Dur,
}

impl Default for JoinConfig {
    fn default() -> Self {
        Self { retry_join: Vec::new(), start_join: Vec::new(), retry_max: 0, retry_interval: Dur::from_secs(30) }
    }
}

impl JoinConfig {
    /// Whether there is nobody to join.
    pub fn is_empty(&self) -> bool {
        self.retry_join.is_empty() && self.start_join.is_empty()
    }

    /// All addresses, with ports; one that has none gets that of servers.
    pub fn addresses(&self) -> Vec<String> {
        self.start_join.iter().chain(&self.retry_join).map(|address| with_port(address, DEFAULT_RPC_PORT)).collect()
    }

    /// Refuses what cannot be dialled.
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

/// The `encrypt` key: servers prove to each other that they have it, and seal what they say with it. Neither printed nor shown.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptKey(Vec<u8>);

impl std::fmt::Debug for EncryptKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EncryptKey(..)")
    }
}

impl EncryptKey {
    /// Reads a key as configurations have it: base64 of 16, 24 or 32 bytes.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        let bytes = bytes.map_err(|error| anyhow::anyhow!("Invalid encryption key: {error}"))?;
        if !matches!(bytes.len(), 16 | 24 | 32) {
            anyhow::bail!("Invalid encryption key: key size must be 16, 24 or 32 bytes");
        }
        Ok(Self(bytes))
    }

    /// Makes a new key, in the form that configurations have.
    pub fn generate() -> anyhow::Result<String> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system has no random bytes for a key"))?;
        Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    /// The key itself.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

/// `host:port` of an address that may have none. A bare IPv6 address gets its brackets.
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

/// What others are told to dial: what `advertise` says, or else where this agent listens. Somebody who listens everywhere is told by the
/// address that packets to the world leave from.
pub fn advertised(advertise: Option<&str>, bound: SocketAddr) -> String {
    match advertise {
        Some(address) => with_port(address, bound.port()),
        None if bound.ip().is_unspecified() => SocketAddr::new(outward_ip(), bound.port()).to_string(),
        None => bound.to_string(),
    }
}

/// The address that packets to the world leave from; that of this machine alone when there is no way out.
fn outward_ip() -> IpAddr {
    // Connecting a datagram socket sends nothing: it only asks the kernel for the way. The address is one that nobody may have.
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
