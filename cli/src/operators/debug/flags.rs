//! Arguments of `operator debug`, and what they mean together.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::capture::Capture;
use super::targets::Targets;
use crate::client::{Client, Setup, with_query};
use crate::exit::Failure;
use crate::{Context, General, outln};

/// Levels of log lines, as an agent knows them.
const LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];

/// Arguments of `operator debug`.
#[derive(Args)]
pub(crate) struct Debug {
    #[command(flatten)]
    pub(super) general: General,
    /// How long logs are followed and intervals captured.
    #[arg(long, default_value = "2m")]
    duration: String,
    /// Time between two captures of the cluster's state.
    #[arg(long, default_value = "30s")]
    interval: String,
    /// Lowest level of the log lines that are captured.
    #[arg(long, default_value = "DEBUG")]
    log_level: String,
    /// Include the file and the line of the source in log lines.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    log_include_location: bool,
    /// Most nodes that are captured; 0 is no bound.
    #[arg(long, default_value_t = 10)]
    pub(super) max_nodes: i64,
    /// Only nodes of this class.
    #[arg(long, default_value = "")]
    pub(super) node_class: String,
    /// Ids of nodes or their beginnings, with commas between; `all`.
    #[arg(long, default_value = "all")]
    pub(super) node_id: String,
    /// Names of servers, with commas between; `all`, or `leader`.
    #[arg(long, default_value = "all")]
    pub(super) server_id: String,
    /// Ask any server, also one without a leader.
    #[arg(long)]
    pub(super) stale: bool,
    /// Directory below which the files stay; without it they become an archive in the working directory.
    #[arg(long)]
    pub(super) output: Option<String>,
    /// How long the use of the processor is measured; 0 measures nothing.
    #[arg(long, default_value = "1s")]
    pprof_duration: String,
    /// Time between profiles. Agents measure whole seconds, so there is one profile for each of them.
    #[arg(long, default_value = "250ms")]
    pprof_interval: String,
    /// Topics of events that are captured, with commas between: `Job,Node:ID`, `*`; `none`.
    #[arg(long, default_value = "none")]
    event_topic: String,
    /// Index that captured events begin with.
    #[arg(long, default_value_t = 0)]
    event_index: u64,
    /// Print each file as it is captured.
    #[arg(long)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) others: Others,
}

/// Extent of a capture.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) duration: Duration,
    pub(super) interval: Duration,
    /// Zero: no profiles.
    pub(super) pprof: Duration,
    pub(super) log_level: String,
    pub(super) log_location: bool,
    /// Query of the event stream, if events are captured.
    pub(super) events: Option<String>,
}

