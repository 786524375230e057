//! Flags of `agent` that say what a key of a configuration file says: they become such a document, read after the
//! files. Not here: flags that no file has.

mod services;

use clap::Args;
use serde_json::{Value, json};
use services::{Consul, Vault};

/// Settings with a flag and a configuration key.
#[derive(Args)]
pub(crate) struct Flags {
    /// Directory of all durable data.
    #[arg(long)]
    data_dir: Option<String>,
    /// Address to listen on.
    #[arg(long)]
    bind: Option<String>,
    /// Name of the node.
    #[arg(long)]
    node: Option<String>,
    /// Region.
    #[arg(long)]
    region: Option<String>,
    /// Datacenter.
    #[arg(long)]
    dc: Option<String>,
    /// `trace`, `debug`, `info`, `warn` or `error`.
    #[arg(long)]
    log_level: Option<String>,
    /// Log lines as JSON.
    #[arg(long)]
    log_json: bool,
    /// Run a server.
    #[arg(long)]
    server: bool,
    /// How many servers elect the first leader.
    #[arg(long)]
    bootstrap_expect: Option<u64>,
    /// A server to join, tried before those of `--retry-join`; may be given several times.
    #[arg(long)]
    join: Vec<String>,
    /// A server to join, tried until it answers; may be given several times.
    #[arg(long)]
    retry_join: Vec<String>,
    /// Accepted and without effect: servers are tried every two seconds.
    #[arg(long)]
    retry_interval: Option<String>,
    /// Accepted and without effect: servers are tried without an end.
    #[arg(long)]
    retry_max: Option<u64>,
    /// Join again after having left.
    #[arg(long)]
    rejoin: bool,
    /// The key that servers prove to each other to have, in base64.
    #[arg(long, hide_env_values = true)]
    encrypt: Option<String>,
    /// Run a node.
    #[arg(long)]
    client: bool,
    /// The servers of the node, separated by commas.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,
    /// The node's class.
    #[arg(long)]
    node_class: Option<String>,
    /// The node's pool.
    #[arg(long)]
    node_pool: Option<String>,
    /// The node's metadata, as `key=value`; may be given several times.
    #[arg(long, value_parser = pair)]
    meta: Vec<(String, String)>,
    /// Directory of the node's own state.
    #[arg(long)]
    state_dir: Option<String>,
    /// Directory of the allocations' directories.
    #[arg(long)]
    alloc_dir: Option<String>,
    /// Network interface whose address tasks get.
    #[arg(long)]
    network_interface: Option<String>,
    /// Speed of the network in MBit/s.
    #[arg(long)]
    network_speed: Option<u64>,
    /// Accepted and without effect: the drivers are part of the program.
    #[arg(long)]
    plugin_dir: Option<String>,
    /// Callers need tokens.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    acl_enabled: Option<bool>,
    /// Management token of the authoritative region, with which the leader of another region reads from it.
    #[arg(long, hide_env_values = true)]
    acl_replication_token: Option<String>,
    #[command(flatten)]
    consul: Consul,
    #[command(flatten)]
    vault: Vault,
}

impl Flags {
    /// The document that says the same.
    pub(crate) fn document(&self) -> Value {
        let mut server = keys([("bootstrap_expect", self.bootstrap_expect.map(Value::from))]);
        let mut client = keys([
            ("node_class", text(&self.node_class)),
            ("node_pool", text(&self.node_pool)),
            ("state_dir", text(&self.state_dir)),
            ("alloc_dir", text(&self.alloc_dir)),
            ("network_interface", text(&self.network_interface)),
            ("network_speed", self.network_speed.map(Value::from)),
        ]);
        let server_join = keys([
            ("start_join", list(&self.join)),
            ("retry_join", list(&self.retry_join)),
            ("retry_interval", text(&self.retry_interval)),
            ("retry_max", self.retry_max.map(Value::from)),
        ]);
        // A joining agent keeps its mode: a client-only agent has servers to find, too.
        if self.client && !self.server {
            client["server_join"] = server_join;
        } else {
            server["server_join"] = server_join;
        }
        if let Some(key) = &self.encrypt {
            server["encrypt"] = json!(key);
        }
        if self.rejoin {
            server["rejoin_after_leave"] = json!(true);
        }
        if let Some(servers) = list(&self.servers) {
            client["servers"] = servers;
        }
        if self.server {
            server["enabled"] = json!(true);
        }
        if self.client {
            client["enabled"] = json!(true);
        }
        for (key, value) in &self.meta {
            client["meta"][key] = json!(value);
        }
        let mut document = keys([
            ("data_dir", text(&self.data_dir)),
            ("bind_addr", text(&self.bind)),
            ("name", text(&self.node)),
            ("region", text(&self.region)),
            ("datacenter", text(&self.dc)),
            ("log_level", text(&self.log_level)),
            ("plugin_dir", text(&self.plugin_dir)),
        ]);
        document["log_json"] = json!(self.log_json);
        document["server"] = server;
        document["client"] = client;
        document["acl"] = keys([
            ("enabled", self.acl_enabled.map(Value::from)),
            ("replication_token", text(&self.acl_replication_token)),
        ]);
        document["consul"] = json!(self.consul);
        document["vault"] = json!(self.vault);
        document
    }
}

