//! Reloading: the parts of its configuration that an agent adopts while it runs. These are the level of its log,
//! certificates, and the metadata of its node, which looks for networks again, too. All else needs a restart.

use anyhow::Context;
use songline_rpc::port::Tls;

use super::Agent;
use crate::config::AgentConfig;
use crate::https::Certificates;
use crate::{listen, logging};

/// Parts of a running agent that can change.
#[derive(Default)]
pub(super) struct Reloadable {
    /// Certificates of the HTTP port.
    pub(super) https: Option<Certificates>,
    /// Certificates of connections between agents.
    pub(super) tls: Option<Tls>,
}

impl Agent {
    /// Adopts a configuration as far as that is possible without a restart. Parts are adopted one by one: those before
    /// an error stay adopted, and the error names its part.
    pub async fn reload(&self, config: &AgentConfig) -> anyhow::Result<()> {
        logging::set_level(&config.log_level).context("log_level")?;
        let Reloadable { https, tls } = &self.reloadable;
        if let Some(https) = https.as_ref().filter(|_| config.tls.http) {
            https.reload(&config.tls).context("certificates of HTTPS")?;
        }
        if let Some((tls, settings)) = tls.as_ref().zip(listen::tls_settings(config)) {
            tls.reload(&settings).context("certificates of the port between agents")?;
        }
        if let Some(told) = &config.client {
            if let Some(node) = &self.client {
                node.reload(told.meta.clone()).await;
            }
            if let Some(node) = &self.client_only {
                node.client.reload(told.meta.clone()).await;
            }
        }
        Ok(())
    }

    /// Reads the configuration again and adopts it. Errors are logged: the agent goes on as before.
    pub(crate) async fn reload_from(&self, read: impl FnOnce() -> anyhow::Result<AgentConfig>) {
        let reloaded = match read() {
            Ok(config) => self.reload(&config).await,
            Err(error) => Err(error),
        };
        match reloaded {
            Ok(()) => tracing::info!("the configuration is read again"),
            Err(error) => tracing::error!(error = format!("{error:#}"), "reading the configuration again"),
        }
    }
}
