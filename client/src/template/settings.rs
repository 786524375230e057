//! The block `client.template`: what templates may do, and how patiently servers are asked.

use std::collections::BTreeSet;

use songline_model::{Dur, WaitConfig};

/// Settings of all templates of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateSettings {
    /// Functions that fail when they are called.
    pub denied: BTreeSet<String>,
    /// Longest wait of one blocking query.
    pub block_query_wait: Dur,
    /// Time for which answers have to be stable before a template without its own `wait` is rendered again.
    pub wait: WaitConfig,
    /// Bounds of the `wait` of templates.
    pub wait_bounds: WaitConfig,
    /// Retries of questions to Consul.
    pub consul_retry: Retry,
    /// Retries of questions to the servers.
    pub nomad_retry: Retry,
    /// Retries of questions to Vault.
    pub vault_retry: Retry,
}

/// Retries of failed questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Number of failures after which the task fails; 0 never fails it.
    pub attempts: u32,
    /// First delay; each one is twice the one before.
    pub backoff: Dur,
    /// Largest delay.
    pub backoff_max: Dur,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 12, backoff: Dur::from_millis(250), backoff_max: Dur::from_mins(1) }
    }
}

impl Default for TemplateSettings {
    fn default() -> Self {
        Self {
            denied: ["plugin", "writeToFile"].map(str::to_owned).into(),
            block_query_wait: Dur::from_mins(5),
            wait: WaitConfig { min: Some(Dur::from_secs(5)), max: Some(Dur::from_mins(4)) },
            wait_bounds: WaitConfig::default(),
            consul_retry: Retry::default(),
            nomad_retry: Retry::default(),
            vault_retry: Retry::default(),
        }
    }
}

impl TemplateSettings {
    /// Wait of a template: its own, otherwise the agent's, in the agent's bounds.
    pub(crate) fn wait_of(&self, own: Option<&WaitConfig>) -> (Dur, Dur) {
        let wait = own.unwrap_or(&self.wait);
        let bounded = |wait: Option<Dur>| {
            let wait = wait.unwrap_or(Dur::ZERO);
            let wait = self.wait_bounds.min.map_or(wait, |least| wait.max(least));
            self.wait_bounds.max.map_or(wait, |most| wait.min(most))
        };
        let (min, max) = (bounded(wait.min), bounded(wait.max));
        (min, max.max(min))
    }
}
