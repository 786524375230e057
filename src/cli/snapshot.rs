//! `snapshot save`, `snapshot restore`, `snapshot inspect`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use songline_projections::State;

use super::http::Api;
use super::{Target, table};
use crate::archive;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Save the cluster's state into a file.
    Save {
        #[command(flatten)]
        target: Target,
        /// The file; it must not exist.
        file: PathBuf,
    },
    /// Replace the cluster's state by that of a file.
    Restore {
        #[command(flatten)]
        target: Target,
        /// The file.
        file: PathBuf,
    },
    /// Verify a file and show what is in it.
    Inspect {
        /// The file.
        file: PathBuf,
    },
}

pub(crate) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Save { target, file } => {
            let response = Api::new(&target).open("/v1/operator/snapshot").await?;
            let promised = response.headers().get("digest").and_then(|value| value.to_str().ok()).map(str::to_owned);
            let bytes = response.bytes().await?;
            if promised.is_some_and(|promised| promised != archive::digest_header(&bytes)) {
                anyhow::bail!("the archive was damaged on its way: its digest does not match");
            }
            let (meta, _) = archive::read(&bytes)?;
            write_new(&file, &bytes)?;
            println!("State up to index {} saved to {} ({} bytes)", meta.index, file.display(), bytes.len());
        }
        Command::Restore { target, file } => {
            let bytes = read(&file)?;
            archive::read(&bytes)?;
            Api::new(&target).put_bytes("/v1/operator/snapshot", bytes).await?;
            println!("State of {} restored", file.display());
        }
        Command::Inspect { file } => {
            let (meta, content) = archive::read(&read(&file)?)?;
            let state = State::read_checkpoint(&mut &content[..]).with_context(|| format!("reading the state in {}", file.display()))?;
            table::pairs(&[
                ("ID", meta.id),
                ("Index", meta.index.to_string()),
                ("Term", meta.term.to_string()),
                ("Size", meta.size.to_string()),
                ("Digest", state.digest().to_string()),
            ]);
            println!();
            let rows: Vec<_> = state
                .table_digests()
                .into_iter()
                .map(|(name, digest)| vec![name.name().to_owned(), state.table_len(name).to_string(), digest.to_string()])
                .collect();
            table::print(&["Table", "Rows", "Digest"], &rows);
        }
    }
    Ok(())
}

fn read(file: &PathBuf) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("reading {}", file.display()))
}

fn write_new(file: &PathBuf, bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::fs::File::create_new(file).with_context(|| format!("making {}", file.display()))?;
    out.write_all(bytes)?;
    out.sync_all()?;
    Ok(())
}
