//! What this server asks of other servers, from what it was told. A server that could not tell others from strangers does not start.
//! What is proved and how is `songline_rpc::port`'s business.

use std::net::{IpAddr, SocketAddr};

use songline_rpc::port::{ServerKey, ServerTrust, Unproven};

use crate::config::network::EncryptKey;
use crate::config::{AgentConfig, ServerConfig};

/// How other servers are known, for a server that others reach at `advertised` (`host:port`).
pub(crate) async fn of(config: &AgentConfig, server: &ServerConfig, advertised: &str) -> anyhow::Result<ServerTrust> {
    let key = server.encrypt.as_ref().map(server_key);
    let trust = |unproven| ServerTrust::new(&config.region, config.tls.rpc, key.clone(), unproven);
    if server.allow_unauthenticated_peers {
        tracing::warn!(
            "server.allow_unauthenticated_peers is on: whoever reaches port {} may join the cluster, read its keys and write its log. \
             Make a key with `songline operator gossip keyring generate`, set it as `encrypt` on every server, and take this off",
            config.rpc_port
        );
        return Ok(trust(Unproven::Anybody));
    }
    if server.is_lone() {
        return Ok(trust(Unproven::Refused));
    }
    let mut others = Vec::new();
    for address in server.join.addresses().into_iter().chain([advertised.to_owned()]) {
        if !is_loopback(&address).await {
            others.push(address);
        }
    }
    match others.as_slice() {
        [] => Ok(trust(Unproven::Loopback)),
        _ if config.tls.rpc || key.is_some() => Ok(trust(Unproven::Refused)),
        _ => anyhow::bail!(advice(&others, &config.region)),
    }
}

/// What servers prove to each other of their `encrypt` key, whatever its length is.
pub(crate) fn server_key(encrypt: &EncryptKey) -> ServerKey {
    ServerKey::new(blake3::derive_key("songline encrypt key of servers", encrypt.reveal()))
}

/// Whether an address (`host:port`) is one of this machine alone. A name counts by all of its addresses; one that has none does not.
async fn is_loopback(address: &str) -> bool {
    let Ok(found) = tokio::net::lookup_host(address).await else { return false };
    let found: Vec<SocketAddr> = found.collect();
    !found.is_empty() && found.iter().all(|address| address.ip().to_canonical().is_loopback())
}

/// The same of an address that is no name.
pub(crate) fn is_loopback_ip(address: &str) -> bool {
    let ip: Option<IpAddr> = address.parse::<SocketAddr>().ok().map(|address| address.ip());
    ip.is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// What to do about servers at these addresses that prove nothing.
pub(crate) fn advice(addresses: &[String], region: &str) -> String {
    format!(
        "server: there are other servers, {} is not a loopback address, and the servers have nothing to know each other by: whoever reaches \
         the port could join the cluster and read its keys. Make a key with `songline operator gossip keyring generate` and set \
         server {{ encrypt = \"KEY\" }} on every server, or set tls {{ rpc = true }} with certificates named server.{region}.nomad. \
         server {{ allow_unauthenticated_peers = true }} starts all the same",
        addresses.join(", ")
    )
}

#[cfg(test)]
mod tests;
