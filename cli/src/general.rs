//! Options of every command that talks to an agent, and their environment variables.

use clap::Args;

use crate::args::boolean;
use crate::client::{Client, Setup};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::outln;

/// Heading of the options in help texts and manual pages. Each option names it: a heading of the struct would count for
/// the options behind it, too.
pub(crate) const GENERAL: &str = "General Options";

/// Options of every command that talks to an agent. A flag goes before its variable. The ids of clap have a prefix, so
/// that commands may have arguments of the same names.
#[derive(Args, Debug, Clone, Default)]
pub struct General {
    /// Address of the agent: `http://`, `https://` or `unix://PATH`; else `NOMAD_ADDR`, else http://127.0.0.1:4646.
    #[arg(id = "general.address", long = "address", value_name = "ADDRESS", help_heading = GENERAL)]
    pub address: Option<String>,
    /// Region of the request; else `NOMAD_REGION`, else the agent's.
    #[arg(id = "general.region", long = "region", value_name = "REGION", help_heading = GENERAL)]
    pub region: Option<String>,
    /// Namespace; `*` is all of them, where a list is asked for. Else `NOMAD_NAMESPACE`.
    #[arg(id = "general.namespace", long = "namespace", value_name = "NAMESPACE", help_heading = GENERAL)]
    pub namespace: Option<String>,
    /// Secret of an ACL token; else `NOMAD_TOKEN`.
    #[arg(id = "general.token", long = "token", value_name = "SECRET", help_heading = GENERAL)]
    pub token: Option<String>,
    /// PEM file of the certificates that may sign the agent's; else `NOMAD_CACERT`, else the system's.
    #[arg(id = "general.ca_cert", long = "ca-cert", value_name = "FILE", help_heading = GENERAL)]
    pub ca_cert: Option<String>,
    /// Directory of such files; else `NOMAD_CAPATH`.
    #[arg(id = "general.ca_path", long = "ca-path", value_name = "DIR", help_heading = GENERAL)]
    pub ca_path: Option<String>,
    /// Certificate (PEM) of this program; else `NOMAD_CLIENT_CERT`.
    #[arg(id = "general.client_cert", long = "client-cert", value_name = "FILE", help_heading = GENERAL)]
    pub client_cert: Option<String>,
    /// Its key; else `NOMAD_CLIENT_KEY`.
    #[arg(id = "general.client_key", long = "client-key", value_name = "FILE", help_heading = GENERAL)]
    pub client_key: Option<String>,
    /// Name that the agent's certificate must have; else `NOMAD_TLS_SERVER_NAME`, else the address's host.
    #[arg(id = "general.tls_server_name", long = "tls-server-name", value_name = "NAME", help_heading = GENERAL)]
    pub tls_server_name: Option<String>,
    /// Do not check the agent's certificate; also `NOMAD_SKIP_VERIFY`.
    #[arg(id = "general.tls_skip_verify", long = "tls-skip-verify", alias = "insecure", help_heading = GENERAL)]
    pub tls_skip_verify: bool,
    /// No colours; also `NOMAD_CLI_NO_COLOR`.
    #[arg(id = "general.no_color", long = "no-color", help_heading = GENERAL)]
    pub no_color: bool,
    /// Colours without a terminal; also `NOMAD_CLI_FORCE_COLOR`.
    #[arg(id = "general.force_color", long = "force-color", help_heading = GENERAL)]
    pub force_color: bool,
}

impl General {
    /// A client of the agent.
    ///
    /// # Errors
    /// `Error initializing client: ..`: an address or certificates that cannot be used.
    pub fn client(&self) -> Result<Client, Failure> {
        let skip = self.tls_skip_verify || variable("NOMAD_SKIP_VERIFY").as_deref().and_then(boolean) == Some(true);
        Client::new(Setup {
            address: first(&self.address, "NOMAD_ADDR").unwrap_or_else(|| "http://127.0.0.1:4646".to_owned()),
            region: first(&self.region, "NOMAD_REGION"),
            namespace: first(&self.namespace, "NOMAD_NAMESPACE"),
            token: first(&self.token, "NOMAD_TOKEN"),
            basic: variable("NOMAD_HTTP_AUTH"),
            ca_cert: first(&self.ca_cert, "NOMAD_CACERT"),
            ca_path: first(&self.ca_path, "NOMAD_CAPATH"),
            client_cert: first(&self.client_cert, "NOMAD_CLIENT_CERT"),
            client_key: first(&self.client_key, "NOMAD_CLIENT_KEY"),
            tls_server_name: first(&self.tls_server_name, "NOMAD_TLS_SERVER_NAME"),
            tls_skip_verify: skip,
        })
        .map_err(|reason| Failure::of("Error initializing client", reason))
    }

    /// Deletes the object at a path, and prints `done`. `tried` names the deletion in an error.
    ///
    /// # Errors
    /// The agent refuses, or cannot be reached.
    pub async fn delete(&self, path: &str, tried: &str, done: &str) -> Outcome {
        self.client()?.delete(path).await.tried(tried)?;
        outln!("{done}");
        Ok(Exit::DONE)
    }

    /// Whether a list of all namespaces is asked for.
    pub fn all_namespaces(&self) -> bool {
        first(&self.namespace, "NOMAD_NAMESPACE").as_deref() == Some("*")
    }

    /// Decides about colours from flags and environment.
    pub(crate) fn choose_colours(no: bool, force: bool) {
        let off = no || variable("NOMAD_CLI_NO_COLOR").is_some();
        crate::out::choose_colours(off, force || variable("NOMAD_CLI_FORCE_COLOR").is_some());
    }
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn first(flag: &Option<String>, name: &str) -> Option<String> {
    flag.clone().filter(|value| !value.is_empty()).or_else(|| variable(name))
}
