//! Configurations that start, and the errors of those that do not.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::config::file;

async fn told(document: Value, advertised: &str) -> String {
    let mut config = AgentConfig { server: Some(ServerConfig::default()), ..AgentConfig::default() };
    file::apply(&document, &mut config).expect("is a configuration");
    let server = config.server.clone().expect("it has a server");
    match trust(&config, &server, advertised).await {
        Ok(trust) => format!("starts, settled: {}", trust.is_settled()),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn server_without_peer_authentication_does_not_start_beyond_loopback() {
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let (here, there) = ("127.0.0.1:4647", "10.0.0.1:4647");
    let join = |address: &str| json!({ "server": { "retry_join": [address] } });
    let mut lines = String::new();
    for (what, document, advertised) in [
        ("alone", json!({}), there),
        ("alone, as told", json!({ "server": { "bootstrap_expect": 1 } }), there),
        ("three expected here", json!({ "server": { "bootstrap_expect": 3 } }), here),
        ("three expected there", json!({ "server": { "bootstrap_expect": 3 } }), there),
        ("three expected there, with a key", json!({ "server": { "bootstrap_expect": 3, "encrypt": key } }), there),
        (
            "three expected there, with certificates",
            json!({ "server": { "bootstrap_expect": 3 }, "tls": { "rpc": true } }),
            there,
        ),
        (
            "three expected there, of anybody",
            json!({ "server": { "bootstrap_expect": 3, "allow_unauthenticated_peers": true } }),
            there,
        ),
        ("joins here", join("localhost:4657"), here),
        ("joins there", join("10.0.0.2"), here),
        ("first of others", json!({ "server": { "bootstrap_expect": 1, "start_join": ["10.0.0.2"] } }), here),
    ] {
        lines.push_str(&format!("{what}: {}\n", told(document, advertised).await));
    }
    expect![[r#"
        alone: starts, settled: false
        alone, as told: starts, settled: false
        three expected here: starts, settled: false
        three expected there: server: there are other servers, 10.0.0.1:4647 is not an address of this machine, and the servers have nothing to know each other by: anyone who reaches the port could join the cluster and read its keys. Make a key with `songline operator gossip keyring generate` and set server { encrypt = "KEY" } on every server, or set tls { rpc = true } with certificates named server.global.nomad. server { allow_unauthenticated_peers = true } starts all the same
        three expected there, with a key: starts, settled: true
        three expected there, with certificates: starts, settled: true
        three expected there, of anybody: starts, settled: true
        joins here: starts, settled: false
        joins there: server: there are other servers, 10.0.0.2:4647 is not an address of this machine, and the servers have nothing to know each other by: anyone who reaches the port could join the cluster and read its keys. Make a key with `songline operator gossip keyring generate` and set server { encrypt = "KEY" } on every server, or set tls { rpc = true } with certificates named server.global.nomad. server { allow_unauthenticated_peers = true } starts all the same
        first of others: server: there are other servers, 10.0.0.2:4647 is not an address of this machine, and the servers have nothing to know each other by: anyone who reaches the port could join the cluster and read its keys. Make a key with `songline operator gossip keyring generate` and set server { encrypt = "KEY" } on every server, or set tls { rpc = true } with certificates named server.global.nomad. server { allow_unauthenticated_peers = true } starts all the same
    "#]].assert_eq(&lines);
}
