//! `operator snapshot save` and `restore`. Archives are inspected by the program itself, which can read them.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use tokio::io::AsyncWriteExt;

use crate::client::with_query;
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::progress::Progress;
use crate::{Context, General, Run, input, outln, values};

/// Arguments of `operator snapshot save`.
#[derive(Args)]
pub(crate) struct Save {
    #[command(flatten)]
    general: General,
    /// Ask any server, also one that does not lead.
    #[arg(long)]
    stale: bool,
    /// The file; by default one named after the time.
    file: Option<PathBuf>,
}

impl Run for Save {
    async fn run(self, _: &Context) -> Outcome {
        let file = self.file.unwrap_or_else(default_name);
        if file.exists() {
            return Err(Failure::new(format!("Destination file already exists: {:?}", file.display().to_string())));
        }
        let stale = if self.stale { "true" } else { "" };
        let path = with_query("/v1/operator/snapshot", &[("stale", stale)]);
        let response = self.general.client()?.open(&path).await.tried("Failed to get a new snapshot")?;
        // A file of this name is whole.
        let partial = PathBuf::from(format!("{}.tmp", file.display()));
        if let Err(error) = written(response, &partial).await {
            // What was written is of no use; a file that cannot be removed says so by itself.
            let _ = tokio::fs::remove_file(&partial).await;
            return Err(Failure::of("Failed to download snapshot file", format_args!("{error:#}")));
        }
        tokio::fs::rename(&partial, &file).await.tried("Failed to finalize snapshot file")?;
        outln!("State file written to {}", file.display());
        Ok(Exit::DONE)
    }
}

async fn written(mut response: reqwest::Response, path: &PathBuf) -> anyhow::Result<()> {
    let mut out = tokio::fs::File::create(path).await?;
    let progress = Progress::of_stream("Saving");
    while let Some(piece) = response.chunk().await? {
        progress.advance(piece.len() as u64);
        out.write_all(&piece).await?;
    }
    out.sync_all().await?;
    Ok(())
}

fn default_name() -> PathBuf {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let day: String = values::time(values::now()).chars().take(10).filter(|c| *c != '-').collect();
    PathBuf::from(format!("nomad-state-{day}-{seconds}.snap"))
}

/// Arguments of `operator snapshot restore`.
#[derive(Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    general: General,
    /// The archive.
    file: PathBuf,
}

impl Run for Restore {
    async fn run(self, _: &Context) -> Outcome {
        let file = tokio::fs::File::open(&self.file).await.map_err(|error| {
            let reason = format!("open {}: {}", self.file.display(), input::words(&error));
            Failure::of("Error opening snapshot file", reason)
        })?;
        let client = self.general.client()?;
        client.put_file("/v1/operator/snapshot", file).await.tried("Failed to restore snapshot")?;
        outln!("Snapshot Restored");
        Ok(Exit::DONE)
    }
}