impl Debug {
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let (duration, interval) = (span("duration", &self.duration)?, span("interval", &self.interval)?);
        if interval > duration {
            return Err(Failure::new(format!(
                "Error parsing interval: {} is greater than duration {}",
                self.interval, self.duration
            )));
        }
        if interval.is_zero() {
            return Err(Failure::new("Error parsing interval: 0 is no time between two captures"));
        }
        let pprof = span("pprof duration", &self.pprof_duration)?;
        span("pprof interval", &self.pprof_interval)?;
        if !LEVELS.contains(&self.log_level.to_uppercase().as_str()) {
            let levels = LEVELS.join(", ");
            return Err(Failure::new(format!("Unknown log level {:?}: it is one of {levels}", self.log_level)));
        }
        Ok(Plan {
            duration,
            interval,
            pprof,
            log_level: self.log_level.clone(),
            log_location: self.log_include_location,
            events: events(&self.event_topic, self.event_index)?,
        })
    }

    /// Prints what is captured.
    pub(super) fn print_head(&self, context: &Context, client: &Client, targets: &Targets) {
        let version = concat!("Songline v", env!("CARGO_PKG_VERSION"));
        let program = if context.program == "nomad" { "Nomad v1.6.5, " } else { "" };
        let list = |chosen: &[String], all: usize| format!("({}/{all}) [{}]", chosen.len(), chosen.join(" "));
        let clients: Vec<String> = targets.nodes.iter().map(|id| id.chars().take(8).collect()).collect();
        for (name, value) in [
            ("Nomad CLI Version", format!("{program}{version}")),
            ("Region", client.region().unwrap_or(&targets.region).to_owned()),
            ("Namespace", client.namespace().to_owned()),
            ("Servers", list(&targets.servers, targets.servers_all)),
            ("Clients", list(&clients, targets.nodes_all)),
            ("Interval", self.interval.clone()),
            ("Duration", self.duration.clone()),
            ("pprof Interval", self.pprof_interval.clone()),
        ] {
            let line = format!("{name:>17}: {value}");
            outln!("{}", line.trim_end());
        }
    }

    /// The flags as they were understood, without secrets.
    pub(super) fn shown_flags(&self) -> Value {
        let hidden = |secret: &Option<String>| secret.as_ref().map_or("", |_| "<redacted>");
        json!({
            "address": self.general.address, "region": self.general.region, "namespace": self.general.namespace,
            "token": hidden(&self.general.token), "ca-cert": self.general.ca_cert, "ca-path": self.general.ca_path,
            "client-cert": self.general.client_cert, "client-key": self.general.client_key,
            "tls-server-name": self.general.tls_server_name, "tls-skip-verify": self.general.tls_skip_verify,
            "duration": self.duration, "interval": self.interval, "log-level": self.log_level,
            "log-include-location": self.log_include_location, "max-nodes": self.max_nodes,
            "node-class": self.node_class, "node-id": self.node_id, "server-id": self.server_id, "stale": self.stale,
            "output": self.output, "pprof-duration": self.pprof_duration, "pprof-interval": self.pprof_interval,
            "event-topic": self.event_topic, "event-index": self.event_index,
            "consul-http-addr": self.others.consul_http_addr, "consul-token": hidden(&self.others.consul_token),
            "vault-address": self.others.vault_address, "vault-token": hidden(&self.others.vault_token),
        })
    }
}

/// A duration that is not negative.
fn span(name: &str, text: &str) -> Result<Duration, Failure> {
    let failed = |reason: &dyn std::fmt::Display| Failure::new(format!("Error parsing {name}: {text}: {reason}"));
    let nanos = songline_lang::duration::parse(text).map_err(|error| failed(&error))?;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| failed(&"it is negative"))
}

/// Query of the event stream for topics with commas between.
fn events(topics: &str, index: u64) -> Result<Option<String>, Failure> {
    if matches!(topics, "" | "none") {
        return Ok(None);
    }
    let index = if index == 0 { String::new() } else { index.to_string() };
    let mut pairs = vec![("index", index.as_str()), ("namespace", "*")];
    for topic in topics.split(',').map(str::trim) {
        match topic {
            "" => return Err(Failure::new(format!("Error parsing event topics: {topics:?} has an empty topic"))),
            "*" | "all" => {}
            topic => pairs.push(("topic", topic)),
        }
    }
    Ok(Some(with_query("/v1/event/stream", &pairs)))
}

