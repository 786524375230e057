//! Authentication that this server demands of other servers, from its configuration. A server that could not
//! authenticate others does not start. `songline_rpc::port` implements the proofs.

use std::net::{IpAddr, SocketAddr};

use songline_rpc::port::{ServerKey, ServerTrust, Unproven, is_of_this_machine};

use crate::StartError;
use crate::config::{EncryptKey, ServerConfig};

/// How other servers reach a server.
#[derive(Debug, Clone, Copy)]
pub struct Reached<'a> {
    /// Region of the server.
    pub region: &'a str,
    /// Address that others dial, `host:port`.
    pub advertised: &'a str,
    /// The configured port, for log lines.
    pub port: u16,
    /// Whether connections between servers use TLS, with certificates on both sides.
    pub tls: bool,
}

/// Proof that other servers have to give to a server. An error tells the operator what to configure.
pub async fn of(server: &ServerConfig, reached: Reached<'_>) -> Result<ServerTrust, StartError> {
    let Reached { region, advertised, port, tls } = reached;
    let key = server.encrypt.as_ref().map(server_key);
    let trust = |unproven| ServerTrust::new(region, tls, key.clone(), unproven);
    if server.allow_unauthenticated_peers {
        tracing::warn!(
            "server.allow_unauthenticated_peers is on: anyone who reaches port {} may join the cluster, read its keys and write its log. \
             Make a key with `songline operator gossip keyring generate`, set it as `encrypt` on every server, and take this off",
            port
        );
        return Ok(trust(Unproven::Anybody));
    }
    if server.is_single() && !(server.waits_to_be_joined() && is_on_this_machine(advertised).await) {
        return Ok(trust(Unproven::Refused));
    }
    let mut others = Vec::new();
    for address in server.join.addresses().into_iter().chain([advertised.to_owned()]) {
        if !is_on_this_machine(&address).await {
            others.push(address);
        }
    }
    match others.as_slice() {
        [] => Ok(trust(Unproven::SameMachine)),
        _ if tls || key.is_some() => Ok(trust(Unproven::Refused)),
        _ => Err(StartError::Unproven(advice(&others, region))),
    }
}

/// The shared key by which servers authenticate each other, derived from an `encrypt` key of any length.
pub(crate) fn server_key(encrypt: &EncryptKey) -> ServerKey {
    ServerKey::new(blake3::derive_key("songline encrypt key of servers", encrypt.reveal()))
}

/// Whether an address (`host:port`) is one of this machine's. A name is one if it has addresses and all of them are.
async fn is_on_this_machine(address: &str) -> bool {
    let Ok(found) = tokio::net::lookup_host(address).await else { return false };
    let found: Vec<SocketAddr> = found.collect();
    !found.is_empty() && found.iter().all(|address| is_of_this_machine(address.ip()))
}

/// Like [`is_on_this_machine`], for an IP address with a port.
pub(crate) fn is_ip_of_this_machine(address: &str) -> bool {
    let ip: Option<IpAddr> = address.parse::<SocketAddr>().ok().map(|address| address.ip());
    ip.is_some_and(is_of_this_machine)
}

/// Advice to the operator about unauthenticated servers at these addresses.
pub(crate) fn advice(addresses: &[String], region: &str) -> String {
    format!(
        "server: there are other servers, {} is not an address of this machine, and the servers have nothing to know each other by: anyone who reaches \
         the port could join the cluster and read its keys. Make a key with `songline operator gossip keyring generate` and set \
         server {{ encrypt = \"KEY\" }} on every server, or set tls {{ rpc = true }} with certificates named server.{region}.nomad. \
         server {{ allow_unauthenticated_peers = true }} starts all the same",
        addresses.join(", ")
    )
}