fn keys<const N: usize>(said: [(&str, Option<Value>); N]) -> Value {
    said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect::<serde_json::Map<_, _>>().into()
}

fn text(said: &Option<String>) -> Option<Value> {
    said.as_deref().map(Value::from)
}

fn list(said: &[String]) -> Option<Value> {
    (!said.is_empty()).then(|| json!(said))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("Error parsing Client.Meta value: {text:?}"))?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::{AgentConfig, file};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn agent(line: &str) -> anyhow::Result<AgentConfig> {
        let flags = Line::try_parse_from(std::iter::once("agent").chain(line.split_whitespace()))?.flags;
        let mut config = AgentConfig::default();
        let warnings = file::apply(&flags.document(), &mut config)?;
        assert!(warnings.is_empty(), "{warnings:?}");
        config.check()?;
        config.check_servers_known()?;
        Ok(config)
    }

    #[test]
    fn agent_flags_alone_configure_a_server_and_a_node() {
        let config = agent(
            "--server --bootstrap-expect=1 --client --data-dir=/srv/x --bind=127.0.0.1 --region=mars --dc=dc7 --node=n1 --log-level=DEBUG \
             --log-json --node-class=big --node-pool=gpu --meta=rack=r1 --meta=row=2=b",
        )
        .expect("is a configuration");
        let node = config.client.expect("a node is asked for");
        assert!(config.server.is_some() && config.log_json);
        assert_eq!((config.region.as_str(), config.datacenter.as_str(), config.name.as_str()), ("mars", "dc7", "n1"));
        assert_eq!((config.bind_addr.as_str(), config.log_level.as_str()), ("127.0.0.1", "DEBUG"));
        assert_eq!((node.node_class.as_str(), node.node_pool.as_str()), ("big", "gpu"));
        assert_eq!((node.meta["rack"].as_str(), node.meta["row"].as_str()), ("r1", "2=b"));
    }

    #[test]
    fn agent_flags_set_access_directories_consul_and_vault() {
        let config = agent(
            "--server --bootstrap-expect=1 --client --data-dir=/srv/x --acl-enabled --acl-replication-token=t --state-dir=/srv/s \
             --alloc-dir=/srv/a --network-interface=eth7 --consul-address=c:8501 --consul-ssl --consul-verify-ssl=false --consul-token=k \
             --vault-enabled --vault-address=https://v:8200 --vault-token=u --vault-create-from-role=r",
        )
        .expect("is a configuration");
        let node = config.client.expect("a node is asked for");
        assert!(config.acl.enabled && config.vault.enabled);
        assert_eq!((config.consul.address.as_str(), config.vault.address.as_str()), ("c:8501", "https://v:8200"));
        assert!(config.consul.ssl && !config.consul.trust.verify);
        assert_eq!(node.own_state_dir.as_deref().and_then(|path| path.to_str()), Some("/srv/s"));
        assert_eq!(node.own_alloc_dir.as_deref().and_then(|path| path.to_str()), Some("/srv/a"));
        let without =
            agent("--server --bootstrap-expect=1 --data-dir=/srv/x --acl-enabled=false").expect("is one, too");
        assert!(!without.acl.enabled);
    }

    #[test]
    fn agent_without_flags_is_refused() {
        let error = agent("").expect_err("neither server nor node");
        assert_eq!(error.to_string(), "Must specify either server, client or dev mode for the agent.");
        assert!(
            agent("--meta=rack --server")
                .is_err_and(|error| error.to_string().contains("Error parsing Client.Meta value"))
        );
    }

    #[test]
    fn agent_flags_set_server_and_join_addresses() {
        let config = agent("--client --data-dir=/srv/x --servers=a,b:1 --retry-join=c").expect("is a configuration");
        assert_eq!(config.server_addresses(), ["a:4647", "b:1", "c:4647"]);
        let line = "--server --data-dir=/srv/x --bootstrap-expect=3 --retry-join=a --join=b --encrypt=AAAAAAAAAAAAAAAAAAAAAA== --rejoin";
        let server = agent(line).expect("is a configuration").server.expect("a server is asked for");
        assert_eq!(
            (server.bootstrap_expect, server.rejoin_after_leave, server.encrypt.is_some()),
            (Some(3), true, true)
        );
        assert_eq!(server.join.addresses(), ["b:4647", "a:4647"]);
        let error = agent("--client --data-dir=/srv/x").expect_err("there is nobody to register with").to_string();
        assert!(error.contains("needs servers"), "{error}");
    }
}