/// Agents of other programs that are asked too.
#[derive(Args)]
pub(super) struct Others {
    /// Address of a Consul agent; else `CONSUL_HTTP_ADDR`. Nothing is asked without one.
    #[arg(long, env = "CONSUL_HTTP_ADDR")]
    consul_http_addr: Option<String>,
    /// Token for Consul; else `CONSUL_HTTP_TOKEN`.
    #[arg(long, env = "CONSUL_HTTP_TOKEN", hide_env_values = true)]
    consul_token: Option<String>,
    /// File with the token for Consul; else `CONSUL_HTTP_TOKEN_FILE`.
    #[arg(long, env = "CONSUL_HTTP_TOKEN_FILE")]
    consul_token_file: Option<String>,
    /// Certificate for Consul; else `CONSUL_CLIENT_CERT`.
    #[arg(long, env = "CONSUL_CLIENT_CERT")]
    consul_client_cert: Option<String>,
    /// Key of the certificate for Consul; else `CONSUL_CLIENT_KEY`.
    #[arg(long, env = "CONSUL_CLIENT_KEY")]
    consul_client_key: Option<String>,
    /// PEM file of the authorities of Consul's certificate; else `CONSUL_CACERT`.
    #[arg(long, env = "CONSUL_CACERT")]
    consul_ca_cert: Option<String>,
    /// Directory of such files; else `CONSUL_CAPATH`.
    #[arg(long, env = "CONSUL_CAPATH")]
    consul_ca_path: Option<String>,
    /// Address of a Vault server; else `VAULT_ADDR`. Nothing is asked without one.
    #[arg(long, env = "VAULT_ADDR")]
    vault_address: Option<String>,
    /// Token for Vault; else `VAULT_TOKEN`.
    #[arg(long, env = "VAULT_TOKEN", hide_env_values = true)]
    vault_token: Option<String>,
    /// Certificate for Vault; else `VAULT_CLIENT_CERT`.
    #[arg(long, env = "VAULT_CLIENT_CERT")]
    vault_client_cert: Option<String>,
    /// Key of the certificate for Vault; else `VAULT_CLIENT_KEY`.
    #[arg(long, env = "VAULT_CLIENT_KEY")]
    vault_client_key: Option<String>,
    /// PEM file of the authorities of Vault's certificate; else `VAULT_CACERT`.
    #[arg(long, env = "VAULT_CACERT")]
    vault_ca_cert: Option<String>,
    /// Directory of such files; else `VAULT_CAPATH`.
    #[arg(long, env = "VAULT_CAPATH")]
    vault_ca_path: Option<String>,
}

impl Others {
    /// Captures what Consul and Vault say about themselves, where they have an address.
    pub(super) async fn capture(&self, capture: &Capture) {
        let from_file = || {
            let file = self.consul_token_file.as_ref()?;
            Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
        };
        if let Some(address) = address(&self.consul_http_addr) {
            let setup = Setup {
                address,
                ca_cert: self.consul_ca_cert.clone(),
                ca_path: self.consul_ca_path.clone(),
                client_cert: self.consul_client_cert.clone(),
                client_key: self.consul_client_key.clone(),
                ..Setup::default()
            };
            let token = self.consul_token.clone().or_else(from_file);
            let paths =
                ["/v1/agent/self", "/v1/agent/host", "/v1/agent/members", "/v1/agent/metrics", "/v1/status/leader"];
            capture.foreign("consul", setup, ("X-Consul-Token", token), &paths).await;
        }
        if let Some(address) = address(&self.vault_address) {
            let setup = Setup {
                address,
                ca_cert: self.vault_ca_cert.clone(),
                ca_path: self.vault_ca_path.clone(),
                client_cert: self.vault_client_cert.clone(),
                client_key: self.vault_client_key.clone(),
                ..Setup::default()
            };
            let paths = ["/v1/sys/health", "/v1/sys/host-info", "/v1/sys/leader"];
            capture.foreign("vault", setup, ("X-Vault-Token", self.vault_token.clone()), &paths).await;
        }
    }
}

/// An address with a scheme; Consul's variable often has none.
fn address(given: &Option<String>) -> Option<String> {
    let given = given.as_deref().filter(|given| !given.is_empty())?;
    Some(if given.contains("://") { given.to_owned() } else { format!("http://{given}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_become_a_query_and_none_is_no_stream() {
        let query = |topics, index| events(topics, index).map_err(|failure| failure.message().to_owned());
        assert_eq!(query("none", 3), Ok(None));
        assert_eq!(query("*", 0), Ok(Some("/v1/event/stream?namespace=%2A".to_owned())));
        let two = "/v1/event/stream?index=7&namespace=%2A&topic=Job%3Aweb&topic=Node".to_owned();
        assert_eq!(query("Job:web, Node", 7), Ok(Some(two)));
        assert!(query("Job,", 0).is_err());
    }

    #[test]
    fn an_address_of_consul_needs_no_scheme() {
        assert_eq!(address(&Some("127.0.0.1:8500".into())).as_deref(), Some("http://127.0.0.1:8500"));
        assert_eq!(address(&Some("https://c".into())).as_deref(), Some("https://c"));
        assert_eq!(address(&Some(String::new())), None);
    }
}
