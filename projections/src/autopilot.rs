//! Autopilot configuration of the servers, a single row.

use std::sync::Arc;

use songline_commands::SetAutopilotConfig;
use songline_model::AutopilotConfig;

use crate::Outcome;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<(), AutopilotConfig> for tables::AutopilotConfig {
    fn key(_row: &AutopilotConfig) {}

    #[cfg(test)]
    fn in_story(_row: &AutopilotConfig) -> String {
        "autopilot:".to_owned()
    }
}

impl State {
    /// The autopilot configuration. `None`: never set, so the initial configuration applies.
    pub fn autopilot_config(&self) -> Option<&Arc<AutopilotConfig>> {
        self.tables.autopilot_config.get(&())
    }
}

/// Replaces the configuration. A compare-and-set on a missing row always fails.
pub(crate) fn set(tx: &mut Tx<'_>, cmd: &SetAutopilotConfig) -> Result<Outcome, Rejected> {
    let stored = tx.autopilot_config().map(|row| (row.create_index, row.modify_index));
    if let Some(wanted) = cmd.cas
        && stored.is_none_or(|(_, modified)| modified != wanted)
    {
        return Ok(Outcome::Cas(false));
    }
    let create_index = stored.map_or(tx.index(), |(created, _)| created);
    let row = AutopilotConfig { create_index, modify_index: tx.index(), ..cmd.config.clone() };
    tx.put::<tables::AutopilotConfig>(row);
    Ok(if cmd.cas.is_some() { Outcome::Cas(true) } else { Outcome::Done })
}

#[cfg(test)]
mod tests;
