//! `log go-alone`: recovery from the loss of a majority. See `docs/operations.md`, "Losing two of three".

use std::path::Path;

use anyhow::{Context, bail};
use songline_cli::outln;
use songline_log::RealDisk;
use songline_log::stand_alone;
use songline_rpc::world::Machine;
use songline_server::cluster;

pub(super) fn run(data_dir: &Path, others_are_lost: bool) -> anyhow::Result<()> {
    let dir = data_dir.join("server");
    if !dir.join("id").try_exists()? {
        bail!("{} is no directory of a server", dir.display());
    }
    if !others_are_lost {
        bail!(
            "if another server of this cluster is ever started with its old directory, there are two clusters: \
             say --others-are-lost when that cannot happen"
        );
    }
    let id = cluster::identity(&dir, &RealDisk, &Machine::default())?;
    // Where it is reached it writes itself when it leads.
    let alone = stand_alone(&dir, id, "").with_context(|| format!("writing to the log in {}", dir.display()))?;
    let shown = |at: Option<songline_log::Position>| at.map_or_else(|| "none".to_owned(), |at| at.to_string());
    outln!("Server:                 {}", cluster::id_text(id));
    outln!("Last entry:             {}", shown(alone.last));
    outln!("Known as acknowledged:  {}", shown(alone.committed));
    outln!("Alone from entry:       {}", alone.written);
    outln!();
    outln!("Start the agent with bootstrap_expect = 1; other servers join with empty data directories.");
    Ok(())
}
